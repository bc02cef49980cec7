"""Machine code that was compiled beforehand, such as for an image of a container: found in a folder that cannot be written."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache

from halohop.errors import InputError

_LEVELS: Mapping[str, frozenset[str]] = {
    "x86-64-v2": frozenset({"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}),
    "x86-64-v3": frozenset({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}),
    "x86-64-v4": frozenset({"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}),
}
"""What each level of the x86-64 psABI asks of a processor, beside what the level before it does; by LLVM's names."""


class _Locator(CompileResultCacheImpl._locator_classes[0]):  # type: ignore[misc]  # the first is that of NUMBA_CACHE_DIR
    """Takes the folder without trying to write to it."""

    def ensure_cache_path(self) -> None:
        """It is there, or nothing is found."""


class _Implementation(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = [_Locator]  # noqa: RUF012  # as Numba spells it


class _Kept(FunctionCache):  # type: ignore[misc]
    """Loads what is there; what is not is compiled for this process alone."""

    _impl_class = _Implementation

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Nothing can be kept."""


def is_read_only() -> bool:
    """Whether NUMBA_CACHE_DIR names a folder that is there and cannot be written."""
    folder = numba.config.CACHE_DIR
    return bool(folder) and Path(folder).is_dir() and not os.access(folder, os.W_OK)


def with_kept_code(function: Callable[..., Any], **options: Any) -> Any:
    """`numba.njit`, with machine code from the folder NUMBA_CACHE_DIR, which cannot be written."""
    compiled = numba.njit(**options)(function)
    compiled._cache = _Kept(function)
    return compiled


def processor() -> tuple[str, str]:
    """Name and features of the processor that is compiled for, as LLVM calls them: NUMBA_CPU_NAME, or else this machine's."""
    try:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell on this platform; Numba compiles for none then
        features = ""
    name, given = numba.config.CPU_NAME, numba.config.CPU_FEATURES
    return llvmlite.binding.get_host_cpu_name() if name is None else name, features if given is None else given


def check_processor() -> None:
    """
    Raises:
        InputError: NUMBA_CPU_NAME is a level of x86-64 that this machine does not have: its code would end the process.
    """
    name = numba.config.CPU_NAME
    if name not in _LEVELS:
        return
    levels = list(_LEVELS)
    needed = frozenset().union(*(_LEVELS[level] for level in levels[: levels.index(name) + 1]))
    has = {feature for feature, there in llvmlite.binding.get_host_cpu_features().items() if there}
    if missing := sorted(needed - has):
        raise InputError(
            f"NUMBA_CPU_NAME={name}, but this machine's processor ({llvmlite.binding.get_host_cpu_name()}) has no "
            f"{', '.join(missing)}; name a lower level and compile the kernels for it, or run where all processors have it"
        )
