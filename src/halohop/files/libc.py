"""What Python does not offer of the C library: mappings without a descriptor, advice on them, two names exchanged in one step."""

import ctypes
import errno
import mmap
import os
import sys
import weakref
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from halohop.errors import DatasetError, WriteError

# Python's mmap names the Linux flag only since 3.13; elsewhere it is either named or not needed.
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_MADV_PAGEOUT = 21  # of Linux 5.4
_WRITE_AND_WAIT = 7  # all three flags of sync_file_range
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV)


def map_privately(descriptor: int, size: int, file: Path) -> NDArray[np.uint8]:
    """All bytes of a file that is open for reading.

    The pages are private and writable: torch wants writable memory and has no read-only tensors, and a stray write then gets a
    copy of its page, which no other process and no file ever sees. Pages that are only read are the page cache's own, shared by
    all processes. Without a reservation a file may be larger than RAM: the kernel need not promise a copy of every page.

    Python's `mmap` keeps a descriptor open for each mapping, and a graph of many relations has thousands of arrays; hence libc.

    Raises:
        DatasetError: the operating system cannot map it.
    """
    libc = _libc()
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    address = libc.mmap(None, size, protection, mmap.MAP_PRIVATE | _NORESERVE, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise DatasetError(f"cannot map the {size} bytes of {file}: {os.strerror(ctypes.get_errno())}")
    if hasattr(mmap, "MADV_HUGEPAGE"):
        libc.madvise(address, size, mmap.MADV_HUGEPAGE)  # a wish: fewer look-ups of addresses where the system grants it
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
            _libc().madvise(begin, address + size - begin, getattr(mmap, advice))


def exchange(one: Path, other: Path) -> bool:
    """Exchanges two names in one step, so that both exist at every moment; False where the file system cannot (NFS).

    Raises:
        WriteError: the names may not be changed.
    """
    if not hasattr(_libc(), "renameat2"):
        return False
    if _libc().renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise WriteError.of(other, OSError(code, os.strerror(code)))


def page_out(address: int, size: int) -> None:
    """Lets the kernel drop pages of a mapped file at once, and not first when memory is short.

    Nothing is lost of what was written to a private mapping. Where the kernel does not know this wish, the pages stay for now.
    """
    if sys.platform == "linux":
        _libc().madvise(address, size, _MADV_PAGEOUT)


def write_back(descriptor: int, file: Path) -> None:
    """Waits until what was written to an open file has reached the disk, without its size and times, so that its pages can be
    dropped.

    Raises:
        WriteError: the disk failed; names the file.
    """
    if not hasattr(_libc(), "sync_file_range"):
        os.fsync(descriptor)
    elif _libc().sync_file_range(descriptor, 0, 0, _WRITE_AND_WAIT) != 0:
        code = ctypes.get_errno()
        raise WriteError.of(file, OSError(code, os.strerror(code)))


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if hasattr(libc, "sync_file_range"):
        libc.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_uint)
    if hasattr(libc, "renameat2"):
        libc.renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return libc
