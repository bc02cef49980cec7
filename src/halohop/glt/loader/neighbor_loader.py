"""GLT's `NeighborLoader`, over halohop's."""

from typing import Any

import halohop
from halohop.glt.data.dataset import Dataset
from halohop.glt.loader.node_loader import Loader, drawn, type_of


class NeighborLoader(Loader):
    """Mini-batches of sampled neighbourhoods.

    Args:
        data: what they are drawn from.
        num_neighbors: per hop, or a dict with such a list per relation; -1 takes all.
        input_nodes: ids of the seeds, or a pair of their type and the ids.
        neighbor_sampler: a sampler whose arguments take the place of those here.
        with_edge: whether batches have ids and features of edges.
        with_weight: draws by the weights of edges.
        as_pyg_v1: returns (batch_size, n_id, adjs), as PyG's first `NeighborSampler`.
        device: where batches are wanted.
        seed: of draws and shuffle; None takes torch's.
        kwargs: as of torch's DataLoader.

    Raises:
        InputError, IdError: arguments that cannot work.
    """

    def __init__(
        self,
        data: Dataset,
        num_neighbors: Any,
        input_nodes: Any,
        neighbor_sampler: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        with_edge: bool = False,
        with_weight: bool = False,
        strategy: str = "random",
        device: Any = None,
        as_pyg_v1: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs |= {"batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last, "as_pyg_v1": as_pyg_v1}
        kind = type_of(input_nodes)
        how = drawn(data, num_neighbors, neighbor_sampler, with_edge, with_weight, strategy, device, seed, kind, **kwargs)
        super().__init__(halohop.NeighborLoader(input_nodes=input_nodes, **how), device)
