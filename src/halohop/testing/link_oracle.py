"""Negatives of a link task written down a second time: one at a time, by definition."""

import math
from collections.abc import Sequence

from halohop.ops import reference
from halohop.store.tables import GraphTables
from halohop.typing import NodeType, Relation

_ATTEMPTS = 17


class NegativeOracle:
    """Draws negatives from tables in memory, all by raw id.

    Args:
        tables: the graph.
        relation, triplet, amount, seed, strict: as of `halohop.sampling.negative.Negatives`.
        time: the column of the nodes' times.
        src_weight, dst_weight: of the nodes in ascending raw order.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> oracle = NegativeOracle(ring(5), ("node", "to", "node"), triplet=True, amount=2, strict=True)
        >>> [destination in (4, 0) for _, destination in oracle.draw([3], epoch=0, index=0)]
        [False, False]
    """

    def __init__(
        self,
        tables: GraphTables,
        relation: Relation,
        *,
        triplet: bool,
        amount: float,
        seed: int = 0,
        strict: bool = False,
        time: str | None = None,
        src_weight: Sequence[float] | None = None,
        dst_weight: Sequence[float] | None = None,
    ) -> None:
        self._triplet, self._amount, self._seed, self._strict = triplet, amount, seed, strict
        self._sources = _candidates(tables, relation[0], time, src_weight)
        self._destinations = _candidates(tables, relation[2], time, dst_weight)
        raws = {name: _raw_ids(tables, name) for name in (relation[0], relation[2])}
        table = tables.edges[relation]
        pairs = zip(table.src.tolist(), table.dst.tolist(), strict=True)
        self._edges = {(raws[relation[0]][src], raws[relation[2]][dst]) for src, dst in pairs}

    def draw(
        self, sources: Sequence[int], *, epoch: int, index: int, times: Sequence[float] | None = None
    ) -> list[tuple[int, int]]:
        """The negatives of a batch around edges from these sources, each with its time."""
        num_pos = len(sources)
        num_neg = math.ceil(num_pos * self._amount)
        pairs = []
        for position in range(num_neg):
            owner = position // int(self._amount) if self._triplet else position % num_pos
            latest = math.inf if times is None else times[owner]
            pairs.append(self._one(position, sources[owner], latest, epoch, index))
        return pairs

    def _one(self, position: int, source: int, latest: float, epoch: int, index: int) -> tuple[int, int]:
        def fraction(end: str, attempt: int) -> float:
            stream = ("", f"negative {end}", "")
            key = reference.stream_key(seed=self._seed, epoch=epoch, batch=index, hop=attempt, relation=stream)
            return reference.fraction(key, position, 0)

        for attempt in range(_ATTEMPTS if self._strict else 1):
            destination = _picked(self._destinations, fraction("destination", attempt), latest)
            if not self._triplet:
                source = _picked(self._sources, fraction("source", attempt), latest)
            if not self._strict or (source, destination) not in self._edges:
                return source, destination
        early = [raw for raw, time, weight in self._sources if time <= latest and weight > 0]
        turned = [source] if self._triplet else early[early.index(source) :] + early[: early.index(source)]
        for candidate in turned:
            free = [node for node in self._destinations if (candidate, node[0]) not in self._edges]
            if any(time <= latest and weight > 0 for _, time, weight in free):
                return candidate, _picked(free, fraction("destination", _ATTEMPTS), latest)
        raise AssertionError("every pair is an edge")


def _candidates(
    tables: GraphTables, name: NodeType, time: str | None, weight: Sequence[float] | None
) -> list[tuple[int, float, float]]:
    """Raw id, time and weight of every node of a type: by raw id, or by time."""
    raws = _raw_ids(tables, name)
    column = tables.nodes[name].columns.get(time or "")
    times = [-math.inf] * len(raws) if column is None else column.tolist()
    ordered = sorted(zip(raws, times, strict=True))
    weights = [1.0] * len(raws) if weight is None else weight
    return sorted(((raw, at, of) for (raw, at), of in zip(ordered, weights, strict=True)), key=lambda node: node[1])


def _picked(nodes: list[tuple[int, float, float]], fraction: float, latest: float) -> int:
    early = [(raw, weight) for raw, time, weight in nodes if time <= latest]
    target = fraction * sum(weight for _, weight in early)
    passed = 0.0
    for raw, weight in early:
        passed += weight
        if target < passed:
            return raw
    raise AssertionError("no node can be drawn")


def _raw_ids(tables: GraphTables, name: NodeType) -> list[int]:
    table = tables.nodes[name]
    return list(range(table.num_nodes)) if table.raw_id is None else table.raw_id.tolist()
