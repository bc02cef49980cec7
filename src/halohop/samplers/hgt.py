"""HGT's sampling: so many nodes of each type in each hop, preferably those with many edges to the batch (Hu et al. 2020)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.sampling.batch import AnySeeds, Batch
from halohop.sampling.discovery import Discovery, Tables
from halohop.sampling.subgraph import induced
from halohop.store.draw import Draw
from halohop.store.requests import FetchRequest, HopQuery, RowQuery, SampleRequest
from halohop.store.schema import Schema
from halohop.typing import RAW_ID, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class NumSamples:
    """How many nodes of each type every hop adds.

    Raises:
        InputError: types differ in their number of hops, or a number is not a whole one >= 0.

    Example:
        >>> NumSamples(per_type={"paper": (8, 4), "author": (8, 0)}).num_hops
        2
    """

    per_type: dict[NodeType, tuple[int, ...]]

    def __post_init__(self) -> None:
        hops = {name: len(numbers) for name, numbers in self.per_type.items()}
        if len(set(hops.values())) > 1:
            raise InputError(f"every node type needs the same number of hops (fill up with 0), got {hops}")
        for name, numbers in self.per_type.items():
            for number in numbers:
                if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                    raise InputError(f"num_samples of {name!r} has {number!r}, which is not a whole number >= 0")

    @classmethod
    def uniform(cls, numbers: Sequence[int], schema: Schema) -> "NumSamples":
        """The same numbers for every type."""
        return cls(per_type=dict.fromkeys(schema.nodes, tuple(numbers)))

    @classmethod
    def by_type(cls, numbers: Mapping[NodeType, Sequence[int]], schema: Schema) -> "NumSamples":
        """Each type's own, in the schema's order.

        Raises:
            SchemaError: an unknown node type.
            InputError: a type has no numbers.
        """
        given = {schema.node_type(name): tuple(values) for name, values in numbers.items()}
        missing = [name for name in schema.nodes if name not in given]
        if missing:
            raise InputError(f"no num_samples for {missing}; give every node type its own, zeros to leave it out")
        return cls(per_type={name: given[name] for name in schema.nodes})

    @property
    def num_hops(self) -> int:
        return max(map(len, self.per_type.values()), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The nodes of a type that may be drawn next, int64 ``[n]``, ascending, and the score of each, float64 ``[n]``."""

    gid: NDArray[np.int64]
    score: NDArray[np.float64]

    def plus(self, gid: NDArray[np.int64], amounts: NDArray[np.float64]) -> "Budget":
        """With amounts added to the scores of some nodes, old or new, one after the other: sums do not depend on gids."""
        known, place = np.unique(np.concatenate([self.gid, gid]), return_inverse=True)
        sums = np.bincount(place, np.concatenate([self.score, amounts]), len(known))
        return Budget(gid=known, score=sums.astype(np.float64, copy=False))

    def draw(self, number: int, raw: Tensor, key: int) -> tuple[NDArray[np.int64], "Budget"]:
        """At most so many nodes, in the order drawn, and the budget without them.

        Each is drawn in proportion to the squares of the scores that remain (as exponential clocks: the first to ring win; the
        method of Efraimidis & Spirakis 2006). The clock of a node depends on the key and its raw id alone.
        """
        clock = -np.log(ops.fractions(key, raw).numpy()) / self.score**2
        candidates = np.arange(len(clock))
        if number < len(clock):
            latest = np.partition(clock, number - 1)[number - 1] if number else -1.0
            candidates = np.flatnonzero(clock <= latest)
        drawn = candidates[np.lexsort((raw.numpy()[candidates], clock[candidates]))][:number]
        rest = np.ones(len(clock), np.bool_)
        rest[drawn] = False
        return self.gid[drawn], Budget(gid=self.gid[rest], score=self.score[rest])


