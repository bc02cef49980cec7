"""GLT's `DistLinkNeighborLoader`."""

from typing import Any

from halohop.errors import InputError
from halohop.glt.distributed.dist_dataset import DistDataset
from halohop.glt.distributed.dist_loader import DistLoader
from halohop.glt.distributed.dist_options import AllDistSamplingWorkerOptions
from halohop.glt.loader.link_loader import named_edges
from halohop.glt.sampler.base import EdgeSamplerInput, SamplingConfig, SamplingType


class DistLinkNeighborLoader(DistLoader):
    """Mini-batches around edges of this process, and around pairs that are none.

    Args:
        edge_label_index: ends of the edges ``[2, n]``, or a pair of their relation and these.
        edge_label: a label for each.
        neg_sampling: how negatives are drawn, among all nodes of the graph.
        others: as of `DistNeighborLoader`.

    Raises:
        Errors of `DistLoader`.
    """

    def __init__(
        self,
        data: DistDataset | None,
        num_neighbors: Any,
        batch_size: int = 1,
        edge_label_index: Any = None,
        edge_label: Any = None,
        neg_sampling: Any = None,
        shuffle: bool = False,
        drop_last: bool = False,
        with_edge: bool = False,
        with_weight: bool = False,
        edge_dir: str = "out",
        collect_features: bool = False,
        to_device: Any = None,
        random_seed: int | None = None,
        worker_options: AllDistSamplingWorkerOptions | None = None,
    ) -> None:
        kind, ends = named_edges(edge_label_index)
        if ends is None:
            raise InputError(f"edge_label_index={edge_label_index!r} names no edges of this process; give their ends [2, n]")
        row, col = ends
        config = SamplingConfig(
            SamplingType.LINK,
            *(num_neighbors, batch_size, shuffle, drop_last, with_edge, collect_features),
            *(neg_sampling is not None, with_weight, edge_dir, random_seed),
        )
        super().__init__(data, EdgeSamplerInput(row, col, edge_label, kind, neg_sampling), config, to_device, worker_options)
