"""Which of all processes this one is, and what it has opened."""

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import halohop
from halohop.dgl.notes import note
from halohop.errors import InputError

if TYPE_CHECKING:
    from halohop.dgl.distributed.dist_graph import DistGraph


class Process:
    """What there is once a process.

    Attributes:
        graphs: that are open; tables without a partition policy are of the last one.
        meeting: with the other ranks, once they have met.
        unnamed: how many tables without a name there are, by what they are called.
        is_initialized: whether `initialize` was called.
    """

    def __init__(self) -> None:
        self.graphs: list[DistGraph] = []
        self.meeting: halohop.hosts.Meeting | None = None
        self.unnamed: Counter[str] = Counter()
        self.is_initialized = False

    def graph(self, what: str) -> "DistGraph":
        """The graph that was opened last.

        Raises:
            InputError: there is none, which `what` needs.
        """
        if not self.graphs:
            raise InputError(f"{what} belongs to a graph; make a DistGraph before")
        return self.graphs[-1]

    def next_name(self, kind: str) -> str:
        """A name that all ranks give to the same table, because they make tables in the same order."""
        self.unnamed[kind] += 1
        return f"unnamed-{kind}-{self.unnamed[kind]}"


process = Process()


def initialize(
    ip_config: Any = None,
    max_queue_size: int | None = None,
    net_type: str | None = None,
    num_worker_threads: int = 1,
    use_graphbolt: bool = False,
    **older: Any,
) -> None:
    """Nothing is started here: graphs find the others, or the servers, when they are opened.

    Args:
        ip_config: not read: which hosts there are, the launcher says (`halohop launch`, torchrun, Slurm, Kubernetes).
        max_queue_size, net_type, num_worker_threads, use_graphbolt: change nothing.
        older: num_servers and num_workers, of releases before 0.7, change nothing either.

    Raises:
        InputError: the environment's ranks are none, or an argument that no release has.
    """
    halohop.World.detect()
    given = {"max_queue_size": max_queue_size, "net_type": net_type, "num_worker_threads": num_worker_threads != 1}
    for name, value in ({**given, "use_graphbolt": use_graphbolt}).items():
        if value:
            note(name)
    if unknown := [name for name in older if name not in ("num_servers", "num_workers")]:
        raise InputError(f"{unknown[0]}={older[unknown[0]]!r} is no argument of initialize")
    for name in older:
        note(name)
    process.is_initialized = True


def is_initialized() -> bool:
    """Whether `initialize` was called, and `exit_client` not since."""
    return process.is_initialized


def exit_client() -> None:
    """Closes the graphs, when all ranks have come to do so; then `initialize` may be called again. Scripts end well without it,
    too.

    Raises:
        ClusterError: a rank did not come in time.
    """
    while process.graphs:
        process.graphs.pop().engine.close()
    meeting, process.meeting = process.meeting, None
    process.unnamed.clear()
    process.is_initialized = False
    if meeting is not None:
        meeting.close()


def world() -> halohop.World:
    """This rank among all; alone without a launcher."""
    return halohop.World.detect()


def barrier() -> None:
    """Waits until every rank has come to this point.

    Raises:
        ClusterError: a rank did not come in time.
    """
    ranks = world()
    if ranks.size == 1:
        return
    if process.meeting is None:
        process.meeting = halohop.hosts.meet(world=ranks)
    process.meeting.barrier()


def get_rank() -> int:
    """The number of this trainer among all."""
    return world().rank


def num_samplers() -> int:
    """How many threads make batches for this trainer: the launcher's ``--num_samplers``, 0 where it says nothing.

    Raises:
        InputError: DGL_NUM_SAMPLER is no whole number.
    """
    text = os.environ.get("DGL_NUM_SAMPLER", "0")
    if not text.isdigit():
        raise InputError(f"environment variable DGL_NUM_SAMPLER={text!r} is no whole number")
    return int(text)
