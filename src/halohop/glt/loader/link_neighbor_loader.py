"""GLT's `LinkNeighborLoader`, over halohop's."""

from typing import Any

import halohop
from halohop.glt.data.dataset import Dataset
from halohop.glt.loader.link_loader import link_options
from halohop.glt.loader.node_loader import Loader, drawn


class LinkNeighborLoader(Loader):
    """Mini-batches around edges.

    Args:
        data, num_neighbors, neighbor_sampler, with_edge, with_weight, device, seed: as of `NeighborLoader`.
        edge_label_index: ids of sources and destinations ``[2, n]``; None, or a relation, for all edges; or a pair of both.
        edge_label: a label per edge.
        neg_sampling: "binary", "triplet" or a `NegativeSampling`. Binary negatives are no edges of the graph.
        kwargs: as of torch's DataLoader.

    Raises:
        InputError, IdError, SchemaError: arguments that cannot work.
    """

    def __init__(
        self,
        data: Dataset,
        num_neighbors: Any,
        neighbor_sampler: Any = None,
        edge_label_index: Any = None,
        edge_label: Any = None,
        neg_sampling: Any = None,
        with_edge: bool = False,
        with_weight: bool = False,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        strategy: str = "random",
        device: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs |= {"batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last}
        how = drawn(data, num_neighbors, neighbor_sampler, with_edge, with_weight, strategy, device, seed, **kwargs)
        links = link_options(edge_label_index, edge_label, neg_sampling)
        super().__init__(halohop.LinkNeighborLoader(**links, **how), device)
