"""torch's process group around a run: one that is made for it, or the one that the user's script has made already."""

import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch
import torch.distributed as dist

from halohop.attempts import name_meeting, shares_store_of_agent
from halohop.errors import ClusterError, InputError
from halohop.interfaces import GLOO_INTERFACE, interface_towards
from halohop.world import World

LEAVE_S = 10.0
"""Seconds that leaving a process group may take, and that joining one may take beyond its deadline."""

_LOOK_S = 1.0
"""A signal that another thread takes does not wake the main thread, which looks for it so often."""

_LOG = logging.getLogger(__name__)


def world_of(world: World | None) -> World:
    """The world of a run: as given, or that of the process group that exists, or what the launcher describes.

    Raises:
        InputError: as of `World.detect`.
    """
    if world is not None:
        return world
    if not dist.is_initialized():
        return World.detect()
    world = World(rank=dist.get_rank(), size=dist.get_world_size())
    with suppress(InputError):  # an environment that says nothing of use; the group knows better
        found = World.detect()
        if (found.rank, found.size) == (world.rank, world.size):
            return found
    return world


def group_size() -> int:
    """The number of ranks of torch's process group; 1 without one."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


@contextmanager
def process_group(world: World, device: torch.device, deadline_s: float) -> Iterator[None]:
    """torch's process group of all trainers while the context lasts; nothing for a trainer alone.

    A group that exists already is used, and stays as it was.

    Raises:
        ClusterError: the others did not come within `deadline_s` seconds.
        InputError: the group that exists is of other ranks, or cannot compute on the device.
    """
    if world.size == 1:
        yield
    elif dist.is_initialized():
        _check_group(world, device)
        yield
    else:
        with _interface_to_the_master():
            _join(world, device, deadline_s)
            try:
                yield
            finally:
                # A DistributedDataParallel holds the group, and often lies in a cycle of references. If it were collected after
                # the group's end, the collector would wait, with Python's lock, for threads that may be waiting for this lock.
                gc.collect()
                if not _in_thread("halohop-leave-group", dist.destroy_process_group, LEAVE_S):
                    _LOG.warning("left the process group behind: a collective that its other ranks do not answer is under way")


def check_number(world: World) -> None:
    """Where there is a process group of as many ranks, each must have its number there: two ranks with one number draw alike.

    Raises:
        InputError: this one has another number.
    """
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() == world.size):
        return
    if dist.get_rank() != world.rank:
        raise InputError(
            f"this is rank {dist.get_rank()} of the process group, but its seeds are to be those of rank {world.rank}; "
            f"give World(rank={dist.get_rank()}, size={world.size}): ranks with one number draw alike"
        )


def _check_group(world: World, device: torch.device) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    if (rank, size) != (world.rank, world.size):
        raise InputError(
            f"the process group that exists says rank {rank} of {size}, but the world says rank {world.rank} of {world.size}; "
            "give world=None, which takes the group's"
        )
    if dist.get_backend() == "nccl" and device.type == "cpu":
        raise InputError(
            "the process group that exists is of NCCL, which adds nothing up on the CPU; "
            "give device='cuda', or make the group with backend='cpu:gloo,cuda:nccl'"
        )


def _join(world: World, device: torch.device, deadline_s: float) -> None:
    def join() -> None:
        store = None
        if shares_store_of_agent():  # where torch would find addresses of dead ranks
            place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            board = dist.TCPStore(*place, is_master=False, timeout=timedelta(seconds=deadline_s))
            name = name_meeting(board, "halohop-group", rank=world.rank, size=world.size, deadline=deadline_s)
            store = dist.PrefixStore(name, board)
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=store,
            rank=world.rank,
            world_size=world.size,
            timeout=timedelta(seconds=deadline_s),
            device_id=device if device.type == "cuda" else None,  # the thread that joins has another current device
        )

    try:
        joined = _in_thread("halohop-join-group", join, deadline_s + LEAVE_S)
    except (dist.DistError, RuntimeError, ValueError) as error:
        raise ClusterError(
            f"rank {world.rank} found no process group of {world.size} within {deadline_s:g} s: {error}"
        ) from error
    if not joined:
        raise ClusterError(f"rank {world.rank} found no process group of {world.size} within {deadline_s + LEAVE_S:g} s")


def _in_thread(name: str, work: Callable[[], None], seconds: float) -> bool:
    """Whether `work` ended within so many seconds; what it raises is raised here.

    torch's waiting keeps the main thread from answering signals, up to the deadline of a collective whose peers are gone. The
    main thread waits here instead, and a thread that is left behind does not keep the process from ending.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    end = time.monotonic() + seconds
    while thread.is_alive() and (left := end - time.monotonic()) > 0:
        thread.join(min(left, _LOOK_S))
    for failure in failures:
        raise failure
    return not thread.is_alive()


@contextmanager
def _interface_to_the_master() -> Iterator[None]:
    """gloo connects the ranks to each other by the interface that leads to MASTER_ADDR, unless the user names one.

    By itself it takes the address that the host's own name resolves to, which in many containers is the loopback's.
    """
    name = None if GLOO_INTERFACE in os.environ else interface_towards(os.environ.get("MASTER_ADDR", ""))
    if name is None:
        yield
        return
    os.environ[GLOO_INTERFACE] = name
    try:
        yield
    finally:
        os.environ.pop(GLOO_INTERFACE, None)
