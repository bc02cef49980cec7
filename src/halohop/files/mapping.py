"""Files as arrays: mappings without a descriptor, and advice on how they are read."""

import ctypes
import mmap
import os
import sys
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from halohop.errors import DatasetError
from halohop.linux import c_library

# Python's mmap names the Linux flag only since 3.13; elsewhere it is either named or not needed.
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


def map_privately(descriptor: int, size: int, file: Path) -> NDArray[np.uint8]:
    """All bytes of a file that is open for reading.

    The pages are private and writable: torch wants writable memory and has no read-only tensors, and a stray write then gets a
    copy of its page, which no other process and no file ever sees. Pages that are only read are the page cache's own, shared by
    all processes. Without a reservation a file may be larger than RAM: the kernel need not promise a copy of every page.

    Python's `mmap` keeps a descriptor open for each mapping, and a graph of many relations has thousands of arrays; hence libc.

    Raises:
        DatasetError: the operating system cannot map it.
    """
    memory = _map(descriptor, size, mmap.MAP_PRIVATE | _NORESERVE, str(file))
    if hasattr(mmap, "MADV_HUGEPAGE"):  # a wish: fewer look-ups of addresses where the system grants it
        c_library().madvise(memory.ctypes.data, size, mmap.MADV_HUGEPAGE)
    return memory


def map_shared_file(descriptor: int, size: int, name: str) -> NDArray[np.uint8]:
    """All bytes of a file that is open for reading and writing: what one process writes, others that map it see.

    It stays mapped when the descriptor is closed.

    Raises:
        DatasetError: the operating system cannot map it; has its `name`.
    """
    return _map(descriptor, size, mmap.MAP_SHARED, name)


def _map(descriptor: int, size: int, flags: int, name: str) -> NDArray[np.uint8]:
    libc = c_library()
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise DatasetError(f"cannot map the {size} bytes of {name}: {os.strerror(ctypes.get_errno())}")
    memory = (ctypes.c_ubyte * size).from_address(address)
    # Not at exit: a thread may still read then, and the process's end unmaps everything anyway.
    weakref.finalize(memory, libc.munmap, address, size).atexit = False
    return np.ctypeslib.as_array(memory)


def read_by_rows(address: int, size: int) -> None:
    """Advises the system that what is mapped there does not fit into memory, and that rows of it are read in no order.

    Without it a row that is not in memory costs what the disk reads ahead, which may be megabytes, and pages that go
    unread drive others out.
    """
    begin = address - address % mmap.PAGESIZE
    for advice in ("MADV_NOHUGEPAGE", "MADV_RANDOM"):  # a huge page would be read whole
        if hasattr(mmap, advice):
            c_library().madvise(begin, address + size - begin, getattr(mmap, advice))
