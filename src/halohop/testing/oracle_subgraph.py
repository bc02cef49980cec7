"""Subgraph types written down a second time, one edge at a time: which edges a batch has, given its nodes or its drawn edges."""

from halohop.store.tables import GraphTables
from halohop.typing import NodeType, Relation

Edge = tuple[int, int, int]
"""Source position, destination position, edge id."""


def induced_edges(tables: GraphTables, nodes: dict[NodeType, list[tuple[int, int]]]) -> dict[Relation, list[Edge]]:
    """All edges among nodes, which are given as (tree, raw id) by type.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> induced_edges(ring(5), {"node": [(0, 3), (0, 2)]})
        {('node', 'to', 'node'): [(1, 0, 2)]}
    """
    edges: dict[Relation, list[Edge]] = {relation: [] for relation in tables.edges}
    for relation, table in tables.edges.items():
        sources, destinations = nodes[relation[0]], nodes[relation[2]]
        from_raw, to_raw = raw_ids(tables, relation[0]), raw_ids(tables, relation[2])
        ends = [(from_raw[src], to_raw[dst]) for src, dst in zip(table.src.tolist(), table.dst.tolist(), strict=True)]
        for position, (tree, raw) in enumerate(destinations):
            for number, (source, destination) in enumerate(ends):
                if destination == raw and (tree, source) in sources:
                    edges[relation].append((sources.index((tree, source)), position, number))
    return edges


def edges_both_ways(drawn: dict[Relation, list[Edge]]) -> dict[Relation, list[Edge]]:
    """Drawn edges and their flips, each pair of ends once.

    Example:
        >>> edges_both_ways({("a", "to", "a"): [(1, 0, 7), (0, 1, 8), (2, 0, 9)]})
        {('a', 'to', 'a'): [(1, 0, 7), (2, 0, 9), (0, 1, 8), (0, 2, 9)]}
    """
    both = {}
    for relation, edges in drawn.items():
        number_of: dict[tuple[int, int], int] = {}
        for source, destination, number in edges:
            number_of.setdefault((destination, source), number)
        for source, destination, number in drawn[_partner(relation, drawn)]:
            number_of.setdefault((source, destination), number)
        both[relation] = [(source, destination, number_of[destination, source]) for destination, source in sorted(number_of)]
    return both


def _partner(relation: Relation, known: dict[Relation, list[Edge]]) -> Relation:
    src, name, dst = relation
    if (dst, "rev_" + name, src) in known:
        return dst, "rev_" + name, src
    original = (dst, name.removeprefix("rev_"), src)
    return original if name.startswith("rev_") and original in known else relation


def raw_ids(tables: GraphTables, name: NodeType) -> list[int]:
    """Of all nodes of a type, by row."""
    table = tables.nodes[name]
    return list(range(table.num_nodes)) if table.raw_id is None else table.raw_id.tolist()
