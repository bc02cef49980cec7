"""What `halohop.ops.sorting` computes, in plain torch: the specification that its kernels are tested against."""

import torch
from torch import Tensor


def sort_edges(listed: Tensor, others: Tensor, num_listed: int) -> tuple[Tensor, Tensor, Tensor]:
    """As `halohop.ops.sort_edges`, but that the order is always there, and all numbers are int64."""
    order = torch.sort(listed.long(), stable=True).indices
    sizes = torch.bincount(listed.long(), minlength=num_listed)
    return torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)]), others.long()[order], order


def sorted_begins(listed: Tensor, num_listed: int) -> Tensor | None:
    """As `halohop.ops.sorted_begins`."""
    ends = listed.tolist()
    if ends != sorted(ends) or any(not 0 <= end < num_listed for end in ends):
        return None
    return torch.tensor([sum(end < node for end in ends) for node in range(num_listed + 1)])


def ascending_order(ids: Tensor) -> Tensor:
    """As `halohop.ops.ascending_order`."""
    return torch.sort(ids, stable=True).indices
