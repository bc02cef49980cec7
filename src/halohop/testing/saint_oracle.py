"""GraphSAINT's subgraphs written down a second time, one draw at a time, over the user's own tables. Slow and obvious."""

from bisect import bisect_right
from itertools import accumulate

import torch

from halohop import ops
from halohop.ops import reference
from halohop.samplers.saint import By
from halohop.store.tables import GraphTables
from halohop.testing.oracle_subgraph import raw_ids
from halohop.testing.walk_oracle import WalkOracle, in_edges


class SaintOracle:
    """Draws nodes by definition.

    Args:
        tables: a graph of one node type and one relation.
        by, size, length, seed: as of `halohop.samplers.saint.RandomNodes`.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> len(SaintOracle(ring(5), "walk", size=1, length=0).draw(epoch=0, index=0))
        1
    """

    def __init__(self, tables: GraphTables, by: By, *, size: int, length: int = 0, seed: int = 0) -> None:
        (name,), (relation,) = tables.nodes, tables.edges
        lists = in_edges(tables, relation, None)
        self._by, self._size, self._seed = by, size, seed
        self._raw = [raw for raw in sorted(raw_ids(tables, name)) if by == "walk" or raw in lists]
        self._ends = list(accumulate(len(lists[raw]) for raw in self._raw)) if by == "node" else None
        self._walks = WalkOracle(tables, [relation] * (length if by == "walk" else 1), seed=seed)

    def draw(self, *, epoch: int, index: int) -> list[int]:
        """The nodes of a subgraph by raw id, ascending."""
        key = reference.stream_key(seed=self._seed, epoch=epoch, batch=index, hop=0, relation=("", "saint", ""))
        nodes: set[int] = set()
        for number in range(self._size):
            fraction = ops.fractions(key, torch.tensor([number])).item()
            if self._ends is None:
                start = self._raw[int(fraction * len(self._raw))]
            else:
                start = self._raw[bisect_right(self._ends, int(fraction * self._ends[-1]))]
            walk, _ = self._walks.walk(number, start, epoch=epoch, batch=index)
            nodes.update(walk[1:] if self._by == "node" else walk)
        return sorted(nodes)
