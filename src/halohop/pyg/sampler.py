"""halohop as a sampler of PyG's: feeds PyG's own `NodeLoader` and `LinkLoader`, without pyg-lib."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.flags import checks_flags
from halohop.loading.options import whole
from halohop.loading.seeds import digest
from halohop.pyg.arguments import DrawArguments, as_pyg, chosen, rules_of
from halohop.pyg.convert import skeleton_of
from halohop.pyg.inputs import comparable_times, fanouts_of, times_of
from halohop.pyg.link_inputs import check_edge_times, negatives_of, seed_relation
from halohop.pyg.sampler_output import to_sampler_output
from halohop.pyg.source import source_of
from halohop.sampling.batch import Seeds
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.negative import Negatives
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import RAW_ID, EdgeDir, Relation


class HalohopSampler(BaseSampler):  # type: ignore[misc]
    """A `torch_geometric.sampler.BaseSampler` over a PyG graph in memory or a graph from `halohop.open`.

    PyG's loaders do not say which batch they are making, so draws are keyed by the seeds themselves and by the epoch, which
    `set_epoch` sets; equal seeds in the same epoch give equal subgraphs, whatever the number of workers. Your own code may
    give the number of the batch: it gets what halohop's loaders draw for the same seeds in the batch of that number.

    The arguments stay as attributes of the same names. They may be set between batches, as PyG's Lightning modules do on a copy.

    Args:
        data, num_neighbors, seed, edge_dir, and how neighbours are drawn: as of `halohop.NeighborLoader`. PyG's loaders do not
            heed their own arguments of these names beside a sampler. Flips of another relation come without ids and features,
            since PyG's loaders cannot ask for them.

    Raises:
        InputError: options that cannot work, as of `halohop.NeighborLoader`.

    Example:
        >>> from torch_geometric.loader import NodeLoader
        >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> loader = NodeLoader(data, HalohopSampler(data, [1]), input_nodes=torch.tensor([2]))
        >>> next(iter(loader)).n_id.tolist()
        [2, 1]
    """

    @as_pyg()
    def __init__(
        self,
        data: Data | HeteroData | Graph,
        num_neighbors: Sequence[int] | Mapping[Relation, Sequence[int]],
        *,
        seed: int = 0,
        edge_dir: EdgeDir | None = None,
        **kwargs: Unpack[DrawArguments],
    ) -> None:
        self._data = data
        self.edge_dir = edge_dir
        self.num_neighbors, self.seed = num_neighbors, whole(seed, "seed")
        for name, value in chosen(DrawArguments, kwargs).items():
            setattr(self, name, value)
        self._read = (self.time_attr, self.weight_attr)
        self.graph = source_of(data, self._read, edge_dir=edge_dir).graph
        self._epoch = 0
        self._made: tuple[tuple[Any, ...], NeighborSampler] | None = None
        self._last: tuple[tuple[Any, ...], NegativeSampling | None, Negatives] | None = None
        self._neighbors()  # what cannot work is refused now

    def set_epoch(self, epoch: int) -> None:
        """Other draws for the same seeds from now on."""
        self._epoch = epoch

    def sample_from_nodes(self, index: NodeSamplerInput, *, batch: int | None = None) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around the given raw ids.

        Args:
            index: the seeds.
            batch: the number that draws are keyed by instead of the seeds.

        Raises:
            IdError: an id that the graph does not have.
            InputError: times without `time_attr`, or the other way round.
        """
        node_type = self.graph.schema.node_type(index.input_type)
        gid = self.graph.locate(index.node, node_type)
        seeds = Seeds(
            node_type=node_type,
            gid=gid,
            input_id=torch.arange(len(index.node)) if index.input_id is None else index.input_id,
            epoch=self._epoch,
            index=digest(index.node) if batch is None else batch,
            time=times_of(self.graph, node_type, gid, index.time, self.time_attr),
        )
        return to_sampler_output(self.graph, self._neighbors().sample(seeds), edge_gid=False)

    @checks_flags
    def sample_from_edges(
        self,
        index: EdgeSamplerInput,
        neg_sampling: NegativeSampling | None = None,
        *,
        batch: int | None = None,
        strict_negatives: bool = False,
    ) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around the given edges, by the raw ids of their ends, and around their negatives.

        Args:
            index: the edges.
            neg_sampling: what their negatives are.
            batch: as of `sample_from_nodes`.
            strict_negatives: no negative is an edge of the graph.

        Raises:
            IdError: an id that the graph does not have.
            InputError: times without `time_attr`, or the other way round.
        """
        check_edge_times(index.time, self.time_attr)
        relation = seed_relation(self.graph.schema, index.input_type or next(iter(self.graph.schema.edges)))
        links = LinkSeeds(
            relation=relation,
            src_gid=self.graph.locate(index.row, relation[0]),
            dst_gid=self.graph.locate(index.col, relation[2]),
            input_id=torch.arange(len(index.row)) if index.input_id is None else index.input_id,
            epoch=self._epoch,
            index=digest(index.row, index.col) if batch is None else batch,
            label=index.label,
            time=comparable_times(index.time),
        )
        if neg_sampling is not None:
            links = self._negatives(relation, neg_sampling, strict_negatives)(links)
        return to_sampler_output(self.graph, self._neighbors().sample(links), edge_gid=False)

    @checks_flags
    def sample_negatives(
        self,
        count: int,
        input_type: Relation | None = None,
        neg_sampling: NegativeSampling | None = None,
        *,
        batch: int = 0,
        strict: bool = True,
    ) -> Tensor:
        """Pairs of nodes that no edge of a relation joins, alone: a function of the seed, the epoch and the batch.

        Args:
            count: how many.
            input_type: the relation; one between nodes of the graph that it does not have has no edges.
            neg_sampling: the weights that both ends are drawn by; uniformly without them. Its mode and amount mean nothing here.
            batch: another one gives other pairs.
            strict: False lets a pair be an edge.

        Returns:
            Raw ids of sources, then of destinations, int64 ``[2, count]``.

        Raises:
            InputError: weights that cannot be drawn by, or every pair is an edge.
        """
        relation = seed_relation(self.graph.schema, input_type or next(iter(self.graph.schema.edges)))
        strict = strict and relation in self.graph.schema.edges
        pairs = self._negatives(relation, neg_sampling, strict).pairs(count, epoch=self._epoch, index=batch)
        ends = zip(relation[::2], pairs, strict=True)
        queries = tuple(RowQuery(table=name, columns=(RAW_ID,), gid=gid) for name, gid in ends)
        return torch.stack([rows for (rows,) in self.graph.fetch(FetchRequest(queries=queries))])

    def __copy__(self) -> "HalohopSampler":
        """One with options of its own, over the same graph."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        """What another process makes it from: of a PyG graph the edges, times and weights, and no features."""
        data = self._data if isinstance(self._data, Graph) else skeleton_of(self._data, self._read)
        state = {name: value for name, value in self.__dict__.items() if name in (*_OPTIONS, "_epoch")}
        return _remade, (type(self), data, state)

    def _neighbors(self) -> NeighborSampler:
        """Made anew when an option has changed."""
        read = (self.time_attr, self.weight_attr)
        if read != self._read:
            self.graph, self._read = source_of(self._data, read, edge_dir=self.edge_dir).graph, read
        rules = rules_of(vars(self))
        options = (fanouts_of(self.num_neighbors, self.graph.schema), rules, self.seed)
        if self._made is None or self._made[0] != options:
            self._made = options, NeighborSampler(self.graph, options[0], seed=self.seed, rules=rules)
        return self._made[1]

    def _negatives(self, relation: Relation, neg_sampling: NegativeSampling | None, strict: bool) -> Negatives:
        """Made once for a loader, since it lists the nodes that may be drawn."""
        options = (relation, self.seed, self.time_attr, strict)
        if self._last is None or self._last[0] != options or self._last[1] is not neg_sampling:
            rules = NegativeSampling("binary") if neg_sampling is None else neg_sampling
            made = negatives_of(self.graph, relation, rules, seed=self.seed, strict=strict, time_attr=self.time_attr)
            self._last = options, neg_sampling, made
        return self._last[2]

    @property
    def edge_permutation(self) -> None:
        """None: `edge` holds positions in the user's edge_index already."""
        return None


class LoaderSampler(HalohopSampler):
    """What a loader of halohop samples by, for code that looks at a loader's sampler. Its options stay as they are."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OPTIONS and hasattr(self, name):
            raise InputError(f"{name} of a loader's sampler cannot be set; make another loader with {name}={value!r}")
        super().__setattr__(name, value)


_OPTIONS = ("num_neighbors", "seed", "edge_dir", *DrawArguments.__annotations__)


def _remade(kind: type[HalohopSampler], data: Any, state: dict[str, Any]) -> HalohopSampler:
    """A sampler in another process, as it was sent there."""
    sampler = HalohopSampler(data, **{name: value for name, value in state.items() if name in _OPTIONS})
    sampler.set_epoch(state["_epoch"])
    return sampler