class HGTSampler:
    """Samples by budgets, hop by hop (algorithms 1 and 2 of Hu et al. 2020).

    A node that joins the batch gives each neighbour along each relation, of those not in the batch, ``1 / number of neighbours``
    of a budget that is kept per node type. A hop draws the asked number of nodes of every type from its budget, without
    replacement, in proportion to the squares of the scores; budgets grow between hops. The edges are all edges of the graph among
    the nodes.

    A batch is a pure function of (seed, epoch, batch index, hop, node type, raw id).

    Args:
        graph: where the nodes are.
        samples: nodes per type and hop.
        seed: names the stream of random numbers.
        max_neighbors: of a longer list so many neighbours share the budget, drawn uniformly; -1 takes all.

    Raises:
        InputError: max_neighbors is neither -1 nor at least 1.
    """

    def __init__(self, graph: Graph, samples: NumSamples, *, seed: int = 0, max_neighbors: int = -1) -> None:
        if max_neighbors < 1 and max_neighbors != -1:
            raise InputError(f"max_neighbors={max_neighbors}; give a number of at least 1, or -1 for all neighbours")
        ops.warm_up()
        self.graph = graph
        self.samples = samples
        self._seed = seed
        self._max_neighbors = max_neighbors
        self._tables = Tables(graph.schema, disjoint=False, pool=graph.pool)

    def sample(self, seeds: AnySeeds) -> Batch:
        """The subgraph around `seeds`, without rows (see `halohop.sampling.collect`)."""
        discovery = self._tables.start(seeds)
        nothing = Budget(gid=np.empty(0, np.int64), score=np.empty(0, np.float64))
        budgets = dict.fromkeys(self.graph.schema.nodes, nothing)
        for hop in range(self.samples.num_hops):
            self._grow(budgets, discovery, seeds, hop)
            self._spend(budgets, discovery, seeds, hop)
            discovery.end_hop()
        edges = induced(self.graph, discovery)
        return Batch(seeds=seeds, nodes=discovery.blocks(), edges=edges, ends_bid=discovery.ends_bid)

    def _grow(self, budgets: dict[NodeType, Budget], discovery: Discovery, seeds: AnySeeds, hop: int) -> None:
        """What the nodes that came last add to the budgets, of types that are still drawn from."""
        frontiers, book = discovery.frontier(expand_all=False), self.graph.book
        expanded = {relation: frontiers[book.list_type(relation)].gid for relation in self.graph.schema.edges}
        queries = tuple(
            HopQuery(relation=relation, fanout=self._max_neighbors, dst_gid=gid)
            for relation, gid in expanded.items()
            if any(self.samples.per_type[book.neighbor_type(relation)][hop:]) and len(gid)
        )
        if not queries:
            return
        draw = Draw(seed=self._seed, epoch=seeds.epoch, batch=seeds.index, hop=hop)
        added: dict[NodeType, list[tuple[NDArray[np.int64], NDArray[np.float64]]]] = {}
        for query, answer in zip(queries, self.graph.sample(SampleRequest(draw=draw, queries=queries)).answers, strict=True):
            source, counts = book.neighbor_type(query.relation), answer.counts.numpy()
            amounts = np.repeat(1 / np.maximum(counts, 1), counts)
            new = discovery.find(source, answer.src_gid, None).numpy() < 0
            added.setdefault(source, []).append((answer.src_gid.numpy()[new].astype(np.int64), amounts[new]))
        for name, parts in added.items():
            gid, amounts = (np.concatenate(column) for column in zip(*parts, strict=True))
            budgets[name] = budgets[name].plus(gid, amounts)

    def _spend(self, budgets: dict[NodeType, Budget], discovery: Discovery, seeds: AnySeeds, hop: int) -> None:
        """Draws this hop's nodes of every type."""
        numbers = {name: self.samples.per_type[name][hop] for name, budget in budgets.items() if len(budget.gid)}
        names = [name for name, number in numbers.items() if number]
        queries = tuple(RowQuery(table=name, columns=(RAW_ID,), gid=torch.from_numpy(budgets[name].gid)) for name in names)
        raws = self.graph.fetch(FetchRequest(queries=queries)) if queries else ()
        for name, (raw,) in zip(names, raws, strict=True):
            relation = ("", "budget", name)
            key = ops.stream_key(seed=self._seed, epoch=seeds.epoch, batch=seeds.index, hop=hop, relation=relation)
            drawn, budgets[name] = budgets[name].draw(numbers[name], raw, key)
            gid = torch.from_numpy(drawn)
            discovery.add(name, gid, None, torch.empty_like(gid))
