"""HGT's sampler written down a second time, one node and one edge at a time, over the user's own tables. Slow and obvious."""

from collections.abc import Mapping, Sequence
from math import log

import torch

from halohop import ops
from halohop.ops import reference
from halohop.store.tables import GraphTables
from halohop.testing.oracle import OracleBatch
from halohop.testing.oracle_subgraph import induced_edges, raw_ids
from halohop.typing import NodeType, Relation


class HGTOracle:
    """Samples from tables in memory, by definition (Hu et al. 2020, algorithms 1 and 2).

    Args:
        tables: the graph.
        num_samples: per type, a number per hop.
        seed, max_neighbors: as of `halohop.samplers.hgt.HGTSampler`.
    """

    def __init__(
        self, tables: GraphTables, num_samples: Mapping[NodeType, Sequence[int]], *, seed: int = 0, max_neighbors: int = -1
    ) -> None:
        self._tables, self._num_samples = tables, num_samples
        self._seed, self._max_neighbors = seed, max_neighbors
        self._lists: dict[Relation, dict[int, list[int]]] = {}
        for relation, table in tables.edges.items():
            source, destination = (raw_ids(tables, name) for name in relation[::2])
            lists: dict[int, list[int]] = {}
            for src, dst in zip(table.src.tolist(), table.dst.tolist(), strict=True):
                lists.setdefault(destination[dst], []).append(source[src])
            self._lists[relation] = lists

    def batch(self, node_type: NodeType, seeds: Sequence[int], *, epoch: int, index: int) -> OracleBatch:
        """The batch number `index` of an epoch, around seeds given by raw id."""
        found: dict[NodeType, list[int]] = {name: [] for name in self._tables.nodes}
        budget: dict[NodeType, dict[int, float]] = {name: {} for name in found}
        found[node_type] = list(seeds)
        new = {name: list(nodes) for name, nodes in found.items()}
        counts = {name: [len(nodes)] for name, nodes in found.items()}
        for hop in range(max(map(len, self._num_samples.values()), default=0)):
            for relation in self._tables.edges:
                self._share(relation, new[relation[2]], found[relation[0]], budget[relation[0]], (epoch, index, hop))
            for name, scores in budget.items():
                new[name] = self._drawn(name, scores, (epoch, index, hop))
                found[name] += new[name]
                counts[name].append(len(new[name]))
                for raw in new[name]:
                    del scores[raw]
        edges = induced_edges(self._tables, {name: [(0, raw) for raw in nodes] for name, nodes in found.items()})
        return OracleBatch(nodes=found, edges=edges, num_sampled_nodes=counts, num_sampled_edges=dict.fromkeys(edges))

    def _share(
        self, relation: Relation, nodes: list[int], found: list[int], scores: dict[int, float], place: tuple[int, int, int]
    ) -> None:
        """Every node gives its neighbours their share."""
        key = self._key(relation, place)
        for raw in nodes:
            neighbors = self._lists[relation].get(raw, [])
            places = reference.draw_positions(len(neighbors), raw, self._max_neighbors, key, replace=False)
            for at in places:
                if neighbors[at] not in found:
                    scores[neighbors[at]] = scores.get(neighbors[at], 0.0) + 1 / len(places)

    def _drawn(self, name: NodeType, scores: dict[int, float], place: tuple[int, int, int]) -> list[int]:
        key = self._key(("", "budget", name), place)
        clock = {raw: -log(ops.fractions(key, torch.tensor([raw])).item()) / score**2 for raw, score in scores.items()}
        return sorted(scores, key=lambda raw: (clock[raw], raw))[: self._num_samples[name][place[2]]]

    def _key(self, relation: Relation, place: tuple[int, int, int]) -> int:
        epoch, index, hop = place
        return reference.stream_key(seed=self._seed, epoch=epoch, batch=index, hop=hop, relation=relation)
