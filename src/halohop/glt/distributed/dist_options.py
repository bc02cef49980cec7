"""Where the batches of distributed loaders are made, and how many ahead."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from halohop.errors import InputError
from halohop.glt.notes import note
from halohop.glt.utils.units import parse_size


@dataclass(frozen=True, slots=True)
class CollocatedDistSamplingWorkerOptions:
    """One thread of the trainer makes the batches.

    Args:
        master_addr, master_port: where the processes meet, on the host of rank 0; by default MASTER_ADDR, and the port after
            MASTER_PORT.
        rpc_timeout: seconds to wait for another process; a batch may take twice as long, so that an error names the process.
    """

    master_addr: str | None = None
    master_port: str | int | None = None
    num_rpc_threads: int | None = None
    rpc_timeout: float = 180
    use_all2all: bool = False

    def __post_init__(self) -> None:
        _check(self)

    def loading(self) -> dict[str, Any]:
        """As keywords of halohop's loaders."""
        return {"num_workers": 1, "timeout": 2 * self.rpc_timeout}


@dataclass(frozen=True, slots=True)
class MpDistSamplingWorkerOptions:
    """Threads of the trainer make the batches; sampling releases Python's lock.

    Args:
        num_workers: how many.
        worker_devices: the CPU, or GPUs that there are; where neighbours are drawn changes no batch.
        worker_concurrency: batches ahead of each worker, 1 to 32.
        channel_size: what batches ahead may weigh: bytes, or text such as "1GB".
        pin_memory: they lie in page-locked memory, where there is a GPU.
        others: as of `CollocatedDistSamplingWorkerOptions`.
    """

    num_workers: int = 1
    worker_devices: torch.device | Sequence[torch.device] | None = None
    worker_concurrency: int = 4
    master_addr: str | None = None
    master_port: str | int | None = None
    num_rpc_threads: int | None = None
    rpc_timeout: float = 180
    channel_size: int | str | None = None
    pin_memory: bool = False
    use_all2all: bool = False

    def __post_init__(self) -> None:
        _check(self)

    def loading(self) -> dict[str, Any]:
        """As keywords of halohop's loaders."""
        room = {"backlog_bytes": _bytes("channel_size", self.channel_size), "pin_memory": self.pin_memory}
        return {
            "num_workers": self.num_workers,
            "prefetch_factor": self.worker_concurrency,
            "timeout": 2 * self.rpc_timeout,
        } | room


@dataclass(frozen=True, slots=True)
class RemoteDistSamplingWorkerOptions:
    """Servers make the batches.

    Args:
        server_rank: the servers whose seeds are meant, and answers; None: those of
            `halohop.Graph.share_servers`, so that the clients together have the seeds of all servers.
        num_workers: threads that ask for batches.
        buffer_size: what batches ahead may weigh: bytes, or text such as "1GB".
        prefetch_size: batches ahead of each worker.
        worker_key: clients with the same one divide the seeds; without one each goes through all that it names.
        glt_graph, workload_type: of GraphScope, refused.
        others: as of `CollocatedDistSamplingWorkerOptions` and `MpDistSamplingWorkerOptions`.
    """

    server_rank: int | Sequence[int] | None = None
    num_workers: int = 1
    worker_devices: torch.device | Sequence[torch.device] | None = None
    worker_concurrency: int = 4
    master_addr: str | None = None
    master_port: str | int | None = None
    num_rpc_threads: int | None = None
    rpc_timeout: float = 180
    buffer_size: int | str | None = None
    prefetch_size: int = 4
    worker_key: str | None = None
    glt_graph: Any = None
    workload_type: str | None = None
    use_all2all: bool = False

    def __post_init__(self) -> None:
        _check(self)
        if self.prefetch_size < 1:
            raise InputError(f"prefetch_size={self.prefetch_size} leaves no batch to be made; give at least 1")
        if self.glt_graph is not None or self.workload_type is not None:
            raise InputError("glt_graph and workload_type are of GraphScope, whose graphs are not read; leave them out")

    def loading(self) -> dict[str, Any]:
        """As keywords of halohop's loaders."""
        room = {"backlog_bytes": _bytes("buffer_size", self.buffer_size)}
        return {"num_workers": self.num_workers, "prefetch_factor": self.prefetch_size, "timeout": 2 * self.rpc_timeout} | room


WorkerOptions = CollocatedDistSamplingWorkerOptions | MpDistSamplingWorkerOptions
AllDistSamplingWorkerOptions = WorkerOptions | RemoteDistSamplingWorkerOptions


def address_of(host: str | None, port: str | int | None) -> str:
    """``HOST:PORT`` where processes meet, of the arguments or of the environment.

    Raises:
        InputError: none is known, or a port that is no number.

    Example:
        >>> address_of("localhost", "11111"), address_of("fe80::1", 9)
        ('localhost:11111', '[fe80::1]:9')
    """
    host, known = host or os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT", "")
    text = str(port) if port is not None else str(int(known) + 1) if known.isdigit() else ""
    if not host or not text.isdigit():
        raise InputError(
            f"master_addr={host!r}, master_port={port!r} is no place to meet; give both, or MASTER_ADDR and MASTER_PORT in the "
            "environment"
        )
    return f"[{host}]:{text}" if ":" in host else f"{host}:{text}"


def _check(options: AllDistSamplingWorkerOptions) -> None:
    if options.rpc_timeout <= 0:
        raise InputError(f"rpc_timeout={options.rpc_timeout} leaves no time to answer; give seconds above 0")
    if options.num_rpc_threads is not None:
        note("num_rpc_threads")
    if options.use_all2all:
        note("use_all2all")
    options.loading()
    if isinstance(options, CollocatedDistSamplingWorkerOptions):
        return
    if options.num_workers < 1:
        raise InputError(f"num_workers={options.num_workers} makes no batch; give at least 1")
    if not 1 <= options.worker_concurrency <= 32:
        raise InputError(f"worker_concurrency={options.worker_concurrency} is outside 1..32; give a number of batches ahead")
    given = options.worker_devices
    for device in () if given is None else given if isinstance(given, Sequence) and not isinstance(given, str) else [given]:
        if torch.device(device).type == "cuda" and not torch.cuda.is_available():
            raise InputError(f"worker_devices={given!r}, but there is no GPU here; leave worker_devices out")


def _bytes(name: str, size: int | str | None) -> int | None:
    try:
        return None if size is None else parse_size(size)
    except InputError as error:
        raise InputError(f"{name}={error}") from None
