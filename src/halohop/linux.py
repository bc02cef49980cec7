"""What only Linux has: calls of its kernel and C library, and files below /proc.

No other module calls these. Each docstring says what its function does elsewhere, on macOS for example.
"""

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from halohop.errors import WriteError

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_MADV_PAGEOUT = 21  # of Linux 5.4
_WRITE_AND_WAIT = 7  # all three flags of sync_file_range
_SIGNAL_ON_PARENT_END, _ADOPT_ORPHANS = 1, 36  # of prctl
_MAX_ARENAS, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1  # of glibc's mallopt
_ADDRESS_OF_INTERFACE = 0x8915  # SIOCGIFADDR
_PROC = Path("/proc")
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV)


def exchange(one: Path, other: Path) -> bool:
    """Exchanges two names in one step, so that both exist at every moment; False where the file system cannot (NFS).

    Raises:
        WriteError: the names may not be changed.
    """
    if not hasattr(c_library(), "renameat2"):
        return False
    if c_library().renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
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
        c_library().madvise(address, size, _MADV_PAGEOUT)


def write_back(descriptor: int, file: Path) -> None:
    """Waits until what was written to an open file has reached the disk, without its size and times, so that its pages can be
    dropped.

    Raises:
        WriteError: the disk failed; names the file.
    """
    if not hasattr(c_library(), "sync_file_range"):
        os.fsync(descriptor)
    elif c_library().sync_file_range(descriptor, 0, 0, _WRITE_AND_WAIT) != 0:
        code = ctypes.get_errno()
        raise WriteError.of(file, OSError(code, os.strerror(code)))


def reserve(descriptor: int, size: int) -> None:
    """Makes a file `size` bytes long and takes their room on disk; elsewhere the room is not taken.

    Raises:
        OSError: there is not so much room.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.truncate(descriptor, size)


def forget_pages(descriptor: int) -> None:
    """Drops a file's pages that are on disk from the page cache; they stay elsewhere."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


class Mapping(NamedTuple):
    """A part of this process's memory, and the file that it maps; inode 0 where it maps none."""

    begin: int
    end: int
    offset: int
    inode: int
    path: str


def mappings() -> Iterator[Mapping]:
    """All parts of this process's memory; none elsewhere."""
    for line in _read("self/maps").splitlines():
        addresses, _, offset, _, inode, *path = line.split(maxsplit=5)
        begin, end = (int(address, 16) for address in addresses.split("-"))
        yield Mapping(begin, end, int(offset, 16), int(inode), path[0] if path else "")


def boot_id() -> str:
    """Names the running system until it is started again, the same in all its containers; empty elsewhere."""
    return _read("sys/kernel/random/boot_id").strip()


def seconds_since_boot() -> float:
    """Seconds since the system started, sleep included; 0 elsewhere."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0


def namespace(kind: str) -> str:
    """Names a namespace (`net`, `pid`) of this process; empty elsewhere."""
    with suppress(OSError):
        return str((_PROC / "self/ns" / kind).readlink())
    return ""


def start_time(process: int | str) -> str:
    """When a process started, in ticks of the kernel; empty if it has ended, and elsewhere."""
    words = _read(f"{process}/stat").rpartition(")")[2].split()
    return words[19] if words else ""


def first_ephemeral_port() -> int:
    """The first port that the kernel gives to connections of its own choice; 32768 elsewhere."""
    return int((_read("sys/net/ipv4/ip_local_port_range") or "32768").split()[0])


def addresses_of(interface: str) -> set[str]:
    """The IP addresses of an interface of this host; none of one that is not there, and none elsewhere."""
    found = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):  # it has no IPv4 address
        answer = fcntl.ioctl(probe, _ADDRESS_OF_INTERFACE, struct.pack("256s", interface.encode()))
        found.add(socket.inet_ntoa(answer[20:24]))
    lines = [line.split() for line in _read("net/if_inet6").splitlines()]
    return found | {socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line[0])) for line in lines if line[5] == interface}


def path_of_open_file(descriptor: int, path: Path) -> Path:
    """Where an open file is, whatever a link at `path` has become since; elsewhere where `path` leads now."""
    with suppress(OSError):
        return (_PROC / "self/fd" / str(descriptor)).readlink()
    return path.resolve()


def has_memory_files() -> bool:
    """Whether `memory_file` works: elsewhere it does not."""
    return hasattr(os, "memfd_create")


def memory_file(name: str, size: int) -> int:
    """A descriptor of memory that processes can share, without a name in any folder."""
    descriptor = os.memfd_create(name)
    os.ftruncate(descriptor, size)
    return descriptor


def has_process_descriptors() -> bool:
    """Whether `process_descriptor` works: from Linux 5.3 on."""
    try:
        os.close(process_descriptor(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def process_descriptor(process: int) -> int:
    """A descriptor that becomes readable when a process ends."""
    return os.pidfd_open(process)


def signal_on_parent_end(kind: signal.Signals) -> None:
    """Has the kernel send this process a signal when its parent ends, even if no thread can run; does nothing elsewhere."""
    if hasattr(c_library(), "prctl"):
        c_library().prctl(_SIGNAL_ON_PARENT_END, int(kind), 0, 0, 0)


def kill_on_end_of_file(descriptor: int, process: int) -> None:
    """Has the kernel kill a process, or a group by its negative number, when a pipe's other end closes; does nothing elsewhere.

    Whom the kernel signals, and how, belongs to an opening of the pipe. This takes one of its own, which stays open until the
    process ends.
    """
    if hasattr(fcntl, "F_SETSIG"):
        own = os.open(_PROC / "self/fd" / str(descriptor), os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(own, fcntl.F_SETOWN, process)
        fcntl.fcntl(own, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(own, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)


def parents() -> Iterator[tuple[int, int, str]]:
    """Each process with its parent and the letter of its state; none elsewhere."""
    for folder in _PROC.glob("[0-9]*"):
        if words := _read(f"{folder.name}/stat").rpartition(")")[2].split():
            yield int(folder.name), int(words[1]), words[0]


def adopt_orphans() -> None:
    """Makes this process the parent of those of its descendants that lose their own; does nothing elsewhere."""
    if hasattr(c_library(), "prctl"):
        c_library().prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)


def name_process(name: str) -> None:
    """Names this process in `ps -e` and `top`, in at most 15 letters; does nothing elsewhere."""
    with suppress(OSError):
        (_PROC / "self/comm").write_text(name)


def trim_heaps() -> None:
    """Gives the system back what this process has freed and glibc keeps; other C libraries do as they do."""
    if hasattr(c_library(), "malloc_trim"):
        c_library().malloc_trim(0)


def limit_heaps(*, arenas: int, mmap_threshold: int, trim_threshold: int) -> None:
    """Sets what glibc keeps of memory that is freed (mallopt); does nothing elsewhere.

    Args:
        arenas: how many heaps threads share.
        mmap_threshold: blocks of so many bytes or more are mapped.
        trim_threshold: free bytes at the end of a heap that go back to the system.
    """
    if hasattr(c_library(), "mallopt"):
        c_library().mallopt(_MAX_ARENAS, arenas)
        c_library().mallopt(_MMAP_THRESHOLD, mmap_threshold)
        c_library().mallopt(_TRIM_THRESHOLD, trim_threshold)


def _read(file: str) -> str:
    """A file below /proc; empty if it cannot be read."""
    try:
        return (_PROC / file).read_text(errors="replace")
    except OSError:
        return ""


@cache
def c_library() -> ctypes.CDLL:
    """The C library that Python runs on."""
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
