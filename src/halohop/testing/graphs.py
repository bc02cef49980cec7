"""Self-verifying graphs: what a batch must hold follows from its ids, so any rank can check it with arithmetic.

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


def check_nodes(tables: GraphTables, raw: Tensor, columns: Mapping[str, Tensor], *, node_type: NodeType = NODE) -> None:
    """Every raw id is a node of the type, and every column holds these nodes' rows, with dtype and shape.

    Raises:
        AssertionError: names the first wrong node.
    """
    table = tables.nodes[node_type]
    rows = rows_of(tables, raw, node_type=node_type)
    for name, values in columns.items():
        _check_rows(table.columns[name][rows], values, raw, f"column {name!r} of node {node_type!r}")


def check_edges(
    tables: GraphTables,
    src_raw: Tensor,
    dst_raw: Tensor,
    edge_id: Tensor | None = None,
    columns: Mapping[str, Tensor] | None = None,
    *,
    relation: Relation = EDGE,
) -> None:
    """Every edge exists; with `edge_id`, it is that very edge, and every column holds these edges' rows.

    Raises:
        AssertionError: names the first wrong edge.
    """
    table = tables.edges[relation]
    src = rows_of(tables, src_raw, node_type=relation[0])
    dst = rows_of(tables, dst_raw, node_type=relation[2])
    assert len(src) == len(dst), f"{len(src)} sources, but {len(dst)} destinations of {relation}"
    if edge_id is None:
        assert not columns, "columns of edges can be checked only with edge_id"
        width = tables.nodes[relation[2]].num_nodes
        exists = torch.isin(src * width + dst, table.src.long() * width + table.dst.long())
        assert exists.all(), f"no edge {_first_wrong(exists, src_raw, dst_raw)} in {relation}"
        return
    assert edge_id.shape == src.shape, f"{len(edge_id)} edge ids for {len(src)} edges of {relation}"
    known = (edge_id >= 0) & (edge_id < table.num_edges)
    assert known.all(), f"{relation} has no edge {_first_wrong(known, edge_id)}; edge ids go to {table.num_edges - 1}"
    same = (table.src[edge_id] == src) & (table.dst[edge_id] == dst)
    assert same.all(), f"(edge id, src, dst) {_first_wrong(same, edge_id, src_raw, dst_raw)} is not what {relation} holds"
    for name, values in (columns or {}).items():
        _check_rows(table.columns[name][edge_id], values, edge_id, f"column {name!r} of {relation}")


def check_fanout(
    tables: GraphTables,
    dst_raw: Tensor,
    edge_id: Tensor,
    expanded_raw: Tensor,
    fanout: int,
    *,
    replace: bool = False,
    relation: Relation = EDGE,
) -> None:
    """One hop drew as many in-edges as it should: min(fanout, degree) different ones, or `fanout` with replacement.

    Args:
        tables: the whole graph.
        dst_raw, edge_id: the edges that the hop drew.
        expanded_raw: the nodes that it expanded, each once.
        fanout: -1 for all neighbours.
        replace: whether drawn with replacement; nodes without in-edges get none in any case.
        relation: of the edges.

    Raises:
        AssertionError: names the first node with a wrong number of edges.
    """
    size = tables.nodes[relation[2]].num_nodes
    degree = torch.bincount(tables.edges[relation].dst.long(), minlength=size)
    if fanout < 0:
        expected = degree
    elif replace:
        expected = torch.where(degree > 0, fanout, 0)
    else:
        expected = degree.clamp(max=fanout)
        assert len(torch.unique(edge_id)) == len(edge_id), f"an edge of {relation} was drawn twice without replacement"
    expanded = torch.zeros(size, dtype=torch.bool)
    expanded[rows_of(tables, expanded_raw, node_type=relation[2])] = True
    drawn = torch.bincount(rows_of(tables, dst_raw, node_type=relation[2]), minlength=size)
    right = drawn == torch.where(expanded, expected, 0)
    rows = torch.arange(size)
    assert right.all(), f"(row, drawn, degree) {_first_wrong(right, rows, drawn, degree)} of {relation} with fanout {fanout}"


def check_batch(
    tables: GraphTables,
    nodes: Mapping[NodeType, Tensor],
    edges: Mapping[Relation, Tensor],
    edge_ids: Mapping[Relation, Tensor] | None = None,
    node_columns: Mapping[NodeType, Mapping[str, Tensor]] | None = None,
    edge_columns: Mapping[Relation, Mapping[str, Tensor]] | None = None,
) -> None:
    """A whole sampled subgraph: its nodes occur once each, its edges are in the graph, its rows are theirs.

    Args:
        tables: the whole graph.
        nodes: raw ids by type, in batch order.
        edges: ``[2, num_edges]`` by relation: source and destination as positions in `nodes`.
        edge_ids: e_id by relation.
        node_columns, edge_columns: rows by type and relation.

    Raises:
        AssertionError: says what is wrong first.
    """
    for node_type, raw in nodes.items():
        assert len(torch.unique(raw)) == len(raw), f"a node of type {node_type!r} is in the batch twice"
        check_nodes(tables, raw, (node_columns or {}).get(node_type, {}), node_type=node_type)
    for relation, (src_bid, dst_bid) in edges.items():
        for end, bids in ((relation[0], src_bid), (relation[2], dst_bid)):
            inside = (bids >= 0) & (bids < len(nodes[end]))
            assert inside.all(), f"{relation} has position {_first_wrong(inside, bids)}, but {len(nodes[end])} nodes {end!r}"
        check_edges(
            tables,
            nodes[relation[0]][src_bid],
            nodes[relation[2]][dst_bid],
            (edge_ids or {}).get(relation),
            (edge_columns or {}).get(relation),
            relation=relation,
        )


def check_ring_batch(num_nodes: int, raw: Tensor, edge_index: Tensor, edge_id: Tensor, x: Tensor) -> None:
    """A batch of ``ring(num_nodes)``, by arithmetic alone: no table is needed, so any process can do it.

    Args:
        num_nodes: of the ring.
        raw: raw ids of the batch's nodes.
        edge_index: ``[2, num_edges]`` positions in `raw`, sources first.
        edge_id: of the edges.
        x: features of the nodes.

    Raises:
        AssertionError: names the first wrong node or edge.
    """
    assert len(torch.unique(raw)) == len(raw), "a node is in the batch twice"
    inside = (raw >= 0) & (raw < num_nodes)
    assert inside.all(), f"no node {_first_wrong(inside, raw)} in a ring of {num_nodes}"
    _check_rows(raw[:, None].expand(x.shape).float(), x, raw, "x")
    src, dst = raw[edge_index]
    right = (edge_id >= 0) & (edge_id < 2 * num_nodes)
    right &= (src == edge_id % num_nodes) & (dst == (src + 1 + edge_id // num_nodes) % num_nodes)
    assert right.all(), f"no (edge id, src, dst) {_first_wrong(right, edge_id, src, dst)} in a ring of {num_nodes}"


def rows_of(tables: GraphTables, raw: Tensor, *, node_type: NodeType = NODE) -> Tensor:
    """Raw ids as rows of the node table.

    Raises:
        AssertionError: a raw id that no node has.
    """
    table = tables.nodes[node_type]
    known = torch.arange(table.num_nodes) if table.raw_id is None else table.raw_id.long()
    ids, rows = torch.sort(known)
    position = torch.searchsorted(ids, raw.long()).clamp(max=max(len(ids) - 1, 0))
    exists = ids[position] == raw if len(ids) else torch.zeros(len(raw), dtype=torch.bool)
    assert exists.all(), f"no node {node_type!r} has the raw id {_first_wrong(exists, raw)}"
    return rows[position] if len(ids) else position


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


def _check_rows(expected: Tensor, found: Tensor, ids: Tensor, what: str) -> None:
    assert found.dtype == expected.dtype, f"{what} has dtype {found.dtype}, expected {expected.dtype}"
    assert found.shape == expected.shape, f"{what} has shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    same = (found == expected).reshape(len(found), -1).all(dim=1) if len(found) else torch.ones(0, dtype=torch.bool)
    assert same.all(), f"{what} is wrong at id {_first_wrong(same, ids)}: got {found[~same][0]}, expected {expected[~same][0]}"


def _first_wrong(right: Tensor, *values: Tensor) -> tuple[int, ...]:
    first = int(torch.nonzero(~right)[0])
    return tuple(int(value[first]) for value in values)
