"""`halohop.NeighborLoader`: PyG's arguments and PyG's batches, over graphs that lie anywhere."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader as PyGNeighborLoader
from torch_geometric.sampler import NodeSamplerInput

from halohop.cluster.graph import Graph
from halohop.loading.examples import SeedDataset
from halohop.pyg.arguments import NeighborArguments, as_pyg
from halohop.pyg.inputs import InputNodes, seed_dataset
from halohop.pyg.sampled_loader import NeighborhoodLoader
from halohop.pyg.sampler import HalohopSampler
from halohop.store.draw import Rules
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import RAW_ID, NodeType, Relation


class NeighborLoader(NeighborhoodLoader, PyGNeighborLoader):  # type: ignore[misc]
    """Mini-batches of sampled neighbourhoods, as `torch_geometric.loader.NeighborLoader` gives them.

    Batches are the same for any number of partitions, hosts and workers: each is a function of (seed, epoch, batch index).

    Args:
        data: a PyG `Data` or `HeteroData`, or a graph from `halohop.open`.
        num_neighbors: neighbours per hop, or a dict with such a list per relation; -1 takes all.
        input_nodes: None (all nodes), raw ids, a bool mask, or the name of a stored split such as "train"; in heterogeneous
            graphs a node type, or a pair of it and any of these.
        input_time: the time of every input node; by default the nodes' own `time_attr`.
        input_id: numbers to give out as the batches' `input_id` instead of positions.
        world: the ranks that share the input nodes, e.g. `halohop.World.from_env()` under torchrun; by default, and with
            None, this loader goes through all of them, as in PyG. In a process group of several ranks that warns unless `world`
            is given or `input_nodes` are ids.
        own_seeds: with `world`: each rank brings input nodes of its own and goes through all of them, in as many steps as they
            take (see torch's `Join`). Batches are numbered among those of all ranks, so that no two ranks draw alike.
        run: "threads" (default), "processes" (forked workers, for transforms that keep Python busy; Linux, and graphs without
            other hosts), or "inline".
        backlog_bytes: what the batches that are made ahead may weigh together; by default a sixteenth of the trainer's share of
            the machine's memory, at most 4 GiB.
        kwargs: how neighbors are sampled, as explained at `__init__`; batch_size, shuffle, drop_last, num_workers,
            prefetch_factor, persistent_workers, sampler, batch_sampler, generator, pin_memory, timeout, worker_init_fn as in
            `torch.utils.data.DataLoader`.

    Raises:
        InputError: arguments that cannot work; the message names the value and the remedy.

    Example:
        >>> import torch
        >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> batch = next(iter(NeighborLoader(data, [-1], input_nodes=torch.tensor([2]))))
        >>> batch.n_id.tolist(), batch.edge_index.tolist()
        ([2, 1], [[1], [0]])
    """

    @as_pyg(
        *("replace", "subgraph_type", "disjoint", "temporal_strategy", "time_attr", "weight_attr"),
        *("transform", "transform_sampler_output", "is_sorted", "filter_per_worker", "neighbor_sampler", "directed"),
    )
    def __init__(
        self,
        data: Data | HeteroData | Graph,
        num_neighbors: Sequence[int] | Mapping[Relation, Sequence[int]],
        input_nodes: InputNodes = None,
        input_time: Tensor | None = None,
        *args: Any,
        input_id: Tensor | None = None,
        **kwargs: Unpack[NeighborArguments],
    ) -> None:
        self.input_nodes, self.input_time, self.input_id = input_nodes, input_time, input_id

        def seeds(graph: Graph, _: int, rules: Rules) -> SeedDataset:
            self._dataset = seed_dataset(graph, input_nodes, input_id, time=input_time, time_attr=rules.time)
            return self._dataset

        super().__init__(data, num_neighbors, seeds, **kwargs)

    @property
    def node_sampler(self) -> HalohopSampler:
        """What batches are sampled by, as a sampler of PyG's; to look at, and to sample with."""
        return self._as_pyg_sampler()

    @property
    def input_type(self) -> NodeType | None:
        """The type of the input nodes; None in homogeneous graphs."""
        return None if self._source.graph.schema.is_homogeneous else self._dataset.node_type

    @property
    def input_data(self) -> NodeSamplerInput:
        """The input nodes as PyG's record: their ids, times and type."""
        dataset, graph = self._dataset, self._source.graph
        query = RowQuery(table=dataset.node_type, columns=(RAW_ID,), gid=dataset.gid)
        ((raw,),) = graph.fetch(FetchRequest(queries=(query,)))
        return NodeSamplerInput(input_id=dataset.input_id, node=raw, time=dataset.time, input_type=self.input_type)
