"""Memory that is a file's: found among a process's mappings, and given back to the kernel once it was read."""

import mmap

from halohop.linux import mappings, page_out


def is_mapped(address: int) -> bool:
    """Whether the memory at an address is that of a file; False where the system does not list mappings."""
    return any(each.begin <= address < each.end and each.inode != 0 for each in mappings())


def give_back(address: int, size: int) -> None:
    """Lets the kernel drop the pages that lie between these bytes as a whole; they are read from the file again when needed."""
    begin = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (address + size) // mmap.PAGESIZE * mmap.PAGESIZE
    if begin < end:
        page_out(begin, end - begin)
