"""How many rows each layer of a model has to give, so that the last one gives those of a batch's seeds."""

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from halohop.nn.hops import Hop, are_ends, grouped
from halohop.sampling.lists import Seeds
from halohop.typing import NodeType, Relation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """Rows by level. Level 0 is what the first layer reads: all rows of the batch. The last level is the seeds.

    They are read off the edges: the in-edges of a type's first rows begin at no row after the first so many. So what is computed
    is the beginning of what the model gives for all rows, whatever these edges are.

    Args:
        whole: all edges of each relation.
        rows: of each level, how many of the first rows of each node type there are; all rows where `layers` was None.
    """

    whole: dict[Relation, Hop]
    rows: list[dict[NodeType, int]]

    @classmethod
    def of(cls, seeds: Seeds, layers: int | None) -> Self | None:
        """The levels of so many layers, or of any number, each of which gives all rows; None if the edges are not between the
        batch's nodes.
        """
        edges = {relation: ends for relation, weak in seeds.edges.items() if (ends := weak()) is not None}
        sizes = {relation: (seeds.num_nodes[relation[0]], seeds.num_nodes[relation[2]]) for relation in edges}
        if not all(are_ends(ends, *sizes[relation]) for relation, ends in edges.items()):
            return None
        whole = {relation: grouped(ends, *sizes[relation]) for relation, ends in edges.items()}
        if layers is None:
            return cls(whole=whole, rows=[dict(seeds.num_nodes)])
        rows = [dict(seeds.counts)]
        for _ in range(layers - 1):
            reads = dict(rows[0])
            for relation, hop in whole.items():
                end = int(hop.begins[rows[0][relation[2]]])
                reads[relation[0]] = max(reads[relation[0]], _end_of(hop.src[:end]))
            rows.insert(0, reads)
        return cls(whole=whole, rows=[dict(seeds.num_nodes), *rows])

    def number(self, level: int, node_type: NodeType) -> int:
        """How many rows of a type there are at a level."""
        return self.rows[min(level, len(self.rows) - 1)][node_type]

    def hop(self, relation: Relation, level: int) -> Hop:
        """What the layer between a level and the next reads of a relation."""
        whole, num_dst = self.whole[relation], self.number(level + 1, relation[2])
        begins = whole.begins[: num_dst + 1]
        last = int(begins[-1])
        return Hop(
            src=whole.src[:last],
            begins=begins,
            num_src=self.number(level, relation[0]),
            num_dst=num_dst,
            edges=slice(0, last) if isinstance(whole.edges, slice) else whole.edges[:last],
            whole=whole,
            listed=whole.dst[:last],
        )


def _end_of(places: Tensor) -> int:
    """One more than the greatest place; 0 without places."""
    return int(places.max()) + 1 if len(places) else 0
