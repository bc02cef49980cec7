"""`graphlearn_torch.utils.tensor`: what is done to all tensors in nested dicts, lists and tuples."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def apply_to_leaves(data: Any, function: Callable[[Any], Any]) -> Any:
    """The same dicts, lists and tuples, with a function's results instead of what lies in them."""
    if isinstance(data, dict):
        return {key: apply_to_leaves(value, function) for key, value in data.items()}
    if isinstance(data, list | tuple):
        values = [apply_to_leaves(value, function) for value in data]
        return type(data)(*values) if hasattr(data, "_fields") else type(data)(values)
    return function(data)


def apply_to_all_tensor(data: Any, tensor_method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls a method of tensors for each; other values stay.

    Example:
        >>> apply_to_all_tensor({"x": [torch.tensor([1, 2])], "n": 3}, torch.Tensor.add, 1)
        {'x': [tensor([2, 3])], 'n': 3}
    """
    return apply_to_leaves(data, lambda leaf: tensor_method(leaf, *args, **kwargs) if isinstance(leaf, Tensor) else leaf)


def convert_to_tensor(data: Any, dtype: torch.dtype | None = None) -> Any:
    """NumPy's arrays as tensors, and all tensors in a dtype."""
    tensors = apply_to_leaves(data, lambda leaf: torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf)
    return tensors if dtype is None else apply_to_all_tensor(tensors, Tensor.to, dtype)


def share_memory(data: Any) -> Any:
    """Moves all tensors into shared memory."""
    return apply_to_all_tensor(data, Tensor.share_memory_)


def squeeze(data: Any) -> Any:
    """All tensors without dimensions of size 1."""
    return apply_to_all_tensor(data, Tensor.squeeze)


def tensor_equal_with_device(lhs: Tensor, rhs: Tensor) -> bool:
    """Whether values and devices are the same."""
    return lhs.device == rhs.device and torch.equal(lhs, rhs)


def id2idx(ids: Sequence[int] | Tensor) -> Tensor:
    """Where each id stands, int64 ``[largest id + 1]``, 0 for those that are not there.

    Example:
        >>> id2idx([3, 1]).tolist()
        [0, 1, 0, 0]
    """
    ids = torch.as_tensor(ids, dtype=torch.int64)
    places = torch.zeros(int(ids.max()) + 1 if len(ids) else 0, dtype=torch.int64, device=ids.device)
    places[ids] = torch.arange(len(ids), device=ids.device)
    return places
