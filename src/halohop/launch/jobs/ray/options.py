"""What a job file says of the engine: its table ``[ray]``."""

from dataclasses import dataclass
from typing import Literal

from halohop.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class RayOptions:
    """
    Args:
        address: of the cluster, as of ``ray.init``; "auto" takes RAY_ADDRESS, or the cluster of this machine.
        server_cpus, trainer_cpus: that Ray reserves for each server, and for each trainer.
        trainer_gpus: that Ray reserves for each trainer.
        strategy: "STRICT_SPREAD" puts each server on a node of its own, "SPREAD" does so as far as there are nodes.
        max_restarts: how often Ray starts a server again; -1: always.
        max_failures: how often all trainers start again after one is lost; -1: always.
        storage: folder that all nodes see, or URL, for Ray's checkpoints; None: ``ray`` in the run folder.
        deadline: seconds until all servers answer.

    Raises:
        InputError: a number that cannot work.
    """

    address: str = "auto"
    server_cpus: float = 1.0
    trainer_cpus: float = 1.0
    trainer_gpus: float = 0.0
    strategy: Literal["STRICT_SPREAD", "SPREAD"] = "STRICT_SPREAD"
    max_restarts: int = -1
    max_failures: int = 3
    storage: str | None = None
    deadline: float = 120.0

    def __post_init__(self) -> None:
        for name in ("server_cpus", "trainer_cpus", "trainer_gpus"):
            if getattr(self, name) < 0:
                raise InputError(f"{name}={getattr(self, name)} is negative")
        for name in ("max_restarts", "max_failures"):
            if getattr(self, name) < -1:
                raise InputError(f"{name}={getattr(self, name)} is neither a number of times nor -1, which means always")
        if not self.deadline > 0:
            raise InputError(f"deadline={self.deadline} must be positive: seconds")
        if self.address.startswith("ray://"):
            raise InputError(
                f"address={self.address!r} is that of a Ray Client; run the command on a node of the cluster, "
                "such as by `ray job submit -- halohop launch ...`, with address='auto'"
            )
