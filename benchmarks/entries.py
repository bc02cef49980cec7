"""What a benchmark is: contestants, what is compared, what must be green."""

from dataclasses import dataclass, field
from typing import Any

FANOUT = [15, 10, 5]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A contestant: a module of benchmarks/contestants, its options, and the environment it runs in."""

    name: str
    module: str
    options: dict[str, Any]
    threads: int = 1
    group: str = ""
    """Groups are measured one after the other, where all contestants together would not fit into memory."""
    environment: str = "ours"
    """"ours", "dgl" (the one of benchmarks/peers.py), "pyg" (ours, where PyG can sample), or "pyg-lib" (where it can
    draw by weight and time, and say what hops drew)."""
    allocator: str = ""
    """"jemalloc", told to keep memory, as the guides of DGL and PyG advise; "" is the system's."""
    is_limit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How many times as much `entry` does in a second as `versus`, and how many times it should."""

    entry: str
    versus: str
    bar: float | None = None
    other_batches: bool = False
    """Whether their batches may differ in size: then what they do in a second is compared all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """What one run measures; `measure` is the count whose rate is compared. Without a graph contestants get no folder."""

    title: str
    graph: str | None
    measure: str
    unit: int
    entries: list[Entry]
    comparisons: list[Comparison]
    parts: tuple[int, ...] = (1,)
    metis: tuple[int, ...] = ()
    """Numbers of partitions that METIS makes, too."""
    copies: tuple[int, ...] = ()
    """Those of them that have copies of what batches of near seeds need, too."""
    dgl: bool = False
    """Whether DGL takes part with divisions in its own format."""
    tests: tuple[str, ...] = ("tests/ops", "tests/sampling")
    """What must be green."""
    remarks: list[str] = field(default_factory=list)


def versus(entry: str, versus: str, bar: float | None = None) -> Comparison:
    return Comparison(entry=entry, versus=versus, bar=bar)


def in_threads(threads: int) -> str:
    """The end of a contestant's name."""
    return f"{threads} thread{'s' * (threads > 1)}"
