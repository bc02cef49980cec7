"""GLT's order of rows for caches: those of the nodes with most neighbours first."""

import torch
from torch import Tensor

from halohop.glt.data.graph import Topology


def sort_by_in_degree(cpu_tensor: Tensor, shuffle_ratio: float, topo: Topology | None) -> tuple[Tensor, Tensor | None]:
    """Rows in the order of their nodes' degrees, highest first.

    Args:
        cpu_tensor: a row per node.
        shuffle_ratio: the share of the nodes, from the first on, that are shuffled by torch's generator.
        topo: whose lists are counted; None leaves the rows as they are.

    Returns:
        The rows, and the place of each node's row among them, int64 ``[num_nodes]``.
    """
    if topo is None:
        return cpu_tensor, None
    degrees = torch.zeros(len(cpu_tensor), dtype=torch.int64)
    degrees[: topo.row_count] = topo.degrees
    order = degrees.argsort(descending=True, stable=True)
    shuffled = int(topo.row_count * shuffle_ratio)
    order[:shuffled] = order[torch.randperm(shuffled)]
    return cpu_tensor[order], order.argsort()
