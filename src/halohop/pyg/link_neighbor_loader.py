"""`halohop.LinkNeighborLoader`: PyG's arguments and PyG's batches for what is predicted of edges."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkNeighborLoader as PyGLinkNeighborLoader
from torch_geometric.sampler import EdgeSamplerInput

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.loading.examples import LinkDataset
from halohop.pyg.arguments import NeighborArguments, as_pyg
from halohop.pyg.link_inputs import InputEdges, check_edge_times, link_dataset, read_neg_sampling
from halohop.pyg.sampled_loader import NeighborhoodLoader
from halohop.pyg.sampler import HalohopSampler
from halohop.store.draw import Rules
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import RAW_ID, Relation


class LinkNeighborLoader(NeighborhoodLoader, PyGLinkNeighborLoader):  # type: ignore[misc]
    """Mini-batches around edges, as `torch_geometric.loader.LinkNeighborLoader` gives them.

    Batches are the same for any number of partitions, hosts and workers: each is a function of (seed, epoch, batch index).

    Args:
        data: a PyG `Data` or `HeteroData`, or a graph from `halohop.open`.
        num_neighbors: neighbours per hop, or a dict with such a list per relation; -1 takes all.
        edge_label_index: the edges, int ``[2, n]``: ids of sources and destinations; None for all edges (in memory here: 24
            bytes each). In a graph of several relations one of them, or a pair of it and any of these.
        edge_label: a label per edge, ``[n, ...]``.
        edge_label_time: a time per edge, ``[n]``; needs `time_attr`.
        neg_sampling: PyG's `NegativeSampling`, or what it is made from ("binary", "triplet", a dict); its weights are in
            ascending order of ids. Binary negatives are pairs, triplets have further destinations; neither is later than its
            edge, where nodes have the attribute `time_attr`.
        neg_sampling_ratio: binary negatives per edge, PyG's older spelling.
        input_id: numbers to give out as the batches' `input_id` instead of positions.
        strict_negatives: no negative is an edge of the whole graph, on any host, at any time; those that are, are drawn anew.
        exclude_seed_edges: the edges of a batch, with all their copies and their reverses, are not sampled in it.
        kwargs: as for `halohop.NeighborLoader`. With `disjoint` a subgraph has both ends of an edge, and its negatives.
        reverse_relation: which relation holds the reverses; by default the one whose name has ``rev_`` before it, or the same one
            where it joins nodes of one type.

    A batch has `input_id`, `edge_label_index` (positions of the ends among its nodes) and `edge_label`: with binary negatives
    0 for them and 1 for edges, or the edges' own labels, one higher if there was a 0 among them. With triplets it has
    `src_index`, `dst_pos_index` and `dst_neg_index` instead; with times `edge_label_time`, or `seed_time` of triplets. An end
    that occurs twice is one node, unless in two disjoint subgraphs.

    Raises:
        InputError: arguments that cannot work; the message names the value and the remedy.

    Example:
        >>> import torch
        >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> batch = next(iter(LinkNeighborLoader(data, [-1], torch.tensor([[2, 2], [3, 0]]), batch_size=2)))
        >>> batch.n_id.tolist(), batch.edge_label_index.tolist()
        ([2, 3, 0, 1], [[0, 0], [1, 2]])
    """

    @as_pyg(
        *("replace", "subgraph_type", "disjoint", "temporal_strategy", "neg_sampling", "neg_sampling_ratio"),
        *("time_attr", "weight_attr", "transform", "transform_sampler_output", "is_sorted", "filter_per_worker"),
        *("neighbor_sampler", "directed"),
    )
    def __init__(
        self,
        data: Data | HeteroData | Graph,
        num_neighbors: Sequence[int] | Mapping[Relation, Sequence[int]],
        edge_label_index: InputEdges = None,
        edge_label: Tensor | None = None,
        edge_label_time: Tensor | None = None,
        *args: Any,
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        input_id: Tensor | None = None,
        strict_negatives: bool = False,
        exclude_seed_edges: bool = False,
        reverse_relation: Relation | None = None,
        **kwargs: Unpack[NeighborArguments],
    ) -> None:
        check_edge_times(edge_label_time, kwargs.get("time_attr"))
        neg_sampling = read_neg_sampling(neg_sampling, neg_sampling_ratio)
        if neg_sampling is None and strict_negatives:
            raise InputError("strict_negatives=True, but no negatives are asked for; set neg_sampling")
        if reverse_relation is not None and not exclude_seed_edges:
            raise InputError("reverse_relation says what to leave out; set exclude_seed_edges=True")

        self.edge_label_index, self.neg_sampling = edge_label_index, neg_sampling

        def links(graph: Graph, seed: int, rules: Rules) -> LinkDataset:
            self._dataset = link_dataset(
                graph,
                edge_label_index,
                edge_label=edge_label,
                edge_label_time=edge_label_time,
                input_id=input_id,
                neg_sampling=neg_sampling,
                strict=strict_negatives,
                exclude=exclude_seed_edges,
                reverse=reverse_relation,
                rules=rules,
                seed=seed,
            )
            return self._dataset

        super().__init__(data, num_neighbors, links, **kwargs)

    @property
    def link_sampler(self) -> HalohopSampler:
        """What batches are sampled by, as a sampler of PyG's; to look at, and to sample with."""
        return self._as_pyg_sampler()

    @property
    def input_type(self) -> Relation | None:
        """The relation of the edges; None in homogeneous graphs."""
        return None if self._source.graph.schema.is_homogeneous else self._dataset.relation

    @property
    def input_data(self) -> EdgeSamplerInput:
        """The edges as PyG's record: the ids of their ends, labels, times and type."""
        dataset, graph = self._dataset, self._source.graph
        ends = ((dataset.relation[0], dataset.src_gid), (dataset.relation[2], dataset.dst_gid))
        queries = tuple(RowQuery(table=name, columns=(RAW_ID,), gid=gid) for name, gid in ends)
        (row,), (col,) = graph.fetch(FetchRequest(queries=queries))
        return EdgeSamplerInput(
            input_id=dataset.input_id, row=row, col=col, label=dataset.label, time=dataset.time, input_type=self.input_type
        )
