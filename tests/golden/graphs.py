"""Small graphs of numbers that no library makes, so that they are the same with every version of torch and NumPy."""

from collections.abc import Mapping
from math import prod

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import halohop

CITES, WRITES, BACK = ("paper", "cites", "paper"), ("author", "writes", "paper"), ("paper", "rev_writes", "author")
COUNTS = {"paper": 80, "author": 30, "venue": 1}
RELATIONS = {CITES: (80, 80), WRITES: (30, 80), BACK: (80, 30)}
EDGES = 300


def numbers(high: int, *shape: int, key: int = 0) -> Tensor:
    """Integers from 0 to high - 1: SplitMix64 of their positions (Steele, Lea & Flood 2014)."""
    with np.errstate(over="ignore"):
        mixed = np.arange(prod(shape), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64((key + 1) << 32)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return torch.from_numpy((mixed % np.uint64(high)).astype(np.int64).reshape(shape))


def floats(*shape: int, key: int = 0) -> Tensor:
    """float32 that every float dtype holds exactly: -4, -3.875, ..., 3.875."""
    return (numbers(64, *shape, key=key) - 32).float() / 8


def weights(count: int, key: int) -> Tensor:
    """float32 from 0 to 1023 sixteenths, a tenth of them 0."""
    return (numbers(1024, count, key=key) * (numbers(10, count, key=key + 1) > 0)).float() / 16


def typed() -> HeteroData:
    """Two node types, and a third that nothing leads to; weights, times of edges and of nodes, features of several dtypes."""
    data = HeteroData()
    for key, (name, count) in enumerate(COUNTS.items()):
        data[name].x = floats(count, 3 - key, key=key) if name != "author" else floats(count, 2, key=key).half()
        data[name].when = numbers(100, count, key=10 + key)
        data[name].part = numbers(6, count, key=20 + key)
    data["paper"].y = numbers(5, 80, key=30)
    data["paper"].train_mask = numbers(4, 80, key=31) > 0
    for key, (relation, (num_src, num_dst)) in enumerate(RELATIONS.items()):
        edges = data[relation]
        edges.edge_index = torch.stack([numbers(num_src, EDGES, key=40 + key), numbers(num_dst, EDGES, key=50 + key)])
        edges.time = numbers(100, EDGES, key=60 + key)
        edges.moment = numbers(400, EDGES, key=70 + key).double() / 4
        edges.weight = weights(EDGES, 80 + 2 * key)
        edges.chosen = numbers(3, EDGES, key=90 + key) > 0
        edges.edge_attr = floats(EDGES, 2, key=100 + key).bfloat16()
    return data


def plain() -> Data:
    """One node type; each edge is stored in both directions, as PageRank and GraphSAINT want them."""
    half = numbers(90, 2, 250, key=200)
    return Data(
        x=floats(90, 3, key=201),
        y=torch.arange(90),
        part=torch.arange(90) // 12,
        train_mask=numbers(2, 90, key=202) > 0,
        edge_index=torch.cat([half, half.flip(0)], dim=1),
        weight=weights(500, 203),
    )


def sparse() -> Data:
    """`plain` with sparse features, most of them 0."""
    data = plain()
    rows = floats(90, 12, key=300) * (numbers(4, 90, 12, key=301) == 0)
    data.x = rows.to_sparse()
    return data


DATA = {"typed": typed, "plain": plain, "sparse": sparse, "out": typed}
"""Sources of the cases; "out" stores out-edges."""

HALO = {"typed": ("when", "raw_id"), "out": ("when", "raw_id"), "plain": ("raw_id",), "sparse": ("raw_id",)}


def direction(source: str) -> str:
    return "out" if source == "out" else "in"


def node_counts(data: Data | HeteroData) -> dict[str, int]:
    if isinstance(data, Data):
        return {"node": data.num_nodes}
    return {name: data[name].num_nodes for name in data.node_types}


def owners(data: Data | HeteroData, num_parts: int, *, key: int = 400) -> dict[str, Tensor]:
    """A random part for every node; those of small types are in few."""
    return {name: numbers(num_parts, count, key=key + at) for at, (name, count) in enumerate(node_counts(data).items())}


def slices(source: str, num_parts: int) -> "list[halohop.slices.MemoryPartition]":
    """The graph as partitions of tensors, the rows and edges of each in descending order."""
    data = DATA[source]()
    owner, end = owners(data, num_parts), 0 if direction(source) == "out" else 1
    stores = {"node": (data, None)} if isinstance(data, Data) else {name: (data[name], None) for name in data.node_types}
    relations = {("node", "to", "node"): data} if isinstance(data, Data) else {name: data[name] for name in data.edge_types}

    def nodes(name: str, part: int) -> "halohop.slices.NodeSlice":
        rows = (owner[name] == part).nonzero().view(-1).flip(0)
        columns = _rows(stores[name][0], len(owner[name]), rows, edges=False)
        return halohop.slices.NodeSlice(id=rows, owner=owner[name], columns=columns)

    def edges(relation: tuple[str, str, str], part: int) -> "halohop.slices.EdgeSlice":
        store = relations[relation]
        of_edges = owner[relation[2 * end]][store.edge_index[end]]
        rows = (of_edges == part).nonzero().view(-1).flip(0)
        columns = _rows(store, store.edge_index.size(1), rows, edges=True)
        return halohop.slices.EdgeSlice(edge_index=store.edge_index[:, rows], edge_id=rows, columns=columns, owner=of_edges)

    return [
        halohop.slices.MemoryPartition(
            part=part,
            num_parts=num_parts,
            edge_dir=direction(source),
            nodes={name: nodes(name, part) for name in stores},
            edges={relation: edges(relation, part) for relation in relations},
        )
        for part in range(num_parts)
    ]


def _rows(store: Mapping[str, Tensor], count: int, rows: Tensor, *, edges: bool) -> dict[str, Tensor]:
    found = {}
    for name, column in store.items():
        if name == "edge_index" or len(column) != count:
            continue
        if isinstance(store, Data) and edges != store.is_edge_attr(name):
            continue
        found[name] = column.to_dense()[rows].to_sparse() if column.is_sparse else column[rows]
    return found
