"""Batches that servers make: what is asked of them, and a sampler that draws nothing itself."""

from dataclasses import dataclass

from torch import Tensor

from halohop.cluster.connections import BatchMaker
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.sampling.batch import AnySeeds, Batch, EdgeBlock, NodeBlock, NodeSet, Seeds
from halohop.sampling.collect import collect
from halohop.sampling.columns import ALL, Columns
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.neighbor import NeighborSampler, check_columns
from halohop.sampling.subgraph import Partners, partners_of
from halohop.store.draw import Rules
from halohop.store.requests import Request
from halohop.typing import NodeType, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a `NeighborSampler` is made with."""

    fanouts: Fanouts
    rules: Rules
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReply:
    """A batch without its seeds, which the client has."""

    nodes: dict[NodeType, NodeBlock]
    edges: dict[Relation, EdgeBlock]
    ends_bid: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest(Request[BatchReply]):
    """Asks for the batch around some seeds: one of the three kinds, the other two being None.

    Args:
        options: of the sampler.
        columns: of its nodes and edges, to be collected with it; None: neither columns nor the user's ids are.
    """

    options: Options
    columns: Columns | None
    nodes: Seeds | None = None
    links: LinkSeeds | None = None
    node_set: NodeSet | None = None

    @classmethod
    def around(cls, seeds: AnySeeds, *, options: Options, columns: Columns | None) -> "BatchRequest":
        match seeds:
            case Seeds():
                return cls(options=options, columns=columns, nodes=seeds)
            case LinkSeeds():
                return cls(options=options, columns=columns, links=seeds)
        return cls(options=options, columns=columns, node_set=seeds)

    @property
    def seeds(self) -> AnySeeds:
        """
        Raises:
            InputError: none of the three is there.
        """
        seeds = self.nodes or self.links or self.node_set
        if seeds is None:
            raise InputError("a batch is asked for, but around nothing")
        return seeds


class RemoteSampler:
    """As `NeighborSampler`, but each batch is one request: a server samples it and collects its rows.

    Args:
        graph: the nodes; only asked for the rows of batches that come without.
        batch_servers: who makes batches.
        fanouts, seed, rules: as of `NeighborSampler`.
        columns: that batches come with; None: rows are collected here, after the user's function has changed the sample.

    Raises:
        InputError: a server cannot make batches.
    """

    def __init__(
        self, graph: Graph, batch_servers: BatchMaker, fanouts: Fanouts, *, seed: int, rules: Rules, columns: Columns | None
    ) -> None:
        check_columns(graph, rules, fanouts.sampled)
        batch_servers.check()
        self.graph = graph
        self._batch_servers = batch_servers
        self.fanouts = fanouts
        self.rules = rules
        self.partners: Partners = partners_of(graph.schema) if rules.subgraph == "bidirectional" else {}
        self._options = Options(fanouts=fanouts, rules=rules, seed=seed)
        self._columns = columns

    def sample(self, seeds: AnySeeds) -> Batch:
        """The batch around `seeds`."""
        reply = self._batch_servers.ask(BatchRequest.around(seeds, options=self._options, columns=self._columns)).result()
        collected = self._columns is not None
        return Batch(seeds=seeds, nodes=reply.nodes, edges=reply.edges, ends_bid=reply.ends_bid, is_collected=collected)


def neighbor_sampler(
    graph: Graph, fanouts: Fanouts, *, seed: int, rules: Rules, columns: Columns | None = ALL
) -> NeighborSampler | RemoteSampler:
    """A sampler that works here, or lets the graph's servers work; see the classes."""
    if graph.batch_servers is not None:
        return RemoteSampler(graph, graph.batch_servers, fanouts, seed=seed, rules=rules, columns=columns)
    return NeighborSampler(graph, fanouts, seed=seed, rules=rules, edge_ids=columns is not None and columns.edge_ids)


def make_batch(sampler: NeighborSampler, request: BatchRequest) -> BatchReply:
    """What a server answers."""
    batch = sampler.sample(request.seeds)
    if request.columns is not None:
        batch = collect(sampler.graph, batch, request.columns)
    return BatchReply(nodes=batch.nodes, edges=batch.edges, ends_bid=batch.ends_bid)
