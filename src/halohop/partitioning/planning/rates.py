"""How quickly this machine partitions: a small graph is divided in steps and buckets, as a large one is, and timed."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from halohop.cores import usable_cores
from halohop.files.aside import writing
from halohop.memory import private_bytes
from halohop.partitioning.assigners.assign import assign
from halohop.partitioning.building.build import partition
from halohop.partitioning.planning.estimate import Rates
from halohop.store.npy import map_array, write_array
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE

_NODES, _EDGES, _FEATURES = 200_000, 2_000_000, 64
_FEWER = 5  # times smaller is what a method divides that takes its time; much smaller graphs METIS divides with more care
_CODE, _ROOM = 128 << 20, 34 << 20  # beside what is there: for kernels, and for the rows of each thread, a part of the graph's
_PARTS, _NEAR = 4, 50
_DEALT = ("random", "range")
_SOONEST = 1e-4  # seconds: clocks are no finer


def measured_rates(folder: Path, method: str) -> Rates:
    """The rates of this machine, on the disk of a folder, in about as many seconds as a graph of two million edges takes.

    Args:
        folder: where files are written, and removed.
        method: how nodes are assigned.

    Raises:
        WriteError: the folder cannot be written.
        InputError: there is no such method, or it is not installed.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(prefix="halohop-rates-", dir=folder)
    with scratch as name:
        return _measured(Path(name), method)


def _measured(folder: Path, method: str) -> Rates:
    _timed(_random_graph(100), folder / "warm", None)  # compiles the kernels
    begun = time.perf_counter()
    tables, num_bytes = _mapped(_random_graph(_NODES), folder)
    read = num_bytes / max(time.perf_counter() - begun, _SOONEST)
    memory = private_bytes() + _CODE + len(usable_cores()) * _ROOM
    spent = _timed(tables, folder / "parts", memory)
    edge_bytes, node_bytes = 12 * _EDGES, _NODES * 4 * _FEATURES
    rates = {
        "number": _NODES / spent("number"),
        "count": _EDGES / spent("count"),
        "move": (node_bytes + edge_bytes) / spent("move"),
        "sort": edge_bytes / spent("sort"),
        "finish": _EDGES / spent("finish"),
    }
    assigned = _NODES / spent("assign") if method in _DEALT else _assigned(method)
    return Rates(read=read, assign={method: assigned}, **rates)


def _assigned(method: str) -> float:
    """Edges in a second."""
    assign(_random_graph(100), _PARTS, method)  # compiles its kernels
    graph = _random_graph(_NODES // _FEWER)
    begun = time.perf_counter()
    assign(graph, _PARTS, method)
    return graph.edges[EDGE].num_edges / max(time.perf_counter() - begun, _SOONEST)


def _timed(tables: GraphTables, out: Path, memory: int | None) -> Callable[[str], float]:
    """Divides a graph; returns what says how many seconds a pass took."""
    spent: dict[str, float] = {}
    current, since = "", time.perf_counter()

    def progress(stage: str, done: int, total: int) -> None:
        nonlocal current, since
        now = time.perf_counter()
        spent[current] = spent.get(current, 0.0) + now - since
        current, since = stage, now

    partition(tables, out, num_parts=_PARTS, method="random", memory=memory, progress=progress)
    progress("", 0, 0)
    return lambda stage: max(spent.get(stage, 0.0), _SOONEST)


def _random_graph(num_nodes: int) -> GraphTables:
    """Half of the edges lead to a near node, so that there is something to find for an assigner."""
    generator = torch.Generator().manual_seed(0)
    num_edges = num_nodes * _EDGES // _NODES
    src, dst = (torch.randint(num_nodes, (num_edges,), generator=generator) for _ in range(2))
    near = (src + torch.randint(1, _NEAR, (num_edges,), generator=generator)) % num_nodes
    dst = torch.where(torch.rand(num_edges, generator=generator) < 0.5, near, dst)
    columns = {"x": torch.rand(num_nodes, _FEATURES, generator=generator)}
    return GraphTables(nodes={NODE: NodeTable(num_nodes=num_nodes, columns=columns)}, edges={EDGE: EdgeTable(src=src, dst=dst)})


def _mapped(tables: GraphTables, folder: Path) -> tuple[GraphTables, int]:
    """The same in files, and how many bytes these have."""
    ends, x = tables.edges[EDGE], tables.nodes[NODE].columns["x"]
    stored = {"src": ends.src, "dst": ends.dst, "x": x}
    mapped: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        file = folder / f"{name}.npy"
        mapped[name] = map_array(file, write_array(file, tensor), tensor.dtype)
    return (
        GraphTables(
            nodes={NODE: NodeTable(num_nodes=len(x), columns={"x": mapped["x"]})},
            edges={EDGE: EdgeTable(src=mapped["src"], dst=mapped["dst"])},
        ),
        sum(tensor.nbytes for tensor in stored.values()),
    )
