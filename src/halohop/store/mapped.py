"""Files that were cut short while this process has them mapped: reading what is gone ends a process (SIGBUS), without a word."""

import mmap
from pathlib import Path

from halohop.linux import Mapping, mappings


def shortened_files() -> list[str]:
    """The mapped arrays (``.npy``) that end before their mappings do; none where the system does not list mappings."""
    return sorted({each.path for each in mappings() if each.path.endswith(".npy") and _is_shorter(each)})


def _is_shorter(mapping: Mapping) -> bool:
    try:
        status = Path(mapping.path).stat()
    except OSError:  # deleted meanwhile, which does no harm to a mapping
        return False
    end = mapping.offset + mapping.end - mapping.begin
    return status.st_ino == mapping.inode and status.st_size <= end - mmap.PAGESIZE
