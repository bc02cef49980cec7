"""`halohop.SubGraphLoader`: a whole subgraph around each batch of seeds, with nothing left out between its nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch_geometric.data import Data, HeteroData

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.pyg.inputs import InputNodes
from halohop.pyg.neighbor_loader import NeighborLoader
from halohop.typing import Relation


class SubGraphLoader(NeighborLoader):
    """Induced subgraphs around seeds: the nodes within as many hops as there are fanouts, and all edges among them.

    For models that read a subgraph rather than message-passing trees, such as SEAL (Zhang & Chen 2018) and ShaDow (Zeng et al.
    2021). It is `halohop.NeighborLoader` with ``subgraph_type="induced"`` (edge order: see there), and one thing more: `mapping`,
    int64 ``[batch_size]``, the positions of the seeds among the batch's nodes, as of `torch_geometric.utils.k_hop_subgraph`. In
    heterogeneous graphs it is stored with the seeds' type.

    Args:
        data, input_nodes: as of `halohop.NeighborLoader`.
        num_neighbors: -1 in every hop gives the exact k-hop subgraph; positive fanouts bound its nodes, not their edges.
        transform: applied to every batch, which has its `mapping` by then.
        kwargs: the other arguments of `halohop.NeighborLoader`, without `subgraph_type` and times.

    Raises:
        InputError: arguments that cannot work; the message names the value and the remedy.

    Example:
        >>> import torch
        >>> data = Data(edge_index=torch.tensor([[0, 1, 0, 3], [1, 2, 2, 0]]), num_nodes=4)
        >>> batch = next(iter(SubGraphLoader(data, [-1], input_nodes=torch.tensor([2]))))
        >>> batch.n_id.tolist(), batch.mapping.tolist()
        ([2, 1, 0], [0])
        >>> batch.n_id[batch.edge_index].tolist(), batch.e_id.tolist()
        ([[1, 0, 0], [2, 2, 1]], [1, 2, 0])
    """

    def __init__(
        self,
        data: Data | HeteroData | Graph,
        num_neighbors: Sequence[int] | Mapping[Relation, Sequence[int]],
        input_nodes: InputNodes = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data, num_neighbors, input_nodes, subgraph_type="induced", **kwargs)

    def _completed(self, data: Data | HeteroData) -> Data | HeteroData:
        return with_mapping(data)


def with_mapping(batch: Data | HeteroData) -> Data | HeteroData:
    """Tells the positions of the seeds."""
    for store in batch.node_stores:
        if "input_id" in store:  # the seeds' type; seeds come first, each at a position of its own
            store.mapping = ops.places_in(store.input_id)
    return batch
