"""GLT's `DistNeighborLoader`."""

from typing import Any

from halohop.glt.distributed.dist_client import remote_nodes
from halohop.glt.distributed.dist_dataset import DistDataset
from halohop.glt.distributed.dist_loader import DistLoader
from halohop.glt.distributed.dist_options import AllDistSamplingWorkerOptions
from halohop.glt.sampler.base import NodeSamplerInput, SamplingConfig, SamplingType


class DistNeighborLoader(DistLoader):
    """Mini-batches of neighbourhoods that are drawn wherever the nodes lie.

    Args:
        data, to_device, worker_options: as of `DistLoader`.
        num_neighbors: per hop, or a dict with such a list per relation; -1 takes all.
        input_nodes: ids of this process's seeds, or a pair of their type and the ids.
        with_edge: whether batches have ids and features of edges.
        with_weight: draws by the weights of edges.
        edge_dir: what the graph was divided for.
        collect_features: whether batches have features.
        random_seed: of draws and shuffle, the same in all processes; None: 0.

    Raises:
        Errors of `DistLoader`.
    """

    def __init__(
        self,
        data: DistDataset | None,
        num_neighbors: Any,
        input_nodes: Any,
        batch_size: int = 1,
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
        kind, nodes = input_nodes if isinstance(input_nodes, tuple) else (None, input_nodes)
        nodes = remote_nodes(nodes, kind, worker_options)
        config = SamplingConfig(
            SamplingType.NODE,
            *(num_neighbors, batch_size, shuffle, drop_last, with_edge, collect_features),
            *(False, with_weight, edge_dir, random_seed),
        )
        super().__init__(data, NodeSamplerInput(nodes, kind), config, to_device, worker_options)
