"""GLT's `DistSubGraphLoader`."""

from typing import Any

from halohop.glt.distributed.dist_client import remote_nodes
from halohop.glt.distributed.dist_dataset import DistDataset
from halohop.glt.distributed.dist_loader import DistLoader
from halohop.glt.distributed.dist_options import AllDistSamplingWorkerOptions
from halohop.glt.sampler.base import NodeSamplerInput, SamplingConfig, SamplingType


class DistSubGraphLoader(DistLoader):
    """Mini-batches with all edges among the nodes that are drawn; `mapping` names the seeds among them.

    Args:
        num_neighbors: per hop; None: only the seeds.
        others: as of `DistNeighborLoader`.

    Raises:
        Errors of `DistLoader`.
    """

    def __init__(
        self,
        data: DistDataset | None,
        input_nodes: Any,
        num_neighbors: Any = None,
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
            SamplingType.SUBGRAPH,
            *(num_neighbors or [], batch_size, shuffle, drop_last, with_edge, collect_features),
            *(False, with_weight, edge_dir, random_seed),
        )
        super().__init__(data, NodeSamplerInput(nodes, kind), config, to_device, worker_options)
