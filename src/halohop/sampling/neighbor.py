"""The hop loop: written once, for one node type and many, near and far."""

import sys
import threading
from typing import Literal

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock, Seeds
from halohop.sampling.fanouts import Fanouts
from halohop.store.requests import Draw, HopQuery, SampleRequest
from halohop.typing import NodeType

Expand = Literal["new", "all"]


class NeighborSampler:
    """Samples the neighbourhood of seeds, hop by hop (GraphSAGE, Hamilton et al. 2017).

    A batch is a pure function of (seed, epoch, batch index, hop, relation, raw id): not of the partitions, the thread or
    the rank. One sampler serves any number of threads.

    Args:
        graph: where the nodes are.
        fanouts: neighbours per relation and hop.
        seed: names the stream of random numbers.
        replace: draw with replacement.
        expand: "new" expands the nodes that the previous hop found (PyG); "all" draws again for all nodes so far (DGL blocks).

    Raises:
        InputError: an unknown `expand`.
    """

    def __init__(self, graph: Graph, fanouts: Fanouts, *, seed: int = 0, replace: bool = False, expand: Expand = "new") -> None:
        if expand not in ("new", "all"):
            raise InputError(f"expand={expand!r} is neither 'new' nor 'all'")
        ops.warm_up(announce=lambda line: print(f"halohop: {line}", file=sys.stderr))
        self.graph = graph
        self.fanouts = fanouts
        self._seed = seed
        self._replace = replace
        self._expand = expand
        self._per_thread = threading.local()

    def sample(self, seeds: Seeds) -> Batch:
        """The subgraph around `seeds`, without rows (see `halohop.sampling.collect`)."""
        discovery = _Discovery(self._relabelers(), seeds)
        trails = {relation: _Trail(self.graph.pool) for relation in self.fanouts.per_relation}
        for hop in range(self.fanouts.num_hops):
            frontier = discovery.frontier(expand_all=self._expand == "all")
            queries = tuple(
                HopQuery(relation=relation, fanout=fanouts[hop], dst_gid=frontier[relation[2]])
                for relation, fanouts in self.fanouts.per_relation.items()
                if fanouts[hop] != 0 and len(frontier[relation[2]])
            )
            if queries:
                draw = Draw(seed=self._seed, epoch=seeds.epoch, batch=seeds.index, hop=hop, replace=self._replace)
                answers = self.graph.sample(SampleRequest(draw=draw, queries=queries)).answers
                for query, answer in zip(queries, answers, strict=True):
                    src_bid, dst_bid = trails[query.relation].extend(answer.edge_gid)
                    with self.graph.counters.span("dedup"):
                        discovery.add(query.relation[0], answer.src_gid, src_bid)
                        ops.repeat_positions(answer.counts, discovery.begin(query.relation[2]), dst_bid)
            discovery.end_hop()
            for trail in trails.values():
                trail.end_hop()
        return Batch(
            seeds=seeds,
            nodes=discovery.blocks(),
            edges={relation: trail.block() for relation, trail in trails.items()},
        )

    def _relabelers(self) -> dict[NodeType, ops.Relabeler]:
        """This thread's tables: made once, reused for every batch."""
        tables: dict[NodeType, ops.Relabeler] | None = getattr(self._per_thread, "tables", None)
        if tables is None:
            pool = self.graph.pool
            tables = {name: ops.Relabeler(spec.count, pool=pool) for name, spec in self.graph.schema.nodes.items()}
            self._per_thread.tables = tables
        return tables


class _Discovery:
    """The nodes found so far, by type, with the bounds between the hops that found them."""

    def __init__(self, relabelers: dict[NodeType, ops.Relabeler], seeds: Seeds) -> None:
        self._relabelers = relabelers
        nothing = torch.empty(0, dtype=torch.int64)
        for name, relabeler in relabelers.items():
            relabeler.start(seeds.gid if name == seeds.node_type else nothing)
        self._num_sampled = {name: [relabeler.count] for name, relabeler in relabelers.items()}
        self._begin = dict.fromkeys(relabelers, 0)

    def frontier(self, *, expand_all: bool) -> dict[NodeType, Tensor]:
        """The nodes to expand now: those of the last hop, or all."""
        for name, counts in self._num_sampled.items():
            self._begin[name] = 0 if expand_all else sum(counts) - counts[-1]
        return {name: relabeler.nodes(self._begin[name]) for name, relabeler in self._relabelers.items()}

    def begin(self, node_type: NodeType) -> int:
        """The bid of the frontier's first node."""
        return self._begin[node_type]

    def add(self, node_type: NodeType, gids: Tensor, bids: Tensor) -> None:
        """Writes the bids of nodes, old and new."""
        self._relabelers[node_type].add(gids, out=bids)

    def end_hop(self) -> None:
        for name, counts in self._num_sampled.items():
            counts.append(self._relabelers[name].count - sum(counts))

    def blocks(self) -> dict[NodeType, NodeBlock]:
        return {
            name: NodeBlock(gid=relabeler.nodes(), num_sampled=tuple(self._num_sampled[name]))
            for name, relabeler in self._relabelers.items()
        }


class _Trail:
    """The edges of one relation, hop after hop.

    It grows to the exact size in every hop, so the last one, which has most of the edges, is written once, where it stays.
    """

    def __init__(self, pool: ops.Pool) -> None:
        self._pool = pool
        self._ends_bid = torch.empty((2, 0), dtype=torch.int64)
        self._gid = torch.empty(0, dtype=torch.int64)
        self._num_sampled: list[int] = []

    def extend(self, edge_gid: Tensor) -> tuple[Tensor, Tensor]:
        """Takes in a hop's edges; returns the room for the bids of their sources and destinations."""
        known, total = len(self._gid), len(self._gid) + len(edge_gid)
        ends_bid, gid = self._pool.empty((2, total), torch.int64), self._pool.empty((total,), torch.int64)
        for old, new in zip((*self._ends_bid, self._gid), (*ends_bid, gid), strict=True):
            ops.copy_ids(old, new[:known])
        ops.copy_ids(edge_gid, gid[known:])
        self._ends_bid, self._gid = ends_bid, gid
        return ends_bid[0, known:], ends_bid[1, known:]

    def end_hop(self) -> None:
        self._num_sampled.append(len(self._gid) - sum(self._num_sampled))

    def block(self) -> EdgeBlock:
        return EdgeBlock(ends_bid=self._ends_bid, gid=self._gid, num_sampled=tuple(self._num_sampled))
