"""Which way edges go: as they are stored, from every source; `add_reverses` makes them undirected where that is asked for."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from halohop.store.schema import REVERSE
from halohop.store.tables import EdgeTable, GraphTables
from halohop.typing import Relation

_SAMPLE = 10_000
_NAMED = 3


def add_reverses(tables: GraphTables, relations: Iterable[Relation] | None = None) -> GraphTables:
    """A graph whose edges go both ways; the reverse of an edge has its columns: attributes, weights, times, masks.

    Between nodes of one type, reverses stand behind the edges in the same relation, so edge ids stay as they are. A self-loop
    gets none, nor does an edge whose reverse is there already with equal columns; so a graph that is stored both ways stays as
    it is. Between two node types the reverses are a relation of their own, ``rev_<name>``. A relation that another one reverses
    (``rev_<name>``, or the same edges the other way round) is left alone.

    Args:
        tables: the graph.
        relations: those to reverse; None takes all.

    Example:
        >>> from halohop.store.tables import NodeTable
        >>> path = EdgeTable(src=torch.tensor([0, 1, 2]), dst=torch.tensor([1, 2, 1]), columns={"weight": torch.ones(3)})
        >>> tables = GraphTables(nodes={"node": NodeTable(num_nodes=3)}, edges={("node", "to", "node"): path})
        >>> both = add_reverses(tables).edges["node", "to", "node"]
        >>> both.src.tolist(), both.dst.tolist()
        ([0, 1, 2, 1], [1, 2, 1, 0])
    """
    edges = dict(tables.edges)
    for relation in tables.edges if relations is None else relations:
        src_type, name, dst_type = relation
        table = tables.edges[relation]
        if _has_partner(tables, relation):
            continue
        if src_type == dst_type:
            edges[relation] = _both_ways(table, tables.nodes[src_type].num_nodes)
        else:
            edges[dst_type, REVERSE + name, src_type] = replace(table, src=table.dst, dst=table.src)
    return replace(tables, edges=edges)


def directions(tables: GraphTables) -> list[str]:
    """Which way the edges go, in one or two lines for a reader; shares are those of 10,000 edges of each relation.

    Example:
        >>> from halohop.store.tables import NodeTable
        >>> path = EdgeTable(src=torch.tensor([0, 1]), dst=torch.tensor([1, 2]))
        >>> tables = GraphTables(nodes={"node": NodeTable(num_nodes=3)}, edges={("node", "to", "node"): path})
        >>> directions(tables)[0][:56]
        'edges taken as directed: 2 of node to node (100% without'
    """
    directed, both = [], []
    for relation, table in tables.edges.items():
        missing = 0.0 if _has_partner(tables, relation) else _share_without_reverse(table, relation)
        text = f"{table.num_edges:,} of {' '.join(relation)}"
        if missing:
            directed.append(f"{text} ({max(missing, 0.01):.0%} without a reverse)")
        else:
            both.append(text)
    lines = []
    if directed:
        remedy = "--undirected, or undirected = true in graph.toml, adds the reverses"
        lines.append(f"edges taken as directed: {_listed(directed)}; {remedy}")
    if both:
        lines.append(f"edges that go both ways: {_listed(both)}")
    return lines


def _listed(texts: list[str]) -> str:
    named = ", ".join(texts[:_NAMED])
    return f"{named} and {len(texts) - _NAMED} more relations" if len(texts) > _NAMED else named


def _has_partner(tables: GraphTables, relation: Relation) -> bool:
    """Whether another relation holds the reverses: by its name, or by its edges."""
    src_type, name, dst_type = relation
    table = tables.edges[relation]
    for other, candidate in tables.edges.items():
        if other == relation or (other[0], other[2]) != (dst_type, src_type):
            continue
        if other[1] == REVERSE + name or name == REVERSE + other[1]:
            return True
        if torch.equal(candidate.src, table.dst) and torch.equal(candidate.dst, table.src):
            return True
    return False


def _both_ways(table: EdgeTable, num_nodes: int) -> EdgeTable:
    src, dst = table.src.long().numpy(), table.dst.long().numpy()
    ends, reverses = src * num_nodes + dst, dst * num_nodes + src
    missing = src != dst
    mutual = np.flatnonzero(missing & np.isin(reverses, ends))
    missing[mutual] = False
    if table.columns and len(mutual):
        columns = _row_numbers([column[torch.from_numpy(mutual)] for column in table.columns.values()])
        pairs = np.unique(ends[mutual])  # the reverse of one of them is one of them
        there = np.searchsorted(pairs, ends[mutual]) * len(mutual) + columns
        wanted = np.searchsorted(pairs, reverses[mutual]) * len(mutual) + columns
        missing[mutual] = ~np.isin(wanted, there)
    chosen = torch.from_numpy(missing)
    return EdgeTable(
        src=torch.cat([table.src, table.dst[chosen].to(table.src.dtype)]),
        dst=torch.cat([table.dst, table.src[chosen].to(table.dst.dtype)]),
        columns={name: torch.cat([column, column[chosen]]) for name, column in table.columns.items()},
    )


def _row_numbers(columns: list[Tensor]) -> np.ndarray:
    """The same number for rows that are the same in all columns, bit by bit; int64 ``[n]``, each under n."""
    flat = [column.reshape(len(column), -1).contiguous().view(torch.uint8) for column in columns if column[:1].numel()]
    if not flat:
        return np.zeros(len(columns[0]), np.int64)
    rows = torch.cat(flat, dim=1).contiguous().numpy()
    _, numbers = np.unique(rows.view(np.dtype((np.void, rows.shape[1]))).reshape(-1), return_inverse=True)
    return numbers


def _share_without_reverse(table: EdgeTable, relation: Relation) -> float:
    """The share of edges without a reverse in the same relation, among some that lie evenly in the table."""
    if relation[0] != relation[2]:
        return 1.0 if table.num_edges else 0.0
    picked = torch.linspace(0, max(table.num_edges - 1, 0), min(table.num_edges, _SAMPLE), dtype=torch.float64).long()
    if not len(picked):
        return 0.0
    src, dst = table.src.long(), table.dst.long()
    num_nodes = int(torch.maximum(src.max(), dst.max())) + 1
    named = torch.zeros(num_nodes, dtype=torch.bool)
    named[src[picked]] = named[dst[picked]] = True
    near = named[src] & named[dst]  # only these can be the reverse of one that was picked
    ends = src[near] * num_nodes + dst[near]
    return float((~torch.isin(dst[picked] * num_nodes + src[picked], ends)).double().mean())
