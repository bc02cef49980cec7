"""Bounds of times, as numbers that times can be compared with."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_LEAST, _GREATEST = -(2.0**63), 2.0**63 - 1024  # the greatest double below 2**63


def comparable(latest: Tensor, times: torch.dtype) -> Tensor:
    """Latest times as numbers (int64 or float64) that whole or fractional times can be compared with.

    Example:
        >>> comparable(torch.tensor([2.5, -0.5, float("inf"), float("nan")]), torch.int64).tolist()
        [2, -1, 9223372036854774784, -9223372036854775808]
    """
    if latest.is_cuda:
        wide = latest.to(torch.float64) if times.is_floating_point or latest.is_floating_point() else latest.to(torch.int64)
        return wide if times.is_floating_point or not latest.is_floating_point() else _whole_of_device(wide.floor())
    values = latest.numpy()
    if times.is_floating_point or not latest.is_floating_point():
        return torch.from_numpy(values.astype(np.float64 if times.is_floating_point else np.int64, copy=False))
    return _whole(np.floor(values.astype(np.float64, copy=False)))


def window_start(latest: Tensor, window: float, times: torch.dtype) -> Tensor:
    """The earliest times that are within a window before the latest ones, as numbers that the times can be compared with.

    Example:
        >>> window_start(torch.tensor([5, -(2**63)]), 2.5, torch.int64).tolist()
        [3, -9223372036854775808]
        >>> window_start(torch.tensor([5.5]), 1, torch.int64).tolist()
        [5]
        >>> window_start(torch.tensor([5]), 2.5, torch.float32).tolist()
        [2.5]
        >>> window_start(torch.tensor([float("inf")]), 10, torch.int64).tolist()
        [9223372036854774784]
    """
    if latest.is_cuda:
        return _window_start_of_device(latest, window, times)
    if times.is_floating_point or latest.is_floating_point():
        early = latest.numpy().astype(np.float64) - window
        return torch.from_numpy(early) if times.is_floating_point else _whole(np.ceil(early))
    width = int(min(window, 2**63 - 1))
    return torch.from_numpy(np.maximum(latest.numpy(), width - 2**63) - width)


def _window_start_of_device(latest: Tensor, window: float, times: torch.dtype) -> Tensor:
    if times.is_floating_point or latest.is_floating_point():
        early = latest.to(torch.float64) - float(window)
        return early if times.is_floating_point else _whole_of_device(early.ceil())
    width = int(min(window, 2**63 - 1))
    return latest.clamp(min=width - 2**63) - width


def _whole(values: NDArray[np.float64]) -> Tensor:
    """Rounded doubles as int64, or the nearest that there is; NaN as the least."""
    return torch.from_numpy(np.clip(np.nan_to_num(values, nan=_LEAST), _LEAST, _GREATEST).astype(np.int64))


def _whole_of_device(values: Tensor) -> Tensor:
    return torch.nan_to_num(values, nan=_LEAST).clamp(_LEAST, _GREATEST).to(torch.int64)
