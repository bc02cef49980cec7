"""What trainers do together: add numbers up, and notice that one of them is gone."""

import random
import socket
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from halohop.alive import note_step
from halohop.errors import ClusterError
from halohop.linux import first_ephemeral_port
from halohop.process_group import process_group, world_of
from halohop.typing import OnProgress
from halohop.world import World

__all__ = [
    "add_over_ranks",
    "free_port",
    "from_rank_0",
    "gather_rows",
    "in_rounds",
    "lost_peers_named",
    "max_over_ranks",
    "process_group",
    "sum_over_ranks",
    "world_of",
]

_COLLECTIVE_FAILURES = ("gloo", "nccl", "process group", "connection closed", "connection reset", "broken pipe", "socket")
"""Words of torch's messages when a collective fails; the CPU back end raises plain RuntimeErrors."""

_ROUND_S = 1.0


def free_port(host: str = "localhost") -> int:
    """A TCP port of this host that nothing listens at, such as trainers can meet at.

    It lies below those that the kernel gives to connections, so that none of these takes it before it is used, and is handed
    out once a minute, to whatever process asks. A server that sets SO_REUSEADDR, as torch's and Python's do, may listen at it.

    Args:
        host: the name or address at which it is free.

    Raises:
        ClusterError: no port was found.

    Example:
        >>> 0 < free_port() < 65536
        True
    """
    first_given = first_ephemeral_port()
    for port in random.SystemRandom().sample(range(first_given // 2, first_given), 100):
        with suppress(OSError):  # another process has it, or was given it
            _reserve(host, port)
            return port
    raise ClusterError(f"100 ports of {host!r} were tried and none is free; give an address of this host, or a port")


def _reserve(host: str, port: int) -> None:
    """Leaves a closed connection at the port, which the kernel remembers for a minute: who does not reuse cannot bind it then.

    Raises:
        OSError: it is taken, or remembered.
    """
    family, kind, _, _, place = socket.getaddrinfo(
        host, port, socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM
    )[0]
    with socket.socket(family, kind) as server:
        server.bind(place)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after `bind`, which is to fail where others were
        server.listen(1)
        with socket.create_connection(server.getsockname()[:2], timeout=_ROUND_S):
            server.accept()[0].close()  # the side that closes first is remembered


class HasPeers(Protocol):
    """What knows whether the hosts that it asks still answer, such as a `halohop.Graph`."""

    def check_peers(self) -> None: ...


def sum_over_ranks(numbers: list[float], device: torch.device, world: World) -> list[float]:
    """Element-wise sums over all ranks, the same on each of them."""
    return _reduced(numbers, device, world, dist.ReduceOp.SUM)


def add_over_ranks(numbers: Tensor, world: World) -> Tensor:
    """Element-wise sums over all ranks, in place and where the numbers are; on a GPU the host does not wait for them."""
    if world.size > 1:
        dist.all_reduce(numbers, dist.ReduceOp.SUM)
    return numbers


def max_over_ranks(number: float, device: torch.device, world: World) -> float:
    """The largest of all ranks' numbers."""
    return _reduced([number], device, world, dist.ReduceOp.MAX)[0]


def gather_rows(rows: Tensor, device: torch.device, world: World) -> Tensor:
    """The rows ``[n, ...]`` of all ranks, one rank's after the other's, the same on each of them; on the CPU."""
    if world.size == 1:
        return rows.cpu()
    counts = [0.0] * world.size
    counts[world.rank] = len(rows)
    counts = sum_over_ranks(counts, device, world)
    padded = rows.new_zeros((int(max(counts)), *rows.shape[1:]), device=device)
    padded[: len(rows)] = rows
    gathered = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(gathered, padded)
    return torch.cat([rows[: int(count)].cpu() for rows, count in zip(gathered, counts, strict=True)])


def from_rank_0(data: bytes, device: torch.device, world: World) -> bytes:
    """What rank 0 gives, on all ranks; what the others give is not looked at."""
    if world.size == 1:
        return data
    (size,) = sum_over_ranks([len(data) if world.rank == 0 else 0], device, world)
    sent = torch.empty(int(size), dtype=torch.uint8, device=device)
    if world.rank == 0:
        sent.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    dist.broadcast(sent, 0)
    return sent.cpu().numpy().tobytes()


def in_rounds(
    name: str,
    work: Generator[int, None, None],
    total: int,
    *,
    world: World,
    device: torch.device,
    on_progress: OnProgress,
) -> None:
    """Does this rank's work and waits for the others'.

    All ranks meet about once a second, finished or not. So no rank waits long for one that lives, however uneven the work is, and
    one that is gone is soon missed.

    Args:
        name: what this is, for `on_progress`.
        work: does a step and says how much that was, until there is no more.
        total: how much there is for this rank.
        world, device: who meets, and where.
        on_progress: called with (name, done, total), sums over all ranks.
    """
    done, running, others = 0, True, 1.0
    with closing(work):
        while others:
            end = time.monotonic() + _ROUND_S
            while running and time.monotonic() < end:
                step = next(work, None)
                running = step is not None
                done += step or 0
            others, all_done, all_there_is = sum_over_ranks([running, done, total], device, world)
            note_step()
            on_progress(name, int(all_done), int(all_there_is))


@contextmanager
def lost_peers_named(graph: HasPeers, world: World) -> Iterator[None]:
    """Turns the failure of a collective into the news behind it: who is gone.

    Raises:
        PeerLostError: a host that serves partitions does not answer; names it.
        ClusterError: all hosts answer, so a trainer has ended or stalled.
    """
    try:
        yield
    except RuntimeError as error:
        if world.size == 1 or not _of_a_collective(error):
            raise
        graph.check_peers()
        raise ClusterError(
            f"rank {world.rank} waited for the other trainers in vain: one of them has ended or stalled; "
            f"its own output tells why ({str(error).splitlines()[0]})"
        ) from error


def _reduced(numbers: list[float], device: torch.device, world: World, op: dist.ReduceOp.RedOpType) -> list[float]:
    if world.size == 1:
        return list(numbers)
    total = torch.tensor(numbers, dtype=torch.float64, device=device)
    dist.all_reduce(total, op)
    return [float(number) for number in total.tolist()]


def _of_a_collective(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or any(word in str(error).lower() for word in _COLLECTIVE_FAILURES)
