"""torch's process group around a run: one that is made for it, or the one that the user's script has made already."""

import fcntl
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from halohop.errors import ClusterError, InputError
from halohop.world import World

LEAVE_S = 10.0
"""Seconds that leaving a process group may take, and that joining one may take beyond its deadline."""

_LOOK_S = 1.0
"""A signal that another thread takes does not wake the main thread, which looks for it so often."""

_INTERFACE = "GLOO_SOCKET_IFNAME"
_SIOCGIFADDR = 0x8915
"""Linux's number of the request for the IPv4 address of an interface."""

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
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            rank=world.rank,
            world_size=world.size,
            timeout=timedelta(seconds=deadline_s),
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
    name = None if _INTERFACE in os.environ else _interface_towards(os.environ.get("MASTER_ADDR", ""))
    if name is None:
        yield
        return
    os.environ[_INTERFACE] = name
    try:
        yield
    finally:
        os.environ.pop(_INTERFACE, None)


def _interface_towards(host: str) -> str | None:
    """The name of the interface that leads to a host; None where that is not known.

    Example:
        >>> _interface_towards("127.0.0.1"), _interface_towards("")
        ('lo', None)
    """
    if not host:
        return None
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:  # connecting it chooses an interface and sends nothing
            probe.connect(target)
            own = probe.getsockname()[0].partition("%")[0]
    except OSError:  # joining the group says what is wrong with the name
        return None
    return next((name for _, name in socket.if_nameindex() if own in _addresses(name)), None)


def _addresses(interface: str) -> set[str]:
    found = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):  # it has no IPv4 address
        answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()))
        found.add(socket.inet_ntoa(answer[20:24]))
    with suppress(OSError):  # a system without IPv6
        lines = [line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines()]
        found |= {socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line[0])) for line in lines if line[5] == interface}
    return found
