"""Where GLT's scripts want things to lie and to run, and where they do here."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.glt.notes import note


def check_mode(graph_mode: str, device: Any = None) -> None:
    """Without a GPU neighbours are drawn on the CPU, and ZERO_COPY says so, once.

    Raises:
        InputError: no such mode; or a GPU is asked for, by the mode or by the device, and there is none.
    """
    mode = str(graph_mode).upper()
    if mode not in ("CPU", "ZERO_COPY", "CUDA"):
        raise InputError(f"graph_mode={graph_mode!r} is none of 'CPU', 'ZERO_COPY', 'CUDA'")
    if device is not None and mode != "CPU":
        device_of(device)
    if not torch.cuda.is_available():
        if mode == "CUDA":
            raise InputError("graph_mode='CUDA' needs a GPU, and torch finds none here; use graph_mode='CPU'")
        if mode == "ZERO_COPY":
            note("graph_mode")


def device_of(device: Any) -> torch.device:
    """Where batches are wanted: a torch.device, its name, the number of a GPU, or None for the GPU in use, or else the CPU.

    Raises:
        InputError: a GPU is asked for, and there is none.

    Example:
        >>> device_of("cpu")
        device(type='cpu')
    """
    if device is None:
        return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    wanted = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device={device!r} is a GPU, and torch finds none here; leave it out, or use torch.device('cpu')")
    return torch.device("cuda", torch.cuda.current_device()) if wanted == torch.device("cuda") else wanted


def seed_of(seed: int | None) -> int:
    """What torch was seeded with where no seed is given, so that `seed_everything` has its effect."""
    return torch.initial_seed() if seed is None else seed


def on_device(graph_mode: str, device: Any, features: Iterable[Any], rows: Iterable[Tensor]) -> dict[str, Any]:
    """What `halohop.graph` is told of a GPU: nothing where there is none, or none is asked for.

    Args:
        graph_mode, device: of the graph.
        features: of nodes, each a `Feature`.
        rows: what lies beside them, such as labels.
    """
    features = list(features)
    mode, share = str(graph_mode).lower(), max((feature.split_ratio for feature in features), default=0.0)
    if not torch.cuda.is_available() or (mode == "cpu" and not share):
        return {}
    place = device_of(device)
    kept = sum(feature.split_ratio * feature.feature_tensor.nbytes for feature in features)
    kept += sum(share * one.nbytes for one in rows)
    kept += sum(4 * len(feature.feature_tensor) for feature in features if 0 < feature.split_ratio < 1)  # where they are
    groups = [[device_of(one) for one in group.device_list] for feature in features for group in feature.device_groups]
    shared = next((group for group in groups if place in group and len(group) > 1), None)
    found: dict[str, Any] = {"device": str(place), "mode": mode}
    if share:
        found |= {"feature_cache": math.ceil(kept), "cache_devices": None if shared is None else list(map(str, shared))}
    return found


def check_place(graph: Any, device: Any) -> None:
    """
    Raises:
        InputError: batches are wanted elsewhere than a graph's device, on which they are made.
    """
    there = None if graph.on_device is None else graph.on_device.pool.device
    if there is not None and device is not None and device_of(device) != there:
        raise InputError(f"device={device!r}, but the graph of the Dataset is on {there}; give init_graph and loaders the same")
