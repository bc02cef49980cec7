"""Into how many partitions graphs are divided, and whether each has a shard of its own behind the router."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pytest

from halohop.cluster.graph import Graph
from halohop.store.tables import GraphTables
from halohop.testing.worlds import partitioned

FEW_DIVISIONS = [(1, False), (3, True), (8, True)]
DIVISIONS = [
    *FEW_DIVISIONS,
    *(pytest.param(*division, marks=pytest.mark.full) for division in ((1, True), (2, False), (2, True), (3, False), (8, False))),
]
"""Values of ("num_parts", "shard_each"). What differs from one partition to several shards differs for three of them, too."""


def divided(tables: Mapping[str, GraphTables], *, halo: Sequence[str] = ()) -> Callable[[str, int, bool], Graph]:
    """A function that divides the graph of a name; each division is made once, however many tests ask for it.

    Args:
        tables: the graphs by name.
        halo: what shards keep of the nodes that they borrow.
    """

    @cache
    def divide(name: str, num_parts: int, shard_each: bool) -> Graph:
        kept = halo if shard_each else ()
        return partitioned(tables[name], num_parts, seed=num_parts, shard_each=shard_each, halo=kept)

    return divide
