"""The hop loop for graphs whose lists are all in this process, and for the options in `SUPPORTED`: the same batches, in two calls
of kernels for all hops and relations together."""

from dataclasses import dataclass
from typing import Any

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.sampling.batch import AnySeeds, Batch, EdgeBlock
from halohop.sampling.discovery import Discovery
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.lists import OF_HOPS
from halohop.store.draw import Rules
from halohop.store.topology import Topology
from halohop.telemetry import Counters
from halohop.typing import EDGE_ID, Relation

SUPPORTED = frozenset({"expand", "toward_seeds", "weight"})
"""The options of `Rules` that the kernels honor; `weight` only if no relation has that column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearSampler:
    """Samples batches of a graph in this process.

    Args:
        hops: the lists.
        relations: in the order of the lists.
        edge_ids: whether batches come with the user's ids of their edges.
        seed: names the stream of random numbers.
        counters: of the graph.
    """

    hops: ops.NearHops
    relations: list[Relation]
    edge_ids: bool
    seed: int
    counters: Counters

    @classmethod
    def of(
        cls, graph: Graph, fanouts: Fanouts, *, rules: Rules, list_end: int, edge_ids: bool, seed: int
    ) -> "NearSampler | None":
        """None where the graph or the rules need more than this."""
        topologies = graph.topologies
        if topologies is None or not fanouts.per_relation or not rules.changed <= SUPPORTED:
            return None
        if any(rules.weight in topologies[name].columns for name in fanouts.per_relation):
            return None
        numbers = {name: number for number, name in enumerate(graph.schema.nodes)}
        lists = []
        for relation, fanout in fanouts.per_relation.items():
            known = _in_one(topologies[relation], edge_ids=edge_ids)
            if known is None or max(fanout, default=0) > ops.MOST_DRAWN:
                return None
            own, neighbors = numbers[graph.book.list_type(relation)], numbers[graph.book.neighbor_type(relation)]
            lists.append(ops.NearLists(**known, own_type=own, neighbor_type=neighbors, fanouts=fanout))
        expand_all = rules.expand == "all"
        begins = expand_all and list_end == 1
        hops = ops.NearHops(lists, expand_all=expand_all, list_end=list_end, pool=graph.pool, begins=begins)
        return cls(
            hops=hops,
            relations=list(fanouts.per_relation),
            edge_ids=edge_ids,
            seed=seed,
            counters=graph.counters,
        )

    def sample(self, seeds: AnySeeds, discovery: Discovery) -> Batch | None:
        """The subgraph around seeds, which are all that was found so far; None if there are too many nodes, or something is wrong
        with them or the graph."""
        nodes = discovery.relabelers
        if seeds.excluded or not all(relabeler.is_dense for relabeler in nodes):
            return None
        with self.counters.span("draw"):
            batch = self.hops.sample(nodes, seed=self.seed, epoch=seeds.epoch, batch=seeds.index)
        if batch is None:
            return None
        edges = {
            relation: EdgeBlock(
                ends_bid=found.ends_bid,
                gid=found.gid,
                num_sampled=tuple(counts),
                columns={EDGE_ID: found.gid if found.edge_id is None else found.edge_id} if self.edge_ids else {},
            )
            for relation, found, *counts in zip(self.relations, batch.edges, *batch.num_edges, strict=True)
        }
        for found, begins in zip(batch.edges, batch.begins, strict=True):
            if begins:
                OF_HOPS.keep(found.ends_bid, begins)
        discovery.end_hops(batch.num_nodes)
        self.counters.add("local_rows", batch.num_lists)
        return Batch(seeds=seeds, nodes=discovery.blocks(), edges=edges, ends_bid=discovery.ends_bid)


def _in_one(topology: Topology, *, edge_ids: bool) -> dict[str, Any] | None:
    """What lists are read of, each in one array; None where some are not."""
    pieces = {"indptr": topology.indptr, "indices": topology.indices, "raw": topology.dst_raw}
    pieces["edge_ids"] = topology.edge_ids if edge_ids else None
    arrays = {name: None if array is None else array.in_one() for name, array in pieces.items()}
    if any(array is None and pieces[name] is not None for name, array in arrays.items()):
        return None
    return {"drawn_as": topology.drawn_as, **arrays}
