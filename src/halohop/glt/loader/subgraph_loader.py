"""GLT's `SubGraphLoader`, over halohop's."""

from typing import Any

import halohop
from halohop.glt.data.dataset import Dataset
from halohop.glt.loader.node_loader import Loader, drawn, type_of


class SubGraphLoader(Loader):
    """Subgraphs with all edges among their nodes; `mapping` are the positions of the seeds.

    Args:
        data, input_nodes, neighbor_sampler, with_edge, device, seed: as of `NeighborLoader`.
        num_neighbors: per hop; None takes the seeds alone.
        kwargs: as of torch's DataLoader.

    Raises:
        InputError, IdError: arguments that cannot work.
    """

    def __init__(
        self,
        data: Dataset,
        input_nodes: Any,
        num_neighbors: Any = None,
        neighbor_sampler: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        with_edge: bool = False,
        strategy: str = "random",
        device: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs |= {"batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last}
        kind = type_of(input_nodes)
        how = drawn(data, num_neighbors or [], neighbor_sampler, with_edge, False, strategy, device, seed, kind, **kwargs)
        super().__init__(halohop.SubGraphLoader(input_nodes=input_nodes, **how), device)
