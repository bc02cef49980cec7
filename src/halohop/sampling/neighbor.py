"""The hop loop: for one node type and many, local and remote. It honors every option of `Rules`; `sampling/near.py` makes the
same batches faster for those that it names."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import AnyGraph, Graph
from halohop.errors import InputError
from halohop.ops.device import DevicePool
from halohop.sampling.batch import AnySeeds, Batch
from halohop.sampling.discovery import Frontier, Tables, Trail
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.near import NearSampler
from halohop.sampling.placed import Places, can_be_placed
from halohop.sampling.subgraph import bidirectional, induced, partners_of
from halohop.store.draw import Draw, Rules
from halohop.store.requests import HopQuery, SampleRequest
from halohop.store.schema import check_numbers
from halohop.typing import NodeType, Relation


class NeighborSampler:
    """Samples the neighbourhood of seeds, hop by hop (GraphSAGE, Hamilton et al. 2017).

    A batch is a pure function of (seed, epoch, batch index, hop, relation, tree, raw id): not of the partitions, the thread or
    the rank. One sampler serves any number of threads.

    Where the graph's pool is of a device, seeds are moved there, and the batch is made there.

    Args:
        graph: where the nodes are.
        fanouts: neighbours per relation and hop.
        seed: names the stream of random numbers.
        rules: how they are drawn.
        edge_ids: whether batches come with the user's ids of their edges, from those who draw them; of induced and bidirectional
            subgraphs they come with the rows.
        places: of a device: how many places batches have, which are padded then, and for whose sizes the host does not wait.

    Attributes:
        partners: of bidirectional subgraphs, the relation that holds each relation's flips.

    Raises:
        InputError: a column of the rules that no relation or node type has, or a relation whose flips have no relation.
        SchemaError: the flips of a relation go to one with other columns.
    """

    def __init__(
        self,
        graph: AnyGraph,
        fanouts: Fanouts,
        *,
        seed: int = 0,
        rules: Rules | None = None,
        edge_ids: bool = False,
        places: Places | None = None,
    ) -> None:
        self.graph: Any = graph  # of either kind; those who ask more than requests know which
        self.fanouts = fanouts
        self.rules = rules or Rules()
        self._edge_ids = edge_ids and self.rules.subgraph == "directional"
        self._seed = seed
        self._places, book = places, graph.book
        self._list_end = 1 if self.rules.toward_seeds else book.list_end
        self._ends = {relation: (book.neighbor_type(relation), book.list_type(relation)) for relation in fanouts.per_relation}
        found_by: dict[NodeType, list[Relation]] = {}
        for relation, (neighbors, _) in self._ends.items():
            found_by.setdefault(neighbors, []).append(relation)
        room = {} if places is None else {name: (places.nodes[name], places.most_found(found_by, name)) for name in places.nodes}
        self._tables = Tables(graph.schema, disjoint=self.rules.disjoint, pool=graph.pool, room=room)
        check_columns(graph, self.rules, fanouts.sampled)
        self._device = graph.pool if isinstance(graph.pool, DevicePool) else None
        self._near: NearSampler | None = None
        if self._device is None:
            assert isinstance(graph, Graph)
            self._near = NearSampler.of(
                graph, fanouts, rules=self.rules, list_end=self._list_end, edge_ids=self._edge_ids, seed=seed
            )
            ops.warm_up_near() if self._near is not None else ops.warm_up()
        self.partners = partners_of(graph.schema) if self.rules.subgraph == "bidirectional" else {}

    def placed(self, places: Places) -> "NeighborSampler | None":
        """The sampler for batches with so many places, for whose sizes the host does not wait; None where it has to."""
        if self._device is None or not self.graph.draws or not can_be_placed(self.rules) or not places.can_be_numbered:
            return None
        return NeighborSampler(self.graph, self.fanouts, seed=self._seed, rules=self.rules, places=places)

    def sample(self, seeds: AnySeeds) -> Batch:
        """The subgraph around `seeds`, without rows (see `halohop.sampling.collect`)."""
        assert self.rules.time is None or seeds.time is not None
        if self._device is not None:
            seeds = seeds.put(self._device)
        if self._near is not None and (batch := self._near.sample(seeds, self._tables.start(seeds))) is not None:
            return batch
        discovery = self._tables.start(seeds)
        trails = {relation: Trail(self.graph.pool, list_end=self._list_end) for relation in self._ends}
        for hop in range(self.fanouts.num_hops):
            frontiers = discovery.frontier(expand_all=self.rules.expand == "all")
            queries = tuple(
                self._query(relation, fanouts[hop], frontiers[self._ends[relation][1]], seeds, self._most(relation, hop))
                for relation, fanouts in self.fanouts.per_relation.items()
                if fanouts[hop] != 0 and frontiers[self._ends[relation][1]].gid.numel()
            )
            answers = self.graph.sample(SampleRequest(draw=self._draw(seeds, hop), queries=queries)).answers if queries else ()
            with self.graph.counters.span("dedup"):
                for query, answer in zip(queries, answers, strict=True):
                    neighbors, listed = self._ends[query.relation]
                    frontier = frontiers[listed]
                    neighbor_bid, bid = trails[query.relation].extend(answer.edge_gid, answer.edge_id)
                    ops.repeat_positions(answer.counts, frontier.begin, bid)
                    discovery.add(neighbors, answer.src_gid, frontier.tree_of(bid), neighbor_bid)
                if self._places is not None:
                    asked = {query.relation for query in queries}
                    for relation in trails.keys() - asked:
                        trails[relation].extend(self.graph.pool.empty((self._most(relation, hop),), torch.int64).fill_(-1))
            discovery.end_hop()
            for trail in trails.values():
                trail.end_hop()
        nodes = discovery.blocks()
        edges = {relation: trail.block(ids=self._edge_ids) for relation, trail in trails.items()}
        if self.rules.subgraph == "induced":

            def whole(relation: Relation, frontier: Frontier) -> HopQuery:
                return self._query(relation, -1, frontier, seeds)

            edges = induced(self.graph, discovery, whole, list_end=self._list_end)
        elif self.rules.subgraph == "bidirectional":
            edges = bidirectional(edges, nodes, self.partners, self.graph.pool)
        if self._places is not None:
            nodes, edges = self._places.completed(nodes, edges)
        room = None if self._places is None else self._places.inputs
        return Batch(seeds=seeds, nodes=nodes, edges=edges, ends_bid=discovery.ends_bid, room=room)

    def _most(self, relation: Relation, hop: int) -> int | None:
        return None if self._places is None else self._places.edges[relation][hop]

    def _draw(self, seeds: AnySeeds, hop: int) -> Draw:
        hop = 0 if self.rules.layer_dependency else hop
        return Draw(seed=self._seed, epoch=seeds.epoch, batch=seeds.index, hop=hop, rules=self.rules)

    def _query(self, relation: Relation, fanout: int, frontier: Frontier, seeds: AnySeeds, most: int | None = None) -> HopQuery:
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
            edge_ids=self._edge_ids,
            most=most,
        )


def check_columns(graph: AnyGraph, rules: Rules, sampled: Iterable[Relation]) -> None:
    """
    Raises:
        InputError: a column of the rules that no relation or node type has, or that does not hold a number for each row of a
            sampled relation.
    """
    of_edges = {relation: spec.columns for relation, spec in graph.schema.edges.items()}
    of_nodes = {name: spec.columns for name, spec in graph.schema.nodes.items()}
    if rules.weight is not None and not any(rules.weight in columns for columns in of_edges.values()):
        raise InputError(f"no relation has weights {rules.weight!r}; columns of the edges: {_named(of_edges)}")
    if rules.time is not None and not any(rules.time in columns for columns in (*of_edges.values(), *of_nodes.values())):
        raise InputError(f"neither edges nor nodes have times {rules.time!r}; columns: {_named({**of_edges, **of_nodes})}")
    for relation in sampled:
        columns = of_edges[relation]
        table = relation if rules.time in columns else graph.book.neighbor_type(relation)
        check_numbers(columns.get(rules.weight or ""), ops.WEIGHT_DTYPES, "weights", rules.weight, relation)
        times = (columns if table == relation else of_nodes[str(table)]).get(rules.time or "")
        check_numbers(times, ops.TIME_DTYPES, "times", rules.time, table)


def _named(tables: Mapping[Any, Mapping[str, object]]) -> str:
    return "; ".join(f"{name}: {list(columns)}" for name, columns in tables.items())
