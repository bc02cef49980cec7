"""What is left of GLT's rpc: processes meet, wait for each other and exchange small values. Graphs are not asked by it."""

import itertools
from collections.abc import Sequence
from typing import Any

import halohop
from halohop.errors import ClusterError, InputError
from halohop.glt.distributed.dist_context import process, required_context
from halohop.glt.distributed.dist_options import address_of
from halohop.glt.notes import missing, note


def init_rpc(
    master_addr: str, master_port: int, num_rpc_threads: int = 16, rpc_timeout: float = 180, is_dynamic: bool = False
) -> None:
    """Meets the other processes of this one's group at an address of rank 0's host. A second call changes nothing.

    Raises:
        InputError: the process has no context, or none that is known beforehand (`is_dynamic`).
        ClusterError: a process does not come in time, two have one rank, or they have different world sizes.
    """
    context = required_context("init_rpc")
    if is_dynamic:
        raise InputError("is_dynamic=True: a group of workers has a size from the start; give it to init_worker_group")
    if num_rpc_threads != 16:
        note("num_rpc_threads")
    if process.meeting is None:
        process.master = address_of(master_addr, master_port)
        process.meeting = halohop.hosts.meet(world=context.world, master=process.master, deadline=rpc_timeout)


def shutdown_rpc(graceful: bool = True) -> None:
    """Leaves; where it is `graceful`, after all have come to do so."""
    meeting, process.meeting = process.meeting, None
    if meeting is not None:
        meeting.shut(wait=graceful)


def rpc_is_initialized() -> bool:
    """Whether this process has met the others."""
    return process.meeting is not None


def get_rpc_master_addr() -> str | None:
    """The host where the processes meet; None before."""
    return None if process.master is None else process.master.rpartition(":")[0].strip("[]")


def get_rpc_master_port() -> int | None:
    """The port where the processes meet; None before."""
    return None if process.master is None else int(process.master.rpartition(":")[2])


def all_gather(obj: Any, timeout: float | None = None) -> dict[str, Any]:
    """What all processes of this one's group give, by their names; numbers, text, and lists and dicts of these."""
    context = required_context("all_gather")
    return {
        f"{context.group_name}-{rank}": value
        for rank, value in enumerate(_meeting("all_gather").all_gather(obj, deadline=timeout))
    }


def barrier(timeout: float | None = None) -> None:
    """Waits until all processes of this one's group have come to this point."""
    _meeting("barrier").barrier(deadline=timeout)


global_all_gather, global_barrier = all_gather, barrier


def rpc_sync_data_partitions(num_data_partitions: int, current_partition_idx: int) -> list[list[str]]:
    """By partition, the names of the processes that have it; all processes call it together.

    Raises:
        ClusterError: processes that count other partitions, or a partition that none has.
    """
    found: list[list[str]] = [[] for _ in range(num_data_partitions)]
    for name, (count, part) in all_gather((num_data_partitions, current_partition_idx)).items():
        if count != num_data_partitions or not 0 <= part < count:
            raise ClusterError(
                f"{name} has partition {part} of {count}, and this process counts {num_data_partitions}; give all the same number"
            )
        found[part].append(name)
    if absent := [part for part, names in enumerate(found) if not names]:
        raise ClusterError(f"partitions {absent} of {num_data_partitions} are with no process; start one for each")
    return found


class RpcDataPartitionRouter:
    """Takes turns among the processes that have a partition.

    Example:
        >>> router = RpcDataPartitionRouter([["a-0", "a-2"], ["a-1"]])
        >>> [router.get_to_worker(part) for part in (0, 0, 1, 0)]
        ['a-0', 'a-2', 'a-1', 'a-0']
    """

    def __init__(self, partition2workers: Sequence[Sequence[str]]) -> None:
        if empty := [part for part, workers in enumerate(partition2workers) if not workers]:
            raise InputError(f"partitions {empty} have no worker; name one for each")
        self._turns = [itertools.cycle(workers) for workers in partition2workers]

    def get_to_worker(self, data_partition_idx: int) -> str:
        """The next one."""
        return next(self._turns[data_partition_idx])


def _meeting(what: str) -> halohop.hosts.Meeting:
    if process.meeting is None:
        raise InputError(f"{what} needs the other processes; call init_rpc(master_addr, master_port) before")
    return process.meeting


def __getattr__(name: str) -> Any:
    return missing("distributed", name)
