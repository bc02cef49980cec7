"""What trainers do together: share a machine, form a process group, add numbers up, and notice that one of them is gone."""

import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import halohop
from halohop.cluster.graph import Graph
from halohop.errors import ClusterError, InputError
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.recipes.opening import opened
from halohop.typing import NodeType
from halohop.world import World

_COLLECTIVE_FAILURES = ("gloo", "nccl", "process group", "connection closed", "connection reset", "broken pipe", "socket")
"""Words of torch's messages when a collective fails; the CPU back end raises plain RuntimeErrors."""

_ROUND_S = 1.0
LEAVE_S = 10.0
"""Seconds that leaving a process group may take."""

_LOG = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is, and how much there is."""


def cores_per_trainer(world: World) -> int:
    """This trainer's share of the machine's cores, at least one, and no more than OpenMP may use (``OMP_THREAD_LIMIT``).

    With more threads than that, products of sparse matrices (MKL) leave rows out without an error.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_THREAD_LIMIT", "")
    return max(1, min(cores // world.local_size, int(limit) if limit.isdecimal() else cores))


def choose_device(name: str, world: World) -> torch.device:
    """The device called `name`; "auto" and "cuda" give every trainer of a host a GPU of its own.

    Raises:
        InputError: no such device here.
    """
    gpus = torch.cuda.device_count()
    if name == "cpu" or (name == "auto" and not gpus):
        return torch.device("cpu")
    if name in ("auto", "cuda") and gpus:
        return torch.device("cuda", world.local_rank % gpus)
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device={name!r} is no device of torch; use auto, cpu, cuda or cuda:N") from error
    if device.type != "cuda" or (device.index or 0) >= gpus:
        raise InputError(f"device={name!r} is not here: torch sees {gpus} GPUs; use device='cpu'")
    return device


@contextmanager
def shared_graph(config: TrainConfig | InferConfig, *, world: World, device: torch.device) -> Iterator[Graph]:
    """The graph of a run and a process group for as long as the context lasts; both end with it, also after an error.

    Args:
        config: where the graph is, and how long to wait for the other trainers and for those who hold it.
        world: who takes part.
        device: where this trainer computes.

    Raises:
        PeerLostError: a host that serves partitions does not answer; names it.
        ClusterError: all hosts answer, so a trainer has ended or stalled.
    """
    torch.set_num_threads(cores_per_trainer(world))
    with (
        process_group(world, device, config.deadline_s),
        opened(config.parts, config, world) as graph,
        lost_peers_named(graph, world),
    ):
        yield graph


def share_of(
    graph: Graph,
    nodes: tuple[NodeType, str | None],
    fanout: tuple[int, ...],
    *,
    batch_size: int,
    shuffle: bool = False,
    seed: int,
    workers: int | None,
    backlog_bytes: int | None = None,
    world: World,
    device: torch.device,
    deadline_s: float,
) -> halohop.NeighborLoader:
    """A loader of this rank's share of some nodes."""
    return halohop.NeighborLoader(
        graph,
        list(fanout),
        nodes,
        batch_size=batch_size,
        shuffle=shuffle,
        **shared(seed=seed, workers=workers, backlog_bytes=backlog_bytes, world=world, device=device, deadline_s=deadline_s),
    )


def shared(
    *, seed: int, workers: int | None, backlog_bytes: int | None = None, world: World, device: torch.device, deadline_s: float
) -> dict[str, Any]:
    """The options of any loader whose seeds are shared among ranks."""
    return {
        "seed": seed,
        "world": world,
        "num_workers": min(cores_per_trainer(world), 4) if workers is None else workers,
        "backlog_bytes": backlog_bytes,
        "pin_memory": device.type == "cuda",
        # Every model multiplies features first, which torch does with sparse rows, too. On a GPU that is not tested.
        "layout": torch.sparse_csr if device.type == "cpu" else torch.strided,
        "timeout": 2 * deadline_s,  # later than the deadline of the request that it waits for, whose error says more
    }


@contextmanager
def process_group(world: World, device: torch.device, deadline_s: float) -> Iterator[None]:
    """torch's process group of all trainers while the context lasts; nothing for a trainer alone.

    Raises:
        ClusterError: the others did not come within `deadline_s` seconds.
    """
    if world.size == 1:
        yield
        return
    try:
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            rank=world.rank,
            world_size=world.size,
            timeout=timedelta(seconds=deadline_s),
        )
    except (dist.DistError, RuntimeError, ValueError) as error:
        raise ClusterError(
            f"rank {world.rank} found no process group of {world.size} within {deadline_s:g} s: {error}"
        ) from error
    try:
        yield
    finally:
        _leave_process_group()


def _leave_process_group() -> None:
    """Waits `LEAVE_S` seconds at most: gloo gives every collective under way its deadline, also where the peers are gone."""
    failures: list[BaseException] = []

    def leave() -> None:
        try:
            dist.destroy_process_group()
        except BaseException as error:
            failures.append(error)

    leaving = threading.Thread(target=leave, name="halohop-leave-group", daemon=True)
    leaving.start()
    leaving.join(LEAVE_S)
    if leaving.is_alive():
        _LOG.warning("left the process group behind: a collective that its other ranks do not answer is still under way")
    for failure in failures:
        raise failure


def sum_over_ranks(numbers: list[float], device: torch.device, world: World) -> list[float]:
    """Element-wise sums over all ranks, the same on each of them."""
    return _reduced(numbers, device, world, dist.ReduceOp.SUM)


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
    on_progress: Progress,
) -> None:
    """Does this rank's work and waits for the others'.

    All ranks meet about once a second, finished or not. So nobody waits long for one that lives, however uneven the work is, and
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
            on_progress(name, int(all_done), int(all_there_is))


@contextmanager
def lost_peers_named(graph: Graph, world: World) -> Iterator[None]:
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
