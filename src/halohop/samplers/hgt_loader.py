"""`halohop.HGTLoader`: PyG's arguments and PyG's batches for sampling by budgets per node type."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop.cluster.graph import Graph
from halohop.loading.options import whole
from halohop.pyg.arguments import SampledArguments, as_pyg
from halohop.pyg.inputs import InputNodes, seed_dataset, whole_numbers
from halohop.pyg.sampled_loader import SampledLoader
from halohop.samplers.hgt import HGTSampler, NumSamples
from halohop.sampling.sampler import Sampler
from halohop.store.schema import Schema
from halohop.typing import NodeType


class HGTLoader(SampledLoader):
    """Mini-batches with so many nodes of every type per hop, as `torch_geometric.loader.HGTLoader` gives them.

    Sampling of the Heterogeneous Graph Transformer (Hu et al. 2020): it keeps types in balance, however many edges each relation
    has, and batches dense. A node of the batch shares one point equally among its neighbours along each relation; each hop
    draws the next nodes of a type from those that have points, in proportion to their squares. The edges of a batch are all
    edges of the graph among its nodes, ordered by the position of their destination, then as the graph stores them.

    Batches are the same for any number of partitions, hosts and workers: each is a function of (seed, epoch, batch index).

    Args:
        data: a PyG `HeteroData` or `Data`, or a graph from `halohop.open`. (PyG refuses `Data`.)
        num_samples: nodes to add per hop, the same for all node types; or a dict with such a list for every type.
        input_nodes: as of `halohop.NeighborLoader`.
        input_id: numbers to give out as the batches' `input_id` instead of positions.
        max_neighbors: in a longer list only so many neighbours get points, drawn uniformly; -1 takes all. (PyG: 50.)
        kwargs: as for `halohop.NeighborLoader`, without those about sampling neighbors.

    Raises:
        InputError: arguments that cannot work; the message names the value and the remedy.

    Example:
        >>> import torch
        >>> data = HeteroData()
        >>> data["paper"].num_nodes, data["author"].num_nodes = 3, 2
        >>> data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 1], [0, 0, 2]])
        >>> batch = next(iter(HGTLoader(data, [2], ("paper", torch.tensor([0])))))
        >>> batch["paper"].n_id.tolist(), sorted(batch["author"].n_id.tolist())
        ([0], [0, 1])
    """

    @as_pyg("is_sorted", "transform", "transform_sampler_output", "filter_per_worker")
    def __init__(
        self,
        data: Data | HeteroData | Graph,
        num_samples: Sequence[int] | Mapping[NodeType, Sequence[int]],
        input_nodes: InputNodes = None,
        *args: Any,
        input_id: Tensor | None = None,
        max_neighbors: int = -1,
        **kwargs: Unpack[SampledArguments],
    ) -> None:
        def make(graph: Graph, seed: int) -> tuple[Sampler, Any]:
            self.num_samples = num_samples
            sampler = HGTSampler(
                graph, _samples(num_samples, graph.schema), seed=seed, max_neighbors=whole(max_neighbors, "max_neighbors")
            )
            return sampler, seed_dataset(graph, input_nodes, input_id)

        super().__init__(data, make, **kwargs)


def _samples(num_samples: Sequence[int] | Mapping[NodeType, Sequence[int]], schema: Schema) -> NumSamples:
    if isinstance(num_samples, Mapping):
        named = {name: whole_numbers(numbers, "num_samples") for name, numbers in num_samples.items()}
        return NumSamples.by_type(named, schema)
    return NumSamples.uniform(whole_numbers(num_samples, "num_samples"), schema)
