"""The allocator that a contestant runs with: the system's, or jemalloc as the guides of DGL and PyG advise."""

import ctypes.util
import os

KEEP = "dirty_decay_ms:-1,muzzy_decay_ms:-1,oversize_threshold:0,thp:always"
"""jemalloc keeps what is freed, on large pages: large arrays of one batch are used again by the next."""


def variables(allocator: str) -> dict[str, str]:
    """The environment variables that make a process use it."""
    if not allocator:
        return {}
    library = _library(allocator)
    assert library is not None  # asked for by `missing` before
    return {"LD_PRELOAD": f"{library} {os.environ.get('LD_PRELOAD', '')}".strip(), "MALLOC_CONF": KEEP}


def missing(allocator: str) -> str:
    """Why it cannot be used; empty if it can."""
    return f"{allocator} is not installed (Debian: apt install libjemalloc2)" if allocator and not _library(allocator) else ""


def _library(allocator: str) -> str | None:
    return ctypes.util.find_library(allocator)
