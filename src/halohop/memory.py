"""How much memory a trainer has: its share of the machine's, or of a container's limit; and sizes as people write them."""

import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path

from halohop.errors import InputError
from halohop.world import trainers_here

__all__ = [
    "format_size",
    "machine_bytes",
    "parse_size",
    "release",
    "spare_bytes",
    "trainer_bytes",
]

MOST_IDLE = 4 << 30
_SHARE = 16
_M_ARENA_MAX = -8  # of glibc's malloc.h
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
    return min([*_physical(root), *_group_limits(root)], default=2**63 - 1)


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
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def limit_arenas() -> None:
    """Has threads share heaps, one per core of this trainer: glibc makes eight per core, and each keeps what was freed in it.

    Has no effect on heaps that are there already, and none where the user has set MALLOC_ARENA_MAX.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim") and "MALLOC_ARENA_MAX" not in os.environ:
        libc.mallopt(_M_ARENA_MAX, max((os.cpu_count() or 1) // max(trainers_here(), 1), 2))


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


def _physical(root: Path) -> Iterator[int]:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:  # not Linux
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return
    yield from (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))


def _group_limits(root: Path) -> Iterator[int]:
    """The limits of the groups that this process is in, and of those that these are in."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
        top = root / "sys/fs/cgroup" / base
        folder = top / group.lstrip("/")
        for place in (folder, *folder.parents):  # within a container the path may not be there, but its root is
            if place.is_relative_to(top):
                yield from _limit(place / name)


def _limit(file: Path) -> Iterator[int]:
    try:
        text = file.read_text().strip()
    except OSError:  # no limit at this level, or none that we may read
        return
    if text.isdecimal():  # v2 says "max" where there is none, v1 a number beyond all memory
        yield int(text)
