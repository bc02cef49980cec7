"""Padded batches of a GPU whose sizes are known before they are drawn: the host waits for nothing while they are made."""

from dataclasses import dataclass, replace
from itertools import accumulate

from halohop import ops
from halohop.sampling.batch import AnySeeds, EdgeBlock, NodeBlock, NodeSet, Room
from halohop.sampling.link_seeds import LinkSeeds
from halohop.store.draw import Rules
from halohop.typing import NodeType, Relation

SUPPORTED = frozenset({"replace", "expand", "toward_seeds"})
"""The options of `Rules` that leave the sizes of batches bounded without looking at lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """How many places a batch has.

    Args:
        inputs: for input nodes or edges, and for pairs of ends.
        nodes: of each type by hop, seeds first, of which one is always empty.
        edges: of each relation by hop.
    """

    inputs: Room
    nodes: dict[NodeType, tuple[int, ...]]
    edges: dict[Relation, tuple[int, ...]]

    @property
    def can_be_numbered(self) -> bool:
        """Whether positions in a batch are int32, as a device numbers nodes by them."""
        return sum(map(sum, self.nodes.values())) + sum(map(sum, self.edges.values())) < 2**31 - 1

    def fit(self, seeds: AnySeeds) -> bool:
        """Whether there are enough for these seeds."""
        starts = {name: len(seeds.starts(name)) for name in self.nodes}
        for end in seeds.ends:
            starts[end.node_type] += len(end.gid)
        inputs = 0 if isinstance(seeds, NodeSet) else len(seeds.input_id)
        pairs = len(seeds.dst_gid) if isinstance(seeds, LinkSeeds) else 0
        within = inputs <= self.inputs.seeds and pairs <= self.inputs.pairs
        return within and all(count < self.nodes[name][0] for name, count in starts.items())

    def most_found(self, ends: dict[NodeType, list[Relation]], name: NodeType) -> int:
        """The most neighbours of a type that a batch comes upon, and the ends of links."""
        return sum(sum(self.edges[relation]) for relation in ends.get(name, ())) + self.nodes[name][0]

    def completed(
        self, nodes: dict[NodeType, NodeBlock], edges: dict[Relation, EdgeBlock]
    ) -> tuple[dict[NodeType, NodeBlock], dict[Relation, EdgeBlock]]:
        """The blocks as those of a padded batch: edges of empty places lead between empty nodes of the hops before."""
        for relation, block in edges.items():
            for ends, name in zip(block.ends_bid, relation[::2], strict=True):
                at = 0
                for size, begin in zip(self.edges[relation], accumulate(self.nodes[name]), strict=False):
                    ops.link_empty(block.gid[at : at + size], nodes[name].gid[:begin], ends[at : at + size])
                    at += size
        return (
            {name: replace(block, padded=True) for name, block in nodes.items()},
            {relation: replace(block, padded=True) for relation, block in edges.items()},
        )


def can_be_placed(rules: Rules) -> bool:
    """Whether neighbours are drawn in a way whose sizes are bounded without looking at lists."""
    return rules.changed <= SUPPORTED
