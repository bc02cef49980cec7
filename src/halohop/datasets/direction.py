"""Which way edges go: as they are stored, from every source; `add_reverses` makes them undirected where that is asked for."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from halohop.datasets.one_way import one_way
from halohop.datasets.staging import Staging
from halohop.store.schema import REVERSE
from halohop.store.tables import EdgeTable, GraphTables
from halohop.typing import Relation

_SAMPLE = 10_000
_NAMED = 3
_AT_A_TIME = 1 << 20  # edges


def add_reverses(
    tables: GraphTables, relations: Iterable[Relation] | None = None, *, staging: Staging | None = None
) -> GraphTables:
    """A graph whose edges go both ways; the reverse of an edge has its columns: attributes, weights, times, masks.

    Between nodes of one type, reverses stand behind the edges in the same relation, so edge ids stay as they are. A self-loop
    gets none, nor does an edge whose reverse is there already with equal columns; so a graph that is stored both ways stays as
    it is. Between two node types the reverses are a relation of their own, ``rev_<name>``. A relation that another one reverses
    (``rev_<name>``, or the same edges the other way round) is left alone.

    Args:
        tables: the graph.
        relations: those to reverse; None takes all.
        staging: where the edges of a larger relation are collected; by default in memory.

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
            name = f"edges.{'__'.join(relation)}"
            edges[relation] = _both_ways(table, tables.nodes[src_type].num_nodes, staging or Staging(), name)
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


def _both_ways(table: EdgeTable, num_nodes: int, staging: Staging, name: str) -> EdgeTable:
    missing = one_way(table, num_nodes, staging, f"{name}.one_way")
    parts = [*staging.slices_of(*table.ends, *table.columns.values())]

    def chunks() -> Iterator[dict[str, Tensor]]:
        for part in parts:
            yield {"src": table.src[part], "dst": table.dst[part]} | {key: column[part] for key, column in columns.items()}
        for part in parts:
            chosen = torch.cat([run[slice(*torch.searchsorted(run, torch.tensor([part.start, part.stop])))] for run in missing])
            chosen = chosen.sort().values
            yield {"src": table.dst[chosen].to(table.src.dtype), "dst": table.src[chosen].to(table.dst.dtype)} | {
                key: column[chosen] for key, column in columns.items()
            }

    columns = {f"column.{key}": column for key, column in table.columns.items()}
    both = staging.columns(f"{name}.both", chunks)
    return EdgeTable(src=both["src"], dst=both["dst"], columns={key: both[f"column.{key}"] for key in table.columns})


def _share_without_reverse(table: EdgeTable, relation: Relation) -> float:
    """The share of edges without a reverse in the same relation, among some that lie evenly in the table."""
    if relation[0] != relation[2]:
        return 1.0 if table.num_edges else 0.0
    picked = torch.linspace(0, max(table.num_edges - 1, 0), min(table.num_edges, _SAMPLE), dtype=torch.float64).long()
    if not len(picked):
        return 0.0
    src, dst = table.src[picked].long(), table.dst[picked].long()
    num_nodes = int(torch.maximum(table.src.max(), table.dst.max())) + 1
    named = torch.zeros(num_nodes, dtype=torch.bool)
    named[src] = named[dst] = True
    reverses, found = dst * num_nodes + src, torch.zeros(len(picked), dtype=torch.bool)
    for first in range(0, table.num_edges, _AT_A_TIME):
        some_src, some_dst = (end[first : first + _AT_A_TIME].long() for end in table.ends)
        near = named[some_src] & named[some_dst]  # only these can be the reverse of one that was picked
        found |= torch.isin(reverses, some_src[near] * num_nodes + some_dst[near])
    return float((~found).double().mean())
