"""Self-verifying graphs: what a batch must hold follows from its ids, so any rank can check it with arithmetic
(`halohop.testing.checks`).

In all of them:

- node ``raw`` has ``x[raw] = raw`` (float32, every entry), ``y = raw % 4``, and is in the split train, val or test if
  ``raw % 5`` is in {0, 1, 2}, is 3, is 4;
- edge ``e`` has ``edge_attr = e`` (float32 ``[num_edges, 1]``), ``weight = 1 + e % 7`` (float32) and ``time = e`` (int64).

Ids stay under 2**24, where float32 holds every integer.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE, NodeType, Relation

_LIMIT = 2**24


def ring(num_nodes: int, *, dim: int = 1, raw_id: Tensor | None = None) -> GraphTables:
    """Row v has edges to v + 1 and v + 2, modulo `num_nodes`.

    Edge e goes from ``e % num_nodes`` to ``e % num_nodes + 1 + e // num_nodes``: first all steps of one, then all of two.
    One node has two self-loops, two nodes have one each.

    Args:
        num_nodes: 0 is allowed.
        dim: width of ``x``.
        raw_id: raw ids by row; None for 0, 1, 2, ...

    Example:
        >>> ring(5).edges["node", "to", "node"].dst
        tensor([1, 2, 3, 4, 0, 2, 3, 4, 0, 1])
    """
    src = torch.arange(num_nodes).repeat(2)
    step = torch.arange(1, 3).repeat_interleave(num_nodes)
    return _homogeneous(num_nodes, src, (src + step) % max(num_nodes, 1), dim, raw_id)


def star(num_leaves: int, *, dim: int = 1, outward: bool = False) -> GraphTables:
    """Node 0 has an edge from each of the leaves 1, 2, ..., or to each of them if `outward`. Edge e is leaf e + 1's."""
    leaves, hub = torch.arange(1, num_leaves + 1), torch.zeros(num_leaves, dtype=torch.int64)
    return _homogeneous(num_leaves + 1, *((hub, leaves) if outward else (leaves, hub)), dim)


def isolated(num_nodes: int, *, dim: int = 1) -> GraphTables:
    """Nodes without a single edge."""
    return _homogeneous(num_nodes, torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64), dim)


def multi_edges(num_nodes: int, copies: int, *, dim: int = 1) -> GraphTables:
    """A directed cycle whose every edge exists `copies` times: edge e goes from ``e // copies`` to the next node."""
    src = torch.arange(num_nodes).repeat_interleave(copies)
    return _homogeneous(num_nodes, src, (src + 1) % max(num_nodes, 1), dim)


def power_law(num_nodes: int, avg_degree: float, *, dim: int = 1, seed: int = 0, shuffled_ids: bool = False) -> GraphTables:
    """Random ends, sources by Zipf's law: hubs, isolated nodes, self-loops and multi-edges, in random order.

    Args:
        num_nodes, dim: as for `ring`.
        avg_degree: edges per node, in the mean.
        seed: of the draws.
        shuffled_ids: raw ids are different from rows, not sorted, and have gaps.
    """
    rng = np.random.default_rng(seed)
    src, dst = _random_ends(rng, num_nodes, num_nodes, round(num_nodes * avg_degree))
    return _homogeneous(num_nodes, src, dst, dim, _shuffled_ids(rng, num_nodes, 0) if shuffled_ids else None)


def typed(num_nodes: Mapping[NodeType, int], num_edges: Mapping[Relation, int], *, dim: int = 1, seed: int = 0) -> GraphTables:
    """A random graph with several node types and relations.

    Raw ids are shuffled, have gaps, and no two types share one: mixing up types, rows or partitions shows in ``x``. The width
    of ``x`` differs from type to type: `dim`, `dim` + 1, ...

    Example:
        >>> tables = typed({"user": 4, "item": 3}, {("user", "buys", "item"): 6})
        >>> tables.nodes["item"].columns["x"].shape
        torch.Size([3, 2])
    """
    rng = np.random.default_rng(seed)
    nodes, first = {}, 0
    for index, (name, count) in enumerate(num_nodes.items()):
        raw = _shuffled_ids(rng, count, first)
        first += 3 * count + 1
        nodes[name] = _node_table(raw, dim + index, raw_is_row=False)
    edges = {}
    for relation, count in num_edges.items():
        edges[relation] = _edge_table(*_random_ends(rng, num_nodes[relation[0]], num_nodes[relation[2]], count))
    return GraphTables(nodes=nodes, edges=edges)


def _homogeneous(num_nodes: int, src: Tensor, dst: Tensor, dim: int, raw_id: Tensor | None = None) -> GraphTables:
    raw = torch.arange(num_nodes) if raw_id is None else raw_id
    return GraphTables(nodes={NODE: _node_table(raw, dim, raw_is_row=raw_id is None)}, edges={EDGE: _edge_table(src, dst)})


def _node_table(raw: Tensor, dim: int, *, raw_is_row: bool) -> NodeTable:
    if len(raw) and int(raw.max()) >= _LIMIT:
        raise InputError(f"raw id {int(raw.max())} is over {_LIMIT - 1}, which float32 features cannot repeat exactly")
    fold = raw % 5
    columns = {
        "x": raw.float()[:, None].repeat(1, dim),
        "y": raw % 4,
        "train_mask": fold < 3,
        "val_mask": fold == 3,
        "test_mask": fold == 4,
    }
    return NodeTable(num_nodes=len(raw), columns=columns, raw_id=None if raw_is_row else raw)


def _edge_table(src: Tensor, dst: Tensor) -> EdgeTable:
    time = torch.arange(len(src))
    columns = {"edge_attr": time.float()[:, None], "weight": 1 + (time % 7).float(), "time": time}
    return EdgeTable(src=src, dst=dst, columns=columns)


def _random_ends(rng: np.random.Generator, num_src: int, num_dst: int, count: int) -> tuple[Tensor, Tensor]:
    """Ends drawn with probability 1 / rank, ranks in random order."""
    if min(num_src, num_dst) == 0 and count:
        raise InputError(f"{count} edges cannot lie between {num_src} and {num_dst} nodes")
    ends = []
    for size in (num_src, num_dst):
        share = 1 / np.arange(1, size + 1)
        ends.append(
            torch.from_numpy(
                rng.permutation(size)[rng.choice(size, count, p=share / share.sum())] if count else np.empty(0, np.int64)
            )
        )
    return ends[0], ends[1]


def _shuffled_ids(rng: np.random.Generator, count: int, first: int) -> Tensor:
    """Different ids from `first` to first + 3 * count, in random order."""
    return torch.from_numpy(first + rng.permutation(3 * count + 1)[:count].astype(np.int64))
