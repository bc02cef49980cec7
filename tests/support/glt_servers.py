"""Servers and clients of `halohop.glt` as threads of one process; each is what a process is to GLT."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

import halohop.glt as glt
from halohop.testing.worlds import free_address
from tests.support.glt_ranks import leave


def dataset_of(folder: Path, part: int, *, edge_dir: str = "in", labels: Any = None) -> glt.distributed.DistDataset:
    """One partition of a folder."""
    dataset = glt.distributed.DistDataset(edge_dir=edge_dir)
    dataset.load(folder, part, graph_mode="CPU", whole_node_label_file=labels)
    return dataset


def in_server_mode(
    datasets: Sequence[Callable[[], glt.distributed.DistDataset]],
    num_clients: int,
    work: Callable[[int], Any],
    **dynamic: bool,
) -> list[Any]:
    """What `work` returns on each client; servers with these data sets end by themselves. Needs `use_fresh_process`."""
    host, port = free_address().split(":")
    size = len(datasets)

    def serve(rank: int) -> None:
        try:
            count = 0 if dynamic else num_clients
            glt.distributed.init_server(size, rank, datasets[rank](), host, int(port), count, **dynamic)
            glt.distributed.wait_and_shutdown_server()
        finally:
            leave()

    def ask(rank: int) -> Any:
        try:
            glt.distributed.init_client(size, num_clients, rank, host, int(port), **dynamic)
            found = work(rank)
            glt.distributed.shutdown_client()
            return found
        finally:
            leave()

    with ThreadPoolExecutor(size + num_clients) as pool:
        servers: list[Future[None]] = [pool.submit(serve, rank) for rank in range(size)]
        clients = [pool.submit(ask, rank) for rank in range(num_clients)]
        found = [client.result(timeout=90) for client in clients]
        for server in servers:
            server.result(timeout=60)
    return found


def same(one: Any, other: Any) -> bool:
    """Whether two batches of GLT's names are equal, bit for bit."""
    mine, theirs = one.to_dict(), other.to_dict()
    return _equal(mine, theirs)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other)
