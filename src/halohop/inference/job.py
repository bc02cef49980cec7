"""What a run of layer-wise inference is asked to do: what is read, where results go, and who takes part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from halohop.flags import checks_flags
from halohop.typing import OnProgress
from halohop.world import World

ResultForm = Literal["npy", "parquet"]


def ignore_progress(_name: str, _done: int, _total: int) -> None:
    """For those who do not ask how far the work is."""


@checks_flags
@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceJob:
    """One run, the same on every rank but for `world` and `device`.

    Args:
        parts: folder of the partitions of the graph; on a host of several, of its own.
        out: folder of the results; only rank 0 writes there, and every host keeps its unfinished rows in ``<out>/unfinished``.
        split: a stored split; None takes every node of the type.
        form: "npy" or "parquet".
        overwrite: replace results that are in `out`.
        batch_size: nodes per rank and step.
        batch_edges: in-edges per rank and step.
        world: this rank's number; ranks have joined a process group (`halohop.collectives.process_group`).
        device: where this rank computes.
        on_progress: called about once a second, on all ranks alike, with (name, done, total).
        opening: further arguments of `halohop.open` for the rows between two layers: token, limits, deadline.
    """

    parts: Path
    out: Path
    split: str | None = None
    form: ResultForm = "npy"
    overwrite: bool = False
    batch_size: int = 1024
    batch_edges: int = 131_072
    world: World
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    on_progress: OnProgress = ignore_progress
    opening: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranks(self) -> dict[str, Any]:
        """Who meets, where, and who hears of it: arguments of `halohop.collectives.in_rounds`."""
        return {"world": self.world, "device": self.device, "on_progress": self.on_progress}
