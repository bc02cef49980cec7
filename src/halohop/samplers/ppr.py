"""Personalised PageRank by forward push (Andersen, Chung & Lang 2006), for many seeds at once, and neighbourhoods made of it."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.sampling.batch import AnySeeds, Batch, Seeds
from halohop.sampling.discovery import Discovery, Tables
from halohop.sampling.subgraph import induced
from halohop.store.draw import TAKE_ALL
from halohop.store.requests import FetchRequest, HopQuery, RowQuery, SampleRequest
from halohop.typing import RAW_ID, NodeType, Relation

Int64s = NDArray[np.int64]  # sums are NumPy's: torch would wake its threads, which are the trainer's, for each

SCORE = "ppr"
"""The column of scores that a batch of neighbourhoods has."""

_SEEDS_AT_ONCE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Nodes with scores above 0, seed by seed, the highest first; of equal ones those of lower raw id first.

    Args:
        seed: the position of the seed, int64 ``[n]``, ascending.
        gid, raw: the node, int64 ``[n]`` each.
        score: float64 ``[n]``.
    """

    seed: Tensor
    gid: Tensor
    raw: Tensor
    score: Tensor

    def at(self, places: Int64s) -> "Scores":
        """Those at some places, in that order."""
        columns = (self.seed, self.gid, self.raw, self.score)
        seed, gid, raw, score = (ops.gather_rows(column, torch.from_numpy(places)) for column in columns)
        return Scores(seed=seed, gid=gid, raw=raw, score=score)

    def first(self, number: int) -> "Scores":
        """At most so many of each seed."""
        seed = self.seed.numpy()
        rank = np.arange(len(seed)) - np.searchsorted(seed, seed)
        return self.at(np.flatnonzero(rank < number))


