"""`graphlearn_torch.utils.device`: the GPUs of a process, or its CPU."""

import itertools
from functools import cache
from typing import Any

import torch


def get_available_device(device: Any = None) -> torch.device:
    """The device that is given, or else the current GPU, or the CPU."""
    if device is None:
        device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def assign_device() -> torch.device:
    """The GPUs in turn; the CPU where there is none."""
    return torch.device("cuda", next(_turns()) % torch.cuda.device_count()) if torch.cuda.is_available() else torch.device("cpu")


def ensure_device(device: torch.device) -> None:
    """Makes a GPU the current one."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


@cache
def _turns() -> "itertools.count[int]":
    return itertools.count()
