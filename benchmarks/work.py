"""What contestants of every environment need: the seeds of the next batches, and arrays from the common files. NumPy only."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH_SIZE = 1024
SEED_TIME = 500_000
"""Of every seed where edges have times: half of them are earlier."""


class SeedBatches:
    """Seeds of the next batches, nodes or edges; every contestant gets the same ones in the same order."""

    def __init__(self, folder: str, batch_size: int = BATCH_SIZE, *, links: bool = False) -> None:
        self.seeds = np.load(Path(folder) / ("links.npy" if links else "seeds.npy"))
        self.batch_size = min(batch_size, len(self.seeds))
        self._next = itertools.cycle(range(len(self.seeds) // self.batch_size))

    def take(self, count: int) -> Iterator[np.ndarray[Any, Any]]:
        for number in itertools.islice(self._next, count):
            yield self.seeds[number * self.batch_size : (number + 1) * self.batch_size]


def anonymous_bytes() -> int:
    """What this process holds that is no page of a file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def relations(folder: str) -> dict[tuple[str, str, str], tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """(indptr int64, indices int32 or int64) of every relation, read into memory."""
    tables = sorted((_part(folder) / "edges").iterdir())
    return {
        tuple(table.name.split("__")): (np.load(table / "indptr.npy"), np.load(table / "indices.npy"))  # type: ignore[misc]
        for table in tables
    }


def column(folder: str, name: str, node_type: str = "node") -> np.ndarray[Any, Any]:
    """A column of the nodes, read into memory."""
    array: np.ndarray[Any, Any] = np.load(_part(folder) / "nodes" / node_type / f"{name}.npy")
    return array


def edge_column(folder: str, name: str) -> np.ndarray[Any, Any]:
    """A column of the edges of the only relation, in the order of CSC, read into memory."""
    (table,) = (_part(folder) / "edges").iterdir()
    array: np.ndarray[Any, Any] = np.load(table / f"{name}.npy")
    return array


def edge_ends(folder: str, edges: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sources and destinations of edges of the only relation, given by their positions in CSC; int64 ``[2, n]``."""
    ((indptr, indices),) = relations(folder).values()
    return np.stack([indices[edges].astype(np.int64), np.searchsorted(indptr, edges, side="right") - 1])


def _part(folder: str) -> Path:
    return Path(folder) / "parts-1" / "part-0000"
