"""Checks of batches of self-verifying graphs (`halohop.testing.graphs`): each says which id is wrong."""

from collections.abc import Mapping

import torch
from torch import Tensor

from halohop.store.tables import GraphTables
from halohop.typing import EDGE, NODE, NodeType, Relation


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


def _check_rows(expected: Tensor, found: Tensor, ids: Tensor, what: str) -> None:
    assert found.dtype == expected.dtype, f"{what} has dtype {found.dtype}, expected {expected.dtype}"
    assert found.shape == expected.shape, f"{what} has shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    same = (found == expected).reshape(len(found), -1).all(dim=1) if len(found) else torch.ones(0, dtype=torch.bool)
    assert same.all(), f"{what} is wrong at id {_first_wrong(same, ids)}: got {found[~same][0]}, expected {expected[~same][0]}"


def _first_wrong(right: Tensor, *values: Tensor) -> tuple[int, ...]:
    first = int(torch.nonzero(~right)[0])
    return tuple(int(value[first]) for value in values)
