"""The hop loop: written once, for one node type and many, near and far."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.sampling.batch import AnySeeds, Batch
from halohop.sampling.discovery import Frontier, Tables, Trail
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.subgraph import Subgraph, bidirectional, induced, partners_of
from halohop.store.requests import Draw, HopQuery, SampleRequest
from halohop.typing import Relation

Expand = Literal["new", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How neighbours are drawn and expanded.

    Args:
        replace: draw with replacement.
        expand: "new" expands the nodes that the previous hop found (PyG); "all" draws again for all nodes so far (DGL blocks).
        disjoint: every seed gets a subgraph of its own; a node that is found around two seeds is two nodes of the batch.
        weight: the edges' column of weights to draw by.
        time: the column of times of edges or nodes: what is later than a seed is not drawn around it. Needs `disjoint`.
        last: of the neighbours in time, the most recent ones instead of random ones.
        labor: random numbers belong to the neighbours, so that the nodes of a hop draw alike and a batch has fewer of them
            (LABOR-0, Balin & Catalyurek 2023). In a forest every tree has numbers of its own.
        layer_dependency: all hops have the same random numbers; needs `labor`.
        subgraph: which edges a batch has. "directional": those that were drawn; "induced": all edges of the graph among its
            nodes; "bidirectional": those that were drawn and their flips. The nodes are the same.

    Raises:
        InputError: rules that exclude each other.
    """

    replace: bool = False
    expand: Expand = "new"
    disjoint: bool = False
    weight: str | None = None
    time: str | None = None
    last: bool = False
    labor: bool = False
    layer_dependency: bool = False
    subgraph: Subgraph = "directional"

    def __post_init__(self) -> None:
        if self.expand not in ("new", "all"):
            raise InputError(f"expand={self.expand!r} is neither 'new' nor 'all'")
        if self.last and self.time is None:
            raise InputError("the most recent neighbours are asked for, but no times are named; name their column")
        if self.last and self.weight is not None:
            raise InputError(f"the most recent neighbours are no matter of chance; leave out the weights {self.weight!r}")
        if self.labor and self.last:
            raise InputError("the most recent neighbours are no matter of chance; leave out labor")
        if self.labor and self.replace:
            raise InputError("labor draws without replacement; leave out replace=True")
        if self.layer_dependency and not self.labor:
            raise InputError("layer_dependency is a matter of labor alone; leave it out, or draw with method='labor'")
        if self.time is not None and not self.disjoint:
            raise InputError("with times every seed needs a subgraph of its own; set disjoint=True")
        if self.subgraph not in get_args(Subgraph):
            raise InputError(f"subgraph type {self.subgraph!r} is none of {list(get_args(Subgraph))}")
        if self.subgraph == "induced" and self.time is not None:
            raise InputError("induced subgraphs have edges of any time; leave out the times, or use subgraph type 'directional'")


