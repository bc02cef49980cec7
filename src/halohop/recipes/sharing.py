"""What trainers of a run share: the cores and GPUs of a machine, a graph, and the seeds of a loader."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from halohop import Graph, World
from halohop.collectives import lost_peers_named, process_group
from halohop.cores import usable_cores
from halohop.errors import InputError
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.recipes.opening import opened
from halohop.records import Padding


def cores_per_trainer(world: World) -> int:
    """This trainer's share of the machine's cores, at least one, and no more than OpenMP may use (``OMP_THREAD_LIMIT``).

    With more threads than that, products of sparse matrices (MKL) leave rows out without an error.
    """
    cores = len(usable_cores())
    limit = os.environ.get("OMP_THREAD_LIMIT", "")
    return max(1, min(cores // _place(world)[1], int(limit) if limit.isdecimal() else cores))


def choose_device(name: str, world: World) -> torch.device:
    """The device called `name`; "auto" and "cuda" give every trainer of a host a GPU of its own, and "auto" takes the CPU where
    there are too few: ranks that share a GPU cannot meet through NCCL.

    Raises:
        InputError: no such device here, or fewer GPUs than trainers.
    """
    gpus = torch.cuda.device_count()
    rank, size = _place(world)
    # Who sees one GPU that a launcher has chosen has it alone; ranks whose hosts are not known may have theirs elsewhere.
    chosen = gpus == 1 and any(os.environ.get(key) for key in _VISIBLE)
    shared = size > 1 and not chosen and _is_known(world)
    if name == "cpu" or (name == "auto" and (not gpus or (shared and size > gpus))):
        return torch.device("cpu")
    if name in ("auto", "cuda") and gpus:
        if shared and size > gpus:
            raise InputError(
                f"device={name!r}: this host has {size} trainers and {gpus} GPUs, and each needs its own; "
                f"start {gpus} trainers, or use device='cpu'"
            )
        return torch.device("cuda", rank % gpus)
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device={name!r} is no device of torch; use auto, cpu, cuda or cuda:N") from error
    if device.type != "cuda" or (device.index or 0) >= gpus:
        raise InputError(f"device={name!r} is not here: torch sees {gpus} GPUs; use device='cpu'")
    if shared:
        raise InputError(f"device={name!r} is one GPU for {size} trainers of this host; device='cuda' gives each its own")
    return device


_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def _place(world: World) -> tuple[int, int]:
    """This rank among those that share its machine, as far as is known: of ranks that may be anywhere, all may be here."""
    return (world.local_rank, world.local_size) if _is_known(world) else (world.rank, world.size)


def _is_known(world: World) -> bool:
    return world.hosts_known or world.local_size > 1


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
    if device.type == "cuda":
        torch.cuda.set_device(device)  # what asks for "cuda" without a number means this one
    with (
        process_group(world, device, config.deadline_s),
        opened(config.parts, config, world, device) as graph,
        lost_peers_named(graph, world),
    ):
        yield graph


def shared(config: TrainConfig | InferConfig, world: World, device: torch.device, pad: Padding | None = None) -> dict[str, Any]:
    """The options of any loader whose seeds are shared among ranks."""
    return {
        "seed": config.seed,
        "world": world,
        "num_workers": min(cores_per_trainer(world), 4) if config.workers is None else config.workers,
        "backlog_bytes": config.backlog_bytes if isinstance(config, TrainConfig) else None,
        "pin_memory": device.type == "cuda",
        "pad": pad,
        # Every model multiplies features first, which torch does with sparse rows, too. On a GPU that is not tested, and
        # compilers know no sparse rows.
        "layout": torch.sparse_csr if device.type == "cpu" and pad is None else torch.strided,
        "timeout": 2 * config.deadline_s,  # later than the deadline of the request that it waits for, whose error says more
    }
