"""Where GLT's scripts want things to lie and to run, and where they do here."""

from typing import Any

import torch

from halohop.errors import InputError
from halohop.glt.notes import note


def check_mode(graph_mode: str, device: Any = None) -> None:
    """Neighbours are drawn on the CPU in every mode; without a GPU ZERO_COPY says so, once.

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
    return wanted


def seed_of(seed: int | None) -> int:
    """What torch was seeded with where no seed is given, so that `seed_everything` has its effect."""
    return torch.initial_seed() if seed is None else seed
