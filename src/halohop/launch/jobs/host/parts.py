"""Which partitions lie in a folder: all that a host and a launcher read of a manifest, without torch."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from halohop.store.names import MANIFEST


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Of a table, where its partitions begin and end."""

    bounds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manifest:
    nodes: tuple[_Table, ...]


def parts_in(folder: Path) -> tuple[int, ...]:
    """The numbers of the partitions in a folder, ascending."""
    numbers = [part.name.removeprefix("part-") for part in folder.glob("part-*") if part.is_dir()]
    return tuple(sorted(int(number) for number in numbers if number.isdecimal()))


def num_parts_of(folder: Path) -> int:
    """How many partitions the data set of a folder has; 0 where its manifest is damaged: who opens it says what is wrong.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return len(msgspec.json.decode((folder / MANIFEST).read_bytes(), type=_Manifest).nodes[0].bounds) - 1
    except (msgspec.DecodeError, IndexError):
        return 0
