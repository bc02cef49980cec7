"""Walks written down a second time: one walker, one step, one edge at a time, over the user's own tables."""

from collections.abc import Sequence

from halohop.ops import reference
from halohop.store.tables import GraphTables
from halohop.testing.oracle_subgraph import raw_ids
from halohop.typing import Relation

_AT_ONCE, _TREE_STEP = 2**20, 2**40
_DECISION = ("", "node2vec", "")
_STEEP = 8


class WalkOracle:
    """Walks by definition.

    Args:
        tables: the graph.
        path: the relation of every step.
        p, q, seed, weight: as of `halohop.samplers.node2vec.Node2VecWalker`.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> walk, edges = WalkOracle(ring(1), [("node", "to", "node")] * 2).walk(0, 0)
        >>> walk, len(edges)
        ([0, 0, 0], 2)
    """

    def __init__(
        self,
        tables: GraphTables,
        path: Sequence[Relation],
        *,
        p: float = 1.0,
        q: float = 1.0,
        seed: int = 0,
        weight: str | None = None,
        rounds: int = 32,
    ) -> None:
        self._path = path
        self._p, self._q = p, q
        self._seed, self._rounds = seed, rounds
        self._lists = {relation: in_edges(tables, relation, weight) for relation in set(path)}
        self._all = {relation: in_edges(tables, relation, None) for relation in set(path)}

    def walk(self, number: int, start: int, *, epoch: int = 0, batch: int = 0) -> tuple[list[int], list[int]]:
        """The raw ids of walker `number`, start first, and the edges; both shorter where the walk ends early."""
        walk, edges = [start], []
        for step, relation in enumerate(self._path):
            possible = self._lists[relation].get(walk[-1], [])
            if not possible:
                break
            place = self._place(relation, walk, step, number, epoch, batch)
            walk.append(possible[place][0])
            edges.append(possible[place][1])
        return walk, edges

    def _place(self, relation: Relation, walk: Sequence[int], step: int, number: int, epoch: int, batch: int) -> int:
        """Which edge of the list is taken: the first candidate that is accepted, or a choice among all."""
        possible = self._lists[relation][walk[-1]]
        weights, ceiling = [weight for _, _, weight in possible], max(1.0, 1 / self._q)
        if weights[0] is not None or max(1 / self._p, ceiling) <= _STEEP * min(1.0, 1 / self._q):
            ceiling = max(1 / self._p, ceiling)
        biases = [bias / (ceiling if len(walk) > 1 else 1) for bias in self.biases(relation, walk)]
        back = [place for place, (source, _, _) in enumerate(possible) if walk[-2:-1] == [source]]
        extra = max(1 / self._p / ceiling - 1, 0) / len(possible)
        stream = walk[-1] + number % _AT_ONCE * _TREE_STEP
        for attempt in range(self._rounds):
            key = self._key(relation, epoch, batch, step, number, attempt)
            if weights[0] is None:
                (place,) = reference.draw_positions(len(weights), stream, 1, key, replace=True)
            else:
                (place,) = reference.draw_weighted([weight or 0 for weight in weights], stream, 1, key, replace=True)
            decision = self._key(_DECISION, epoch, batch, step, number, attempt)
            level = reference.fraction(decision, number, 0) * (1 + extra * len(back))
            if level >= 1:
                return back[min(int((level - 1) / extra), len(back) - 1)]
            if level < biases[place]:
                return place
        shares = [bias * (1 if weight is None else weight) for bias, weight in zip(biases, weights, strict=True)]
        decision = self._key(_DECISION, epoch, batch, step, number, self._rounds)
        return reference.draw_weighted(shares, number, 1, decision, replace=True)[0]

    def _key(self, name: Relation, epoch: int, batch: int, step: int, number: int, attempt: int) -> int:
        hop = step + (attempt << 32) + (number // _AT_ONCE << 40)
        return reference.stream_key(seed=self._seed, epoch=epoch, batch=batch, hop=hop, relation=name)

    def biases(self, relation: Relation, walk: Sequence[int]) -> list[float]:
        """How likely the walk takes each edge that it may take now, besides the weights."""
        possible = [source for source, _, _ in self._lists[relation].get(walk[-1], [])]
        if len(walk) < 2:
            return [1.0] * len(possible)
        near = {source for source, _, _ in self._all[relation].get(walk[-2], [])}
        return [1 / self._p if source == walk[-2] else 1.0 if source in near else 1 / self._q for source in possible]

    def shares(self, relation: Relation, walk: Sequence[int]) -> dict[int, float]:
        """How likely a walk takes each edge next, by edge."""
        possible = self._lists[relation].get(walk[-1], [])
        biases = self.biases(relation, walk)
        shares = {
            edge: bias * (1 if weight is None else weight) for bias, (_, edge, weight) in zip(biases, possible, strict=True)
        }
        return {edge: share / sum(shares.values()) for edge, share in shares.items()}


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
