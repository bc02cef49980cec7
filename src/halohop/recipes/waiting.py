"""Why a trainer waited for data: which stage of making batches, or which peer, took most of the time."""

from dataclasses import dataclass

import msgspec
import numpy as np
import torch

from halohop import World
from halohop.collectives import gather_rows
from halohop.recipes.task import Loader

_HINTS = {
    "draw": "give it more --workers, or smaller fanouts",
    "load": "give it more --workers, or smaller fanouts",
    "dedup": "give it more --workers, or smaller fanouts",
    "gather": "give it more --workers, store features in half precision, or check that they fit into RAM",
    "convert": "give it more --workers, or a lighter transform",
    "others": "give it more --workers",
}
_PEER_HINT = "see with halohop top whether {peer} or the network to it is busy"
_LEAST_SECONDS = 1.0
"""Shorter waits are those of a first batch, or too short to matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """What held up a rank that waited for data longer than it computed.

    Args:
        rank: the one that waited longest.
        waited, seconds: how long, of how long the epoch was.
        stage: a span of `loader.statistics()`: "draw", "load", "dedup", "gather", "convert"; "peer"; or "others".
        peer: the host that the batches waited for, where the stage is "peer".
        spent, share: seconds in this stage, all workers together; their part of those in all stages.
        each: seconds a batch; of a peer: a call.
        hint: what may help.
    """

    rank: int
    waited: float
    seconds: float
    stage: str
    peer: str | None
    spent: float
    share: float
    each: float
    hint: str

    @property
    def line(self) -> str:
        """All of it in one line.

        Example:
            >>> known = {"rank": 0, "waited": 3.2, "seconds": 4.0, "peer": None, "hint": "give it more --workers"}
            >>> Reason(stage="gather", spent=3.1, share=0.7, each=0.05, **known).line
            'rank 0 waited 3.2 of 4.0 s for data, 70% of it made in gather (50.0 ms a batch): give it more --workers'
        """
        made = f"asked of {self.peer}" if self.peer else f"made in {self.stage}"
        each = f"{1000 * self.each:.1f} ms a {'call' if self.peer else 'batch'}"
        waited = f"rank {self.rank} waited {self.waited:.1f} of {self.seconds:.1f} s for data"
        return f"{waited}, {self.share:.0%} of it {made} ({each}): {self.hint}"


class Watch:
    """Looks at what a loader counts, from now on."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._sums, self._peers = loader.statistics(), loader.statistics_by_peer()

    def reason(self, seconds: float, *, rank: int = 0) -> Reason | None:
        """What held up this rank in the `seconds` since the watch began; None if it waited less than half of them, or 1 s."""
        spent = {name: value - self._sums.get(name, 0) for name, value in self._loader.statistics().items()}
        waited = spent.get("wait_seconds", 0)
        if waited < max(seconds / 2, _LEAST_SECONDS):
            return None
        stages = {(stage, ""): spent.get(f"{stage}_seconds", 0) for stage in _HINTS}
        calls: dict[str, float] = {}
        for peer, counted in self._loader.statistics_by_peer().items():
            before = self._peers.get(peer, {})
            calls[peer] = counted["calls"] - before.get("calls", 0)
            stages["peer", peer] = counted["call_seconds"] - before.get("call_seconds", 0)
        stages["others", ""] = max(spent.get("make_seconds", 0) - sum(stages.values()), 0)
        (stage, peer), longest = max(stages.items(), key=lambda item: item[1])
        return Reason(
            rank=rank,
            waited=waited,
            seconds=seconds,
            stage=stage,
            peer=peer or None,
            spent=longest,
            share=longest / max(sum(stages.values()), 1e-9),
            each=longest / max(calls[peer] if peer else spent.get("batches", 0), 1),
            hint=_PEER_HINT.format(peer=peer) if peer else _HINTS[stage],
        )


def worst(reason: Reason | None, device: torch.device, world: World) -> Reason | None:
    """The reason of the rank that waited longest, the same on all ranks; None where none has one."""
    line = b"" if reason is None else msgspec.json.encode(reason) + b"\n"
    rows = gather_rows(torch.from_numpy(np.frombuffer(line, np.uint8).copy()), device, world)
    reasons = [msgspec.json.decode(line, type=Reason) for line in rows.numpy().tobytes().splitlines()]
    return max(reasons, key=lambda one: one.waited, default=None)
