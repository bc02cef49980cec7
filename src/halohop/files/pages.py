"""Memory that is a file's: found among a process's mappings, and given back to the kernel once it was read."""

import mmap
from pathlib import Path

from halohop.files.libc import page_out

_MAPS = Path("/proc/self/maps")


def is_mapped(address: int) -> bool:
    """Whether the memory at an address is that of a file; False where the system does not list mappings."""
    if not address or not _MAPS.exists():
        return False
    for line in _MAPS.read_text(errors="replace").splitlines():
        addresses, _, _, _, inode, *_ = line.split(maxsplit=5)
        begin, end = (int(bound, 16) for bound in addresses.split("-"))
        if begin <= address < end:
            return inode != "0"
    return False


def give_back(address: int, size: int) -> None:
    """Lets the kernel drop the pages that lie between these bytes as a whole; they are read from the file again when needed."""
    begin = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (address + size) // mmap.PAGESIZE * mmap.PAGESIZE
    if begin < end:
        page_out(begin, end - begin)
