"""Takes what only Linux has away from every interpreter that finds this folder on PYTHONPATH, as Python on a Mac lacks it.

Libraries are imported first: they look for the libraries of the system that they were built for.
"""

import ctypes
import fcntl
import mmap
import os
import signal
import socket
import sys
import time
from typing import Any

import numba  # noqa: F401
import torch
import torch_geometric  # noqa: F401

LACKING: dict[Any, tuple[str, ...]] = {
    os: (
        *("memfd_create", "pidfd_open", "P_PIDFD", "posix_fallocate", "posix_fadvise", "sched_getaffinity", "sched_setaffinity"),
        *("eventfd", "splice", "copy_file_range", "getrandom", "fdatasync", "O_TMPFILE"),
    ),
    mmap: ("MADV_HUGEPAGE", "MADV_NOHUGEPAGE", "MAP_POPULATE", "MAP_NORESERVE"),
    signal: ("pidfd_send_signal",),
    socket: ("TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "SO_PEERCRED"),
    time: ("CLOCK_BOOTTIME",),
    fcntl: ("F_SETSIG", "F_OFD_SETLK"),
}
FUNCTIONS = ("prctl", "renameat2", "sync_file_range", "malloc_trim", "mallopt")


class Library(ctypes.CDLL):
    """A C library without the functions of Linux's."""

    def __getattr__(self, name: str) -> Any:
        if name in FUNCTIONS:
            raise AttributeError(name)
        return super().__getattr__(name)


for module, names in LACKING.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
ctypes.CDLL = Library  # type: ignore[misc]
sys.platform = "darwin"
torch.multiprocessing.set_start_method("spawn", force=True)
