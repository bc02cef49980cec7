"""Hashes of the fields of batches of every loader: three batches of the first epoch, and the first of the second.

Left out: what METIS decides (`ClusterLoader` with a number, ``locality="blocks"``), because its versions differ; loaders that
need several processes of DGL or GLT, because `tests/dgl` and `tests/glt` show that their batches are those of one process; and
learned rows, which are computed.
"""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

import halohop
from tests.golden import faces
from tests.golden.graphs import DATA, HALO, direction, owners
from tests.golden.hashes import fields, hash_tensor
from tests.golden.loaders import DIVIDED, LOADERS

SEED = 4
KEPT = ((0, 0), (0, 1), (0, 2), (1, 0))
"""(epoch, batch); not every loader has the third."""

PERMUTATION = "torch.randperm"
"""Loaders with shuffle=True are compared only if torch shuffles as it did."""


def make() -> dict[str, Any]:
    found: dict[str, Any] = {PERMUTATION: permutation()}
    for name in SOURCES:
        try:
            found |= hashed(name, list(first_epochs(reference(name))))
        except Exception as error:
            found[name] = lambda error=error: failed(error)
    with tempfile.TemporaryDirectory(prefix="golden") as folder:
        for name, (num_parts, loader) in DIVIDED.items():
            try:
                with halohop.open(divide("typed", num_parts, Path(folder, name))) as graph:
                    found |= hashed(name, list(first_epochs(loader(graph, seed=SEED, run="inline"))))
            except Exception as error:
                found[name] = lambda error=error: failed(error)
    return found


def divide(source: str, num_parts: int, folder: Path) -> Path:
    """Partitions on disk by `owners`."""
    data, halo = DATA[source](), HALO[source]
    how = {"method": owners(data, num_parts), "halo": halo, "edge_dir": direction(source)}
    halohop.partition(data, folder, num_parts=num_parts, **how)
    return folder


def failed(error: Exception) -> None:
    raise error


def permutation() -> str:
    return hash_tensor(torch.randperm(60, generator=torch.Generator().manual_seed(5)))


def reference(name: str) -> Iterable[Any]:
    """A loader of the undivided graph, which makes one batch after the other."""
    source, make = SOURCES[name]
    if name.startswith("dgl"):
        return make(faces.DGL_GRAPHS[source](), seed=SEED, run="inline")
    if name.startswith("glt"):
        return make(faces.GLT_GRAPHS[source](), seed=SEED)
    data = DATA[source]()
    return make(halohop.graph(data, edge_dir="out") if direction(source) == "out" else data, seed=SEED, run="inline")


def first_epochs(loader: Iterable[Any], epochs: int = 2) -> Iterator[tuple[int, int, Any]]:
    """(epoch, number, batch)."""
    return ((epoch, number, batch) for epoch in range(epochs) for number, batch in enumerate(loader))


def hashed(name: str, batches: Iterable[tuple[int, int, Any]]) -> dict[str, dict[str, Any]]:
    return {
        f"{name} > epoch {epoch} batch {number}": fields(batch) for epoch, number, batch in batches if (epoch, number) in KEPT
    }


SOURCES = LOADERS | faces.DGL | faces.DGL_WHOLE | faces.GLT | faces.GLT_SAMPLERS
"""All cases but `DIVIDED`: the name of the graph, and the function that makes the loader."""
