"""A build of a graph that lies in files, in a process that watches how much memory of its own it takes."""

import sys
import threading
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.memory import private_bytes
from halohop.partitioning.building.build import partition
from halohop.store.foreign import map_foreign
from halohop.store.tables import EdgeTable, GraphTables, NodeTable


def write_graph(folder: Path, num_nodes: int, num_edges: int, width: int) -> None:
    """Writes ends, features and weights."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for name in ("src", "dst"):
        np.save(folder / f"{name}.npy", rng.integers(0, num_nodes, num_edges))
    np.save(folder / "x.npy", rng.random((num_nodes, width), dtype=np.float32))
    np.save(folder / "w.npy", rng.random((num_edges, 4), dtype=np.float32))


def mapped_graph(folder: Path) -> GraphTables:
    """The same, mapped."""

    def column(name: str) -> Tensor:
        return torch.from_numpy(map_foreign(folder / f"{name}.npy"))

    x = column("x")
    edges = EdgeTable(src=column("src"), dst=column("dst"), columns={"w": column("w")})
    return GraphTables(nodes={"n": NodeTable(num_nodes=len(x), columns={"x": x})}, edges={("n", "to", "n"): edges})


def main(folder: Path, out: Path) -> None:
    """Builds in the least memory that is enough, and prints by how many bytes the process grew at most."""
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.005):
            peak[0] = max(peak[0], private_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    tables = mapped_graph(folder)
    try:
        partition(tables, out, num_parts=3, memory="80MB")
    except InputError as error:
        least = str(error).rpartition(" ")[2]
    before = private_bytes()
    watcher.start()
    partition(tables, out, num_parts=3, method="random", memory=least)
    ended.set()
    watcher.join()
    print(peak[0] - before)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
