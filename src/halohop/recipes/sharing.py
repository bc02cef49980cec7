"""What trainers of a run share: the cores and GPUs of a machine, a graph, and the seeds of a loader."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

import halohop
from halohop import Graph, World
from halohop.collectives import lost_peers_named, process_group
from halohop.cores import usable_cores
from halohop.errors import InputError
from halohop.recipes.config import InferConfig, Locality, TrainConfig
from halohop.recipes.opening import opened
from halohop.typing import NodeType


def cores_per_trainer(world: World) -> int:
    """This trainer's share of the machine's cores, at least one, and no more than OpenMP may use (``OMP_THREAD_LIMIT``).

    With more threads than that, products of sparse matrices (MKL) leave rows out without an error.
    """
    cores = len(usable_cores())
    limit = os.environ.get("OMP_THREAD_LIMIT", "")
    return max(1, min(cores // _place(world)[1], int(limit) if limit.isdecimal() else cores))


def choose_device(name: str, world: World) -> torch.device:
    """The device called `name`; "auto" and "cuda" give every trainer of a host a GPU of its own.

    Raises:
        InputError: no such device here.
    """
    gpus = torch.cuda.device_count()
    if name == "cpu" or (name == "auto" and not gpus):
        return torch.device("cpu")
    if name in ("auto", "cuda") and gpus:
        return torch.device("cuda", _place(world)[0] % gpus)
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device={name!r} is no device of torch; use auto, cpu, cuda or cuda:N") from error
    if device.type != "cuda" or (device.index or 0) >= gpus:
        raise InputError(f"device={name!r} is not here: torch sees {gpus} GPUs; use device='cpu'")
    return device


def _place(world: World) -> tuple[int, int]:
    """This rank among those that share its machine, as far as is known: of ranks that may be anywhere, all may be here."""
    known = world.hosts_known or world.local_size > 1
    return (world.local_rank, world.local_size) if known else (world.rank, world.size)


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
        opened(config.parts, config, world, device) as graph,
        lost_peers_named(graph, world),
    ):
        yield graph


def share_of(
    graph: Graph,
    nodes: tuple[NodeType, str | None],
    fanout: tuple[int, ...],
    *,
    columns: Mapping[str, Any],
    batch_size: int,
    shuffle: bool = False,
    locality: Locality = "none",
    seed: int,
    workers: int | None,
    backlog_bytes: int | None = None,
    world: World,
    device: torch.device,
    deadline_s: float,
) -> halohop.NeighborLoader:
    """A loader of this rank's share of some nodes; `columns` are those of `halohop.recipes.spec.columns_read`."""
    return halohop.NeighborLoader(
        graph,
        list(fanout),
        nodes,
        batch_size=batch_size,
        shuffle=shuffle,
        locality=locality,
        **columns,
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
