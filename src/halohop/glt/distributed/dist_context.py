"""Which of all processes this one is, and what it keeps for its loaders."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import halohop
from halohop.errors import InputError


class DistRole(Enum):
    """What a process does."""

    WORKER = 1
    SERVER = 2
    CLIENT = 3


@dataclass(frozen=True, slots=True)
class DistContext:
    """This process among those of its role, and among all."""

    role: DistRole
    group_name: str
    world_size: int
    rank: int
    global_world_size: int
    global_rank: int

    def is_worker(self) -> bool:
        return self.role is DistRole.WORKER

    def is_server(self) -> bool:
        return self.role is DistRole.SERVER

    def is_client(self) -> bool:
        return self.role is DistRole.CLIENT

    def num_servers(self) -> int:
        return self.world_size if self.is_server() else self.global_world_size - self.world_size if self.is_client() else 0

    def num_clients(self) -> int:
        return self.world_size if self.is_client() else self.global_world_size - self.world_size if self.is_server() else 0

    @property
    def worker_name(self) -> str:
        return f"{self.group_name}-{self.rank}"

    @property
    def world(self) -> halohop.World:
        """The processes of this role; who shares a machine is found out."""
        return halohop.World(rank=self.rank, size=self.world_size)


class Process:
    """What there is once a process.

    Attributes:
        context: who it is.
        master: where `init_rpc` has met the others.
        meeting: with them.
        graph: that its first loader, or a client, has opened.
        server: what it answers, as a server.
    """

    def __init__(self) -> None:
        self.context: DistContext | None = None
        self.master: str | None = None
        self.meeting: halohop.hosts.Meeting | None = None
        self.graph: halohop.Graph | None = None
        self.server: Any = None


process = Process()


def get_context() -> DistContext | None:
    """Who this process is; None before it was said."""
    return process.context


def required_context(what: str) -> DistContext:
    """
    Raises:
        InputError: `what` is asked for before the process has a context.
    """
    if process.context is None:
        raise InputError(
            f"{what} needs to know which process this is; call init_worker_group(world_size, rank), or init_client(...), before"
        )
    return process.context


def init_worker_group(world_size: int, rank: int, group_name: str | None = None) -> None:
    """Makes this process one of a group of workers; nothing is sent.

    Raises:
        InputError: a rank outside the group.

    Example:
        >>> init_worker_group(world_size=2, rank=1)
        >>> get_context().worker_name
        '_default_worker-1'
    """
    if not 0 <= rank < world_size:
        raise InputError(f"rank={rank} is outside 0..{world_size - 1}; give each of the world_size={world_size} workers a number")
    name = group_name or "_default_worker"
    process.context = DistContext(DistRole.WORKER, name, world_size, rank, world_size, rank)
