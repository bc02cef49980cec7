"""What PyG's loaders have in common: a sampler, and batches turned into PyG's objects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar, Unpack

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NumNeighbors

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.loading.examples import Examples
from halohop.loading.loader import BatchLoader
from halohop.loading.options import whole
from halohop.loading.pipeline import Made
from halohop.loading.seeds import OwnPlan, ShuffledPlan
from halohop.pyg.arguments import BatchArguments, DrawArguments, NeighborArguments, SampledArguments, chosen, rules_of, without
from halohop.pyg.batch_tables import with_tables
from halohop.pyg.columns import checked_ids
from halohop.pyg.convert import to_pyg
from halohop.pyg.inputs import fanouts_of, padding_of
from halohop.pyg.sampler import HalohopSampler, LoaderSampler
from halohop.pyg.sampler_output import from_sampler_output, to_sampler_output
from halohop.pyg.seeds import note_seeds
from halohop.pyg.source import source_of
from halohop.sampling.batch import AnySeeds, Batch, NodeSet
from halohop.sampling.caps import Padding, Sizes, bound, measured
from halohop.sampling.neighbor import NeighborSampler
from halohop.sampling.padding import fill_empty
from halohop.sampling.padding import pad as pad_batch
from halohop.sampling.placed import Places
from halohop.sampling.remote import RemoteSampler, neighbor_sampler
from halohop.sampling.sampler import Sampler
from halohop.store.draw import Rules
from halohop.typing import Relation


class SampledLoader(BatchLoader):
    """Batches of sampled subgraphs as PyG's `Data` or `HeteroData`, whatever draws them.

    Args:
        data: as of `halohop.NeighborLoader`.
        make: makes the sampler and what it goes through, given the graph and the seed.
        reads: names of the columns that sampling reads, such as times and weights.
        kwargs: `SampledArguments`.
    """

    _reads_edge_ids: ClassVar[bool] = False  # whether a subclass needs them, whatever batches have

    def __init__(
        self,
        data: Data | HeteroData | Graph,
        make: Callable[[Graph, int], tuple[Sampler, Examples]],
        *,
        reads: Sequence[str | None] = (),
        **kwargs: Unpack[SampledArguments],
    ) -> None:
        options = chosen(BatchArguments, kwargs)
        self._data = data
        self.transform = options["transform"]
        self.filter_per_worker, self.custom_cls = options["filter_per_worker"], options["custom_cls"]
        self._transform_sampler_output = options["transform_sampler_output"]
        self._gids = options["gids"]
        self._source = source_of(data, reads, options["custom_cls"], options["edge_dir"])
        graph, seed, generator = self._source.graph, options["seed"], kwargs.get("generator")
        if seed is None:
            seed = 0 if generator is None else int(generator.initial_seed())
        seed = whole(seed, "seed")
        self._columns, self._tables = with_tables(graph, self._source.columns, options["node_columns"], options["edge_columns"])
        self._source.check(self._columns)
        self._ids = checked_ids(options["ids"])
        edge_ids = "e_id" in self._ids or self._reads_edge_ids or self._source.needs_edge_ids(self._columns)
        self._columns = replace(self._columns, node_ids="n_id" in self._ids, edge_ids=edge_ids)
        revises = options["transform_sampler_output"] is not None or options["pad"] is not None
        self._columns_along = None if revises else self._columns  # with a sample that comes as it stays
        self._places: Places | None = None
        self._placed: NeighborSampler | None = None
        super().__init__(
            *make(graph, seed),
            seed=seed,
            sampler_of_seeds=kwargs.get("sampler"),
            generator=generator,
            **without(BatchArguments, kwargs),
        )
        self._padding = padding_of(options["pad"], graph.schema)
        idle = isinstance(self._plan, OwnPlan) and not len(self._seeds)  # a rank without seeds has no batch to pad
        self._caps = None if self._padding is None or idle else self._measured(self._padding)
        if self._caps is not None and self._padding is not None and self._padding.caps == "bound":
            self._places = self._caps.places()  # enough for any batch, so that nobody need ask how large one is
            sampler, revised = self._sampler, self._transform_sampler_output is not None
            self._placed = sampler.placed(self._places) if isinstance(sampler, NeighborSampler) and not revised else None

    @property
    def data(self) -> Any:
        """What the loader was made with. Its columns may change between batches.

        Raises:
            InputError: another graph is put in its place.
        """
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        raise InputError(
            f"data of a loader cannot be another {type(value).__name__}; change the columns of it, or make another loader"
        )

    @property
    def transform_sampler_output(self) -> Callable[[Any], Any] | None:
        """What the loader was made with."""
        return self._transform_sampler_output

    def _measured(self, padding: Padding) -> Sizes:
        """The places of a batch. Ranks that share their seeds have the same: those that are measured are dealt to no rank."""
        if self.batch_size is None or not len(self._seeds):
            raise InputError("pad needs seeds, and a batch_size to make room for; a batch_sampler names none")
        size = min(self.batch_size, len(self._seeds))
        plan = ShuffledPlan(num_seeds=len(self._seeds), batch_size=size, shuffle=True, drop_last=True, seed=self._seed)
        wanted = padding.batches if padding.caps == "measured" else 1
        shares = islice(plan.by_blocks(self._blocks).epoch(0), wanted)
        batches = [self._rearranged(self._drawn_around(self._seeds.seeds(0, share))) for share in shares]
        most, sampler = None, self._sampler
        if isinstance(sampler, NeighborSampler | RemoteSampler) and not isinstance(batches[0].seeds, NodeSet):  # sets differ
            most = bound(sampler, batches[0])
        if padding.caps == "measured":
            caps = measured(batches, padding.slack)
            caps = caps if most is None else caps.at_most(most)
        elif most is not None:
            caps = most
        else:
            raise InputError("caps='bound' is for neighbours of seeds, drawn by fanouts; use 'measured' here")
        return caps.overridden(padding, self._sampler.graph.schema)

    def enable_cpu_affinity(self, loader_cores: Any = None) -> Any:
        """
        Raises:
            InputError: always; workers are threads of this process.
        """
        raise InputError("enable_cpu_affinity binds PyG's worker processes; bind this process instead (taskset, numactl)")

    def enable_multithreading(self, worker_threads: Any = None) -> Any:
        """
        Raises:
            InputError: always; a worker makes its batches on one core.
        """
        raise InputError("enable_multithreading is for PyG's worker processes; give more num_workers, one core each")

    def enable_memory_log(self) -> Any:
        """
        Raises:
            InputError: always; there is `statistics`.
        """
        raise InputError("enable_memory_log logs PyG's worker processes; loader.statistics() has the bytes of batches in flight")

    def _processes(self) -> Any:
        self._source.check_processes()
        if self._tables.names:
            raise InputError(f"forked workers cannot read tables {self._tables.listed()}; use run='threads', or leave these out")
        return super()._processes()

    def _number(self) -> int:
        return self._source.number()

    def _functions(self) -> tuple[object, ...]:
        return (*super()._functions(), self.transform)

    def _collected(self, batch: Batch) -> Batch:
        return self._tables.added(self._graph(), self._source.collected(batch, self._columns))

    def _to_user(self, batch: Batch) -> Made[Any]:
        if self._padding is not None:
            fill_empty(batch, self._padding)
        fill = _nothing if self._padding is None else self._padding.value
        begun, num_bytes = self._source.begun(batch, self._columns, fill, self._layout)
        data = self._completed(to_pyg(batch, begun, gids=self._gids, ids=self._ids))
        return Made(item=data if self.transform is None else self.transform(data), num_bytes=batch.num_bytes + num_bytes)

    def _handed_over(self, batch: Any) -> Any:
        return note_seeds(batch)

    def _completed(self, data: Data | HeteroData) -> Data | HeteroData:
        """What a subclass adds to a batch before the user's transform."""
        return data

    def _drawn_around(self, seeds: AnySeeds) -> Batch:
        if self._placed is not None and self._places is not None and self._places.fit(seeds):
            return self._placed.sample(seeds)
        return super()._drawn_around(seeds)

    def _revised(self, batch: Batch) -> Batch:
        if batch.room is not None:  # it is padded already
            return batch
        batch = self._rearranged(batch)
        if self._caps is None:
            return batch
        self.counters.add("batches_over_caps", int(self._caps.grows_for(Sizes.of(batch))))
        return pad_batch(batch, self._caps, self._sampler.graph.pool)  # of the device, where that draws

    def _rearranged(self, batch: Batch) -> Batch:
        if self._transform_sampler_output is None:
            return batch
        graph = self._sampler.graph
        output = self._transform_sampler_output(to_sampler_output(graph, batch, edge_gid=True))
        return from_sampler_output(graph, batch, output)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NeighborhoodLoader(SampledLoader):
    """Batches that `NeighborSampler` draws around nodes or edges, here or on servers.

    Args:
        data, num_neighbors: as of `halohop.NeighborLoader`.
        examples: makes the inputs, given the graph, the seed and the rules of drawing.
        kwargs: `NeighborArguments`.
    """

    def __init__(
        self,
        data: Data | HeteroData | Graph,
        num_neighbors: Sequence[int] | Mapping[Relation, Sequence[int]],
        examples: Callable[[Graph, int, Rules], Examples],
        **kwargs: Unpack[NeighborArguments],
    ) -> None:
        if kwargs.pop("neighbor_sampler", None) is not None:
            raise InputError("neighbor_sampler is for PyG's own loaders; give it there, or leave it out here")
        rules = rules_of(kwargs)
        for name in ("pad", "transform_sampler_output"):
            if rules.toward_seeds and kwargs.get(name) is not None:
                raise InputError(
                    f"{name} reads edges in their own direction; leave out toward_seeds, or turn edges in `transform`"
                )
        implied: DrawArguments = {"disjoint": rules.disjoint, "subgraph_type": rules.subgraph, "directed": True}
        self._drawn: DrawArguments = {**chosen(DrawArguments, kwargs), **implied}

        def make(graph: Graph, seed: int) -> tuple[Sampler, Examples]:
            fanouts = fanouts_of(num_neighbors, graph.schema)
            there = graph.on_device
            if there is not None and there.draws and self.transform_sampler_output is None:  # which is given what the host has
                along = self._columns_along is not None and self._columns_along.edge_ids
                drawing = NeighborSampler(there, fanouts, seed=seed, rules=rules, edge_ids=along)
                return drawing, examples(graph, seed, rules)
            neighbors = neighbor_sampler(graph, fanouts, seed=seed, rules=rules, columns=self._columns_along)
            if self.transform_sampler_output is not None and any(mine != other for mine, other in neighbors.partners.items()):
                raise InputError(
                    "transform_sampler_output cannot see which edges are flips of another relation's; "
                    "use `transform`, or another subgraph type"
                )
            return neighbors, examples(graph, seed, rules)

        super().__init__(data, make, reads=(rules.time, rules.weight), **without(DrawArguments, kwargs))
        self.num_neighbors = num_neighbors if isinstance(num_neighbors, NumNeighbors) else NumNeighbors(num_neighbors)

    def _as_pyg_sampler(self) -> HalohopSampler:
        return LoaderSampler(self._source.graph, self.num_neighbors, seed=self._seed, **self._drawn)


def _nothing(name: str, dtype: torch.dtype) -> float:
    return 0