class ForwardPush:
    """Approximates where a walk that ends after every step with probability alpha ends.

    The walk steps to one of the in-neighbours of its node, all edges equally likely, as in `halohop.samplers.walks`; at a node
    without in-edges it stays until it ends. Every node has a score and a residual, at first 1 at the seed. To push a node u is
    to move alpha of its residual to its score and to divide the rest among the in-neighbours, until no residual is above
    ``eps * (in-edges of u)`` (of u without any: eps). Scores are too low by what the residuals left would give, never too high;
    a seed costs at most ``1 / (alpha * eps)`` edges, whatever the size of the graph.

    Args:
        graph: where the nodes are.
        relation: that is walked along, between nodes of one type.
        alpha: how likely the walk ends, above 0 and below 1.
        eps: what residual per edge may be left, above 0.

    Raises:
        SchemaError: no such relation.
        InputError: alpha or eps outside their ranges, or a relation between nodes of two types.
    """

    def __init__(self, graph: Graph, relation: Relation, *, alpha: float = 0.15, eps: float = 1e-4) -> None:
        ops.warm_up()
        self.graph = graph
        self.relation = graph.schema.relation(relation)
        if self.relation[0] != self.relation[2]:
            raise InputError(f"{self.relation} joins nodes of two types; PageRank needs a relation between nodes of one type")
        if not 0 < alpha < 1:
            raise InputError(f"alpha={alpha}: give a probability above 0 and below 1, such as 0.15")
        if not 0 < eps < float("inf"):
            raise InputError(f"eps={eps}: give a number above 0, such as 1e-4")
        self._alpha, self._eps = alpha, eps
        self._tables = Tables(graph.schema, disjoint=True, pool=graph.pool)

    @property
    def node_type(self) -> NodeType:
        return self.relation[0]

    def scores(self, seed_gid: Tensor, *, top: int | None = None) -> Scores:
        """The highest of each seed (int64 ``[n]``), or all; the same for any partitioning, and whatever the other seeds.

        Raises:
            InputError: top is below 0.
        """
        if top is not None and top < 0:
            raise InputError(f"top={top} is below 0; give a number of nodes")
        parts = [self._pushed(first, some) for first, some in _slices(seed_gid)]
        seed, gid, score = (ops.join_rows(column) for column in zip(*parts, strict=True))
        query = RowQuery(table=self.node_type, columns=(RAW_ID,), gid=gid)
        ((raw,),) = self.graph.fetch(FetchRequest(queries=(query,)))
        order = np.lexsort((raw.numpy(), -score.numpy(), seed.numpy()))
        scores = Scores(seed=seed, gid=gid, raw=raw, score=score).at(order)
        return scores if top is None else scores.first(top)

    def _pushed(self, first: int, seed_gid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Seeds, nodes and scores above 0, in order of discovery."""
        positions = torch.from_numpy(np.arange(len(seed_gid)))
        discovery = self._tables.start(Seeds(node_type=self.node_type, gid=seed_gid, input_id=positions, epoch=0, index=0))
        residual = np.ones(len(seed_gid))
        score, degree = np.zeros(len(seed_gid)), self._degrees(seed_gid)
        while len(hot := np.flatnonzero(residual > self._eps * np.maximum(degree, 1))):
            amount = residual[hot]
            residual[hot] = 0
            score[hot] += np.where(degree[hot] > 0, self._alpha, 1) * amount
            bid, counts = self._spread(discovery, hot)
            found = discovery.frontier(expand_all=True)[self.node_type].slice(len(score), 2**62).gid
            degree = np.concatenate([degree, self._degrees(found)])
            residual, score = (np.concatenate([known, np.zeros(len(found))]) for known in (residual, score))
            share = (1 - self._alpha) * amount / np.maximum(degree[hot], 1)
            residual += np.bincount(bid, np.repeat(share, counts), len(residual))
        nodes = discovery.frontier(expand_all=True)[self.node_type]
        assert nodes.tree is not None
        scored = np.flatnonzero(score)
        columns = (nodes.tree.numpy()[scored] + first, nodes.gid.numpy()[scored], score[scored])
        seed, gid, of_each = map(torch.from_numpy, columns)
        return seed, gid, of_each

    def _spread(self, discovery: Discovery, hot: Int64s) -> tuple[Int64s, Int64s]:
        """The bids of the in-neighbours of all hot nodes, end to end, and how many each has. A node's list is asked for once."""
        nodes = discovery.frontier(expand_all=True)[self.node_type]
        assert nodes.tree is not None
        gid, which = np.unique(nodes.gid.numpy()[hot], return_inverse=True)
        query = HopQuery(relation=self.relation, fanout=-1, dst_gid=torch.from_numpy(gid))
        (lists,) = self.graph.sample(SampleRequest(draw=TAKE_ALL, queries=(query,))).answers
        lengths = lists.counts.numpy()
        counts, begins = lengths[which], (np.cumsum(lengths) - lengths)[which]
        entry = np.arange(counts.sum()) + np.repeat(begins - np.cumsum(counts) + counts, counts)
        tree = torch.from_numpy(np.repeat(nodes.tree.numpy()[hot], counts))
        bid = torch.empty(len(entry), dtype=torch.int64)
        discovery.add(self.node_type, torch.from_numpy(lists.src_gid.numpy()[entry].astype(np.int64)), tree, bid)
        return bid.numpy(), counts

    def _degrees(self, gid: Tensor) -> Int64s:
        return self.graph.degrees(self.relation, gid).numpy()


class PPRSampler:
    """The nodes with the highest scores around each seed, and all edges of the graph among them (ShaDow, Zeng et al. 2021).

    Every seed has a subgraph of its own. Nothing is drawn: a batch is a function of its seeds.

    Args:
        push: gives the scores.
        top: how many nodes besides the seed.

    Raises:
        InputError: top is below 0, or the nodes have a column of the name that the scores get.
    """

    def __init__(self, push: ForwardPush, *, top: int) -> None:
        if top < 0:
            raise InputError(f"top={top} is below 0; give a number of nodes")
        if SCORE in push.graph.schema.nodes[push.node_type].columns:
            raise InputError(f"nodes of {push.node_type!r} have a column {SCORE!r} already, which scores need; rename it")
        self.graph = push.graph
        self._push = push
        self._top = top
        self._tables = Tables(push.graph.schema, disjoint=True, pool=push.graph.pool)

    def sample(self, seeds: AnySeeds) -> Batch:
        """Seeds first; then the nodes around each, the highest first. Their column "ppr" holds the scores, float32."""
        assert isinstance(seeds, Seeds)
        scores = self._push.scores(seeds.gid)
        is_seed = scores.gid.numpy() == ops.gather_rows(seeds.gid, scores.seed).numpy()
        others = scores.at(np.flatnonzero(~is_seed)).first(self._top)
        discovery = self._tables.start(seeds)
        discovery.add(seeds.node_type, others.gid, others.seed, torch.empty_like(others.gid))
        discovery.end_hop()
        edges = induced(self.graph, discovery)
        nodes = discovery.blocks()
        own = np.zeros(len(seeds.gid))
        own[scores.seed.numpy()[is_seed]] = scores.score.numpy()[is_seed]
        score = torch.from_numpy(np.concatenate([own, others.score.numpy()], dtype=np.float32))
        nodes[seeds.node_type] = replace(nodes[seeds.node_type], columns={SCORE: score})
        return Batch(seeds=seeds, nodes=nodes, edges=edges, ends_bid=discovery.ends_bid)


def _slices(seed_gid: Tensor) -> list[tuple[int, Tensor]]:
    """Seeds that are pushed together, each time with the position of the first; at least one slice."""
    return [(index * _SEEDS_AT_ONCE, some) for index, some in enumerate(seed_gid.split(_SEEDS_AT_ONCE))]