class NeighborSampler:
    """Samples the neighbourhood of seeds, hop by hop (GraphSAGE, Hamilton et al. 2017).

    A batch is a pure function of (seed, epoch, batch index, hop, relation, tree, raw id): not of the partitions, the thread or
    the rank. One sampler serves any number of threads.

    Args:
        graph: where the nodes are.
        fanouts: neighbours per relation and hop.
        seed: names the stream of random numbers.
        rules: how they are drawn.

    Attributes:
        partners: of bidirectional subgraphs, the relation that holds each relation's flips.

    Raises:
        InputError: a column of the rules that no relation or node type has, or a relation whose flips have no relation.
        SchemaError: the flips of a relation go to one with other columns.
    """

    def __init__(self, graph: Graph, fanouts: Fanouts, *, seed: int = 0, rules: Rules | None = None) -> None:
        ops.warm_up()
        self.graph = graph
        self.fanouts = fanouts
        self.rules = rules or Rules()
        self._seed = seed
        self._tables = Tables(graph.schema, disjoint=self.rules.disjoint, pool=graph.pool)
        check_columns(graph, self.rules)
        self.partners = partners_of(graph.schema) if self.rules.subgraph == "bidirectional" else {}

    def sample(self, seeds: AnySeeds) -> Batch:
        """The subgraph around `seeds`, without rows (see `halohop.sampling.collect`)."""
        assert self.rules.time is None or seeds.time is not None
        discovery = self._tables.start(seeds)
        trails = {relation: Trail(self.graph.pool) for relation in self.fanouts.per_relation}
        for hop in range(self.fanouts.num_hops):
            frontiers = discovery.frontier(expand_all=self.rules.expand == "all")
            queries = tuple(
                self._query(relation, fanouts[hop], frontiers[relation[2]], seeds)
                for relation, fanouts in self.fanouts.per_relation.items()
                if fanouts[hop] != 0 and len(frontiers[relation[2]].gid)
            )
            answers = self.graph.sample(SampleRequest(draw=self._draw(seeds, hop), queries=queries)).answers if queries else ()
            for query, answer in zip(queries, answers, strict=True):
                src_type, _, dst_type = query.relation
                with self.graph.counters.span("dedup"):
                    src_bid, dst_bid = trails[query.relation].extend(answer.edge_gid)
                    ops.repeat_positions(answer.counts, frontiers[dst_type].begin, dst_bid)
                    discovery.add(src_type, answer.src_gid, frontiers[dst_type].tree_of(dst_bid), src_bid)
            discovery.end_hop()
            for trail in trails.values():
                trail.end_hop()
        nodes, edges = discovery.blocks(), {relation: trail.block() for relation, trail in trails.items()}
        if self.rules.subgraph == "induced":
            edges = induced(self.graph, discovery, lambda relation, frontier: self._query(relation, -1, frontier, seeds))
        elif self.rules.subgraph == "bidirectional":
            edges = bidirectional(edges, nodes, self.partners, self.graph.pool)
        return Batch(seeds=seeds, nodes=nodes, edges=edges, ends_bid=discovery.ends_bid)

    def _draw(self, seeds: AnySeeds, hop: int) -> Draw:
        rules = self.rules
        return Draw(
            seed=self._seed,
            epoch=seeds.epoch,
            batch=seeds.index,
            hop=0 if rules.layer_dependency else hop,
            replace=rules.replace,
            weight=rules.weight,
            time=rules.time,
            last=rules.last,
            labor=rules.labor,
        )

    def _query(self, relation: Relation, fanout: int, frontier: Frontier, seeds: AnySeeds) -> HopQuery:
        latest: Tensor | None = None
        if self.rules.time is not None:
            assert seeds.time is not None
            assert frontier.tree is not None
            latest = ops.gather_rows(seeds.time, frontier.tree)
        return HopQuery(
            relation=relation,
            fanout=fanout,
            dst_gid=frontier.gid,
            tree=frontier.tree,
            latest=latest,
            excluded=seeds.excluded.get(relation),
        )


def check_columns(graph: Graph, rules: Rules) -> None:
    """
    Raises:
        InputError: a column of the rules that no relation or node type has.
    """
    of_edges = {relation: spec.columns for relation, spec in graph.schema.edges.items()}
    of_nodes = {name: spec.columns for name, spec in graph.schema.nodes.items()}
    if rules.weight is not None and not any(rules.weight in columns for columns in of_edges.values()):
        raise InputError(f"no relation has weights {rules.weight!r}; columns of the edges: {_named(of_edges)}")
    if rules.time is not None and not any(rules.time in columns for columns in (*of_edges.values(), *of_nodes.values())):
        raise InputError(f"neither edges nor nodes have times {rules.time!r}; columns: {_named({**of_edges, **of_nodes})}")


def _named(tables: Mapping[Any, Mapping[str, object]]) -> str:
    return "; ".join(f"{name}: {list(columns)}" for name, columns in tables.items())
