"""What a job file says of the engine: its table ``[ray]``."""

from dataclasses import dataclass

from halohop.errors import InputError
from halohop.launch.jobs.ray.nodes import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class RayOptions:
    """
    Args:
        address: of the cluster, as of ``ray.init``; "auto" takes RAY_ADDRESS, or the cluster of this machine.
        server_cpus, trainer_cpus: that Ray reserves for each server, and for each trainer.
        trainer_gpus: that Ray reserves for each trainer.
        strategy: "STRICT_SPREAD" puts each host of the job on a node of its own, "SPREAD" does so as far as there are nodes.
        max_failures: how often the job starts again after a process of it failed or a node is lost; -1: always.
        deadline: seconds to wait for room on the nodes, and for a process on each.

    Raises:
        InputError: a number that cannot work.
    """

    address: str = "auto"
    server_cpus: float = 1.0
    trainer_cpus: float = 1.0
    trainer_gpus: float = 0.0
    strategy: Strategy = "STRICT_SPREAD"
    max_failures: int = 3
    deadline: float = 120.0

    def __post_init__(self) -> None:
        for name in ("server_cpus", "trainer_cpus", "trainer_gpus"):
            if getattr(self, name) < 0:
                raise InputError(f"{name}={getattr(self, name)} is negative")
        if self.max_failures < -1:
            raise InputError(f"max_failures={self.max_failures} is neither a number of times nor -1, which means always")
        if not self.deadline > 0:
            raise InputError(f"deadline={self.deadline} must be positive: seconds")
        if self.address.startswith("ray://"):
            raise InputError(
                f"address={self.address!r} is that of a Ray Client; run the command on a node of the cluster, "
                "such as by `ray job submit -- halohop launch ...`, with address='auto'"
            )
