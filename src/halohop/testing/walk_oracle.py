"""Walks written down a second time: one walker, one step, one edge at a time, over the user's own tables."""

from collections.abc import Sequence

from halohop.ops import reference
from halohop.store.tables import GraphTables
from halohop.testing.oracle_subgraph import raw_ids
from halohop.typing import Relation

_AT_ONCE, _TREE_STEP = 2**20, 2**40


class WalkOracle:
    """Walks by definition.

    Args:
        tables: the graph.
        path: the relation of every step.
        seed, weight: as of `halohop.sampling.walks.Walker`.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> walk, edges = WalkOracle(ring(1), [("node", "to", "node")] * 2).walk(0, 0)
        >>> walk, len(edges)
        ([0, 0, 0], 2)
    """

    def __init__(self, tables: GraphTables, path: Sequence[Relation], *, seed: int = 0, weight: str | None = None) -> None:
        self._path = path
        self._seed = seed
        self._lists = {relation: in_edges(tables, relation, weight) for relation in set(path)}

    def walk(self, number: int, start: int, *, epoch: int = 0, batch: int = 0) -> tuple[list[int], list[int]]:
        """The raw ids of walker `number`, start first, and the edges; both shorter where the walk ends early."""
        walk, edges = [start], []
        for step, relation in enumerate(self._path):
            key = reference.stream_key(
                seed=self._seed, epoch=epoch, batch=batch, hop=step + (number // _AT_ONCE << 40), relation=relation
            )
            possible = self._lists[relation].get(walk[-1], [])
            stream = walk[-1] + number % _AT_ONCE * _TREE_STEP
            weights = [weight for _, _, weight in possible if weight is not None]
            if weights:
                places = reference.draw_weighted(weights, stream, 1, key, replace=True)
            else:
                places = reference.draw_positions(len(possible), stream, 1, key, replace=True)
            if not places:
                break
            source, edge, _ = possible[places[0]]
            walk.append(source)
            edges.append(edge)
        return walk, edges


def in_edges(tables: GraphTables, relation: Relation, weight: str | None) -> dict[int, list[tuple[int, int, float | None]]]:
    """(source, edge, weight) of the edges that may be drawn, by destination, all in raw ids and the user's order."""
    lists: dict[int, list[tuple[int, int, float | None]]] = {}
    sources, destinations = raw_ids(tables, relation[0]), raw_ids(tables, relation[2])
    table = tables.edges[relation]
    weights = table.columns.get(weight or "")
    for edge, (src, dst) in enumerate(zip(table.src.tolist(), table.dst.tolist(), strict=True)):
        of_edge = None if weights is None else weights[edge].item()
        if of_edge is None or of_edge > 0:
            lists.setdefault(destinations[dst], []).append((sources[src], edge, of_edge))
    return lists
