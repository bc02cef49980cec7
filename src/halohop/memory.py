"""How much memory a trainer has: its share of the machine's, or of a container's limit; and sizes as people write them."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from halohop import linux
from halohop.cores import usable_cores
from halohop.errors import InputError
from halohop.world import trainers_here

__all__ = [
    "available_bytes",
    "format_size",
    "machine_bytes",
    "parse_size",
    "release",
    "spare_bytes",
    "trainer_bytes",
]

MOST_IDLE = 4 << 30
_SHARE = 16
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
_UNITS = (
    {"": 1, "b": 1}
    | {f"{name}ib": 1024**power for name, power in _POWERS.items()}
    | {f"{name}b": 1000**power for name, power in _POWERS.items()}
)
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def machine_bytes(root: Path = Path("/")) -> int:
    """Bytes of memory that this process may use: the machine's, or the lowest limit of its control groups (v1 and v2).

    Args:
        root: where ``proc`` and ``sys`` are; only tests have another one.

    Example:
        >>> machine_bytes() > 2**20
        True
    """
    return _least_limit(root, _groups(root))


def available_bytes(root: Path = Path("/")) -> int:
    """Bytes of memory that are free, or taken by copies of files only: of the machine, or of the fullest of its control groups.

    Args:
        root: where ``proc`` and ``sys`` are; only tests have another one.

    Example:
        >>> 0 <= available_bytes() <= machine_bytes()
        True
    """
    return max(min([*_free(root), *_group_room(root)], default=machine_bytes(root)), 0)


def private_bytes(root: Path = Path("/")) -> int:
    """Bytes that this process holds and shares with no file: its heap and stacks; 0 where the system does not say.

    Example:
        >>> private_bytes() >= 0
        True
    """
    return 1024 * sum(_lines_of(root / "proc/self/status").get(f"{name}:", 0) for name in ("RssAnon", "RssShmem"))


def trainer_bytes(root: Path = Path("/")) -> int:
    """This trainer's share of `machine_bytes`: as much as every other trainer of the host has (`LOCAL_WORLD_SIZE`)."""
    return machine_bytes(root) // max(trainers_here(), 1)


def spare_bytes() -> int:
    """What a trainer may hold without need, by default: for batches made ahead, and the same again for memory that lies idle.

    A sixteenth of its share of the memory, at most 4 GiB: with 64 GiB for each trainer that is the 4 GiB, with 12 GiB it is
    768 MiB.
    """
    return min(trainer_bytes() // _SHARE, MOST_IDLE)


def release() -> None:
    """Gives the system back what this process has freed; glibc keeps it, between what is in use. Other C libraries do as they do.

    What is allocated next costs page faults again, so this belongs where a run changes from one kind of work to another.

    Example:
        >>> release()
    """
    linux.trim_heaps()


def limit_heaps() -> None:
    """Has glibc keep less of what is freed, where the user has not chosen by MALLOC_... or GLIBC_TUNABLES.

    Threads share heaps, one per core of this trainer instead of eight per core, and what is free at the end of a heap goes
    back to the system from 4 MiB on. Blocks above 32 MiB are mapped, where glibc's own limit for them ends. Heaps that are
    there already stay.
    """
    chosen = any(name.startswith("MALLOC_") for name in os.environ) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if not chosen:
        arenas = max(len(usable_cores()) // max(trainers_here(), 1), 1)
        linux.limit_heaps(arenas=arenas, mmap_threshold=32 << 20, trim_threshold=4 << 20)


def parse_size(text: str | int) -> int:
    """The bytes that a size means: a number of bytes, or one with a unit (KiB, MiB, GiB, TiB; KB, MB, GB, TB).

    Raises:
        InputError: it is no size.

    Example:
        >>> parse_size("512MiB"), parse_size("1.5 GB"), parse_size(4096)
        (536870912, 1500000000, 4096)
    """
    match = _SIZE.fullmatch(str(text))
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InputError(f"{text!r} is no size; write a number and a unit, such as 512MiB or 2GiB")
    return int(float(match[1]) * unit)


def format_size(num_bytes: float) -> str:
    """A size as people read it, in three digits.

    Example:
        >>> format_size(536870912), format_size(1536), format_size(3)
        ('512 MiB', '1.5 KiB', '3 B')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1000:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.3g} TiB"


@cache
def _physical(root: Path) -> tuple[int, ...]:
    if (total := _lines_of(root / "proc/meminfo").get("MemTotal:")) is not None:
        return (total * 1024,)
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:  # not Linux
        return (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),)
    return ()


def _free(root: Path) -> Iterator[int]:
    if (free := _lines_of(root / "proc/meminfo").get("MemAvailable:")) is not None:
        yield free * 1024


@cache
def _least_limit(root: Path, groups: "tuple[tuple[Path, _Names], ...]") -> int:
    """(Looked up once, for as long as a process is in these groups: a loader of a small graph would wait for it.)"""
    limits = (limit for folder, names in groups for limit in _number(folder / names.limit))
    return min([*_physical(root), *limits], default=2**63 - 1)


def _group_room(root: Path) -> Iterator[int]:
    """What the groups leave; what files take of them can be freed."""
    for folder, names in _groups(root):
        for limit, usage in zip(_number(folder / names.limit), _number(folder / names.usage), strict=False):
            files = _lines_of(folder / "memory.stat")
            yield limit - usage + sum(files.get(f"{names.prefix}{kind}_file", 0) for kind in ("active", "inactive"))


class _Names(NamedTuple):
    """How a version of control groups calls what it says of memory."""

    limit: str
    usage: str
    prefix: str


_V1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
_V2 = _Names("memory.max", "memory.current", "")


def _groups(root: Path) -> tuple[tuple[Path, _Names], ...]:
    """The folders of the groups that this process is in, and of those that these are in."""
    try:
        return _folders_of(root, (root / "proc/self/cgroup").read_text())
    except OSError:
        return ()


@cache
def _folders_of(root: Path, groups: str) -> tuple[tuple[Path, _Names], ...]:
    """(Loaders ask for memory, and so often: what a process is in hardly ever changes.)"""
    found = []
    for line in groups.splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        folder = top / group.lstrip("/")
        places = (place for place in (folder, *folder.parents) if place.is_relative_to(top))
        found += [(place, _V1 if controllers else _V2) for place in places]  # in a container the path may not be there
    return tuple(found)


def _number(file: Path) -> Iterator[int]:
    try:
        text = file.read_text().strip()
    except OSError:  # no limit at this level, or none that we may read
        return
    if text.isdecimal():  # v2 says "max" where there is none, v1 a number beyond all memory
        yield int(text)


def _lines_of(file: Path) -> dict[str, int]:
    """The numbers of a file of names and numbers, by name; none where it cannot be read, and of lines that hold other things."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}
