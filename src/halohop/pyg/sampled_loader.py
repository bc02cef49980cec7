"""What PyG's loaders have in common: a sampler, and batches turned into PyG's objects."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from torch_geometric.data import Data, HeteroData

from halohop.cluster.graph import Graph, in_memory
from halohop.errors import InputError
from halohop.loading.examples import Examples
from halohop.loading.loader import BatchLoader
from halohop.loading.seeds import ShuffledPlan
from halohop.pyg.convert import is_homogeneous, tables_from_pyg, template_of, to_pyg
from halohop.pyg.inputs import fanouts_of, padding_of
from halohop.pyg.sampler import from_sampler_output, to_sampler_output
from halohop.sampling.batch import Batch, NodeSet
from halohop.sampling.caps import CapsFrom, Padding, Sizes, bound, measured
from halohop.sampling.neighbor import NeighborSampler, Rules
from halohop.sampling.padding import fill_empty
from halohop.sampling.padding import pad as pad_batch
from halohop.sampling.remote import RemoteSampler, neighbor_sampler
from halohop.sampling.sampler import Sampler
from halohop.typing import Relation


class SampledLoader(BatchLoader):
    """Batches of sampled subgraphs as PyG's `Data` or `HeteroData`, whatever draws them.

    Args:
        data, transform, transform_sampler_output, kwargs: as of `halohop.NeighborLoader`.
        pad: how batches are padded to fixed shapes; None: not at all.
        make: makes the sampler and what it goes through, given the graph and the seed.
        seed: of all draws; None takes it from `generator`, or 0.
    """

    def __init__(
        self,
        data: Data | HeteroData | Graph,
        make: Callable[[Graph, int], tuple[Sampler, Examples]],
        *,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        pad: CapsFrom | Padding | None = None,
        seed: int | None = None,
        generator: Any = None,
        sampler: Any = None,
        **kwargs: Any,
    ) -> None:
        self.data = data
        graph = data if isinstance(data, Graph) else in_memory(tables_from_pyg(data))
        if seed is None:
            seed = 0 if generator is None else int(generator.initial_seed())
        self._template = _template(data, graph)
        self._transform = transform
        self._transform_sampler_output = transform_sampler_output
        self._revises = transform_sampler_output is not None or pad is not None
        super().__init__(
            *make(graph, seed),
            seed=seed,
            sampler_of_seeds=sampler,
            **kwargs,
        )
        self._padding = padding_of(pad, graph.schema)
        self._caps = None if self._padding is None else self._measured(self._padding)

    def filter_fn(self, batch: Any) -> Any:
        """The batch itself, since it has its rows already; PyG's `ZipLoader` asks for this step."""
        return batch

    def _measured(self, padding: Padding) -> Sizes:
        """The places of a batch. They are the same on all ranks: the batches that tell them are dealt to nobody."""
        if self.batch_size is None or not len(self._seeds):
            raise InputError("pad needs seeds, and a batch_size to make room for; a batch_sampler tells none")
        size = min(self.batch_size, len(self._seeds))
        plan = ShuffledPlan(num_seeds=len(self._seeds), batch_size=size, shuffle=True, drop_last=True, seed=self._seed)
        wanted = padding.batches if padding.caps == "measured" else 1
        batches = [self._rearranged(self._sampler.sample(self._seeds.seeds(0, share))) for share in islice(plan.epoch(0), wanted)]
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

    def _to_user(self, batch: Batch) -> Any:
        if self._padding is not None:
            fill_empty(batch, self._padding)
        data = to_pyg(batch, self._template)
        return data if self._transform is None else self._transform(data)

    def _revised(self, batch: Batch) -> Batch:
        batch = self._rearranged(batch)
        if self._caps is None:
            return batch
        self.counters.add("batches_over_caps", int(self._caps.grows_for(Sizes.of(batch))))
        return pad_batch(batch, self._caps, self._sampler.graph.pool)

    def _rearranged(self, batch: Batch) -> Batch:
        if self._transform_sampler_output is None:
            return batch
        graph = self._sampler.graph
        output = self._transform_sampler_output(to_sampler_output(graph, batch, edge_gid=True))
        return from_sampler_output(graph, batch, output)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(steps={len(self)})"


class NeighborhoodLoader(SampledLoader):
    """Batches that `NeighborSampler` draws around nodes or edges, here or on servers.

    Args:
        data, num_neighbors, transform_sampler_output, kwargs: as of `halohop.NeighborLoader`.
        examples: makes the inputs, given the graph and the seed.
        rules: how neighbours are drawn.
    """

    def __init__(
        self,
        data: Data | HeteroData | Graph,
        num_neighbors: Sequence[int] | Mapping[Relation, Sequence[int]],
        examples: Callable[[Graph, int], Examples],
        *,
        rules: Rules,
        transform_sampler_output: Callable[[Any], Any] | None,
        **kwargs: Any,
    ) -> None:
        def make(graph: Graph, seed: int) -> tuple[Sampler, Examples]:
            fanouts = fanouts_of(num_neighbors, graph.schema)
            neighbors = neighbor_sampler(graph, fanouts, seed=seed, rules=rules, rows=not self._revises)
            if transform_sampler_output is not None and any(mine != other for mine, other in neighbors.partners.items()):
                raise InputError(
                    "transform_sampler_output cannot be told which edges are flips of another relation's; "
                    "use `transform`, or another subgraph type"
                )
            self._fanouts = neighbors.fanouts
            return neighbors, examples(graph, seed)

        super().__init__(data, make, transform_sampler_output=transform_sampler_output, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(fanouts={self._fanouts.per_relation}, steps={len(self)})"


def refuse_neighbor_sampler(neighbor_sampler: Any) -> None:
    """PyG's argument for sharing a sampler, which has no meaning here.

    Raises:
        InputError: it is given.
    """
    if neighbor_sampler is not None:
        raise InputError("neighbor_sampler is for PyG's own loaders; give it there, or leave it out here")


def _template(data: Data | HeteroData | Graph, graph: Graph) -> Data | HeteroData:
    if not isinstance(data, Graph):
        return template_of(data)
    return Data() if is_homogeneous(graph.schema) else HeteroData()
