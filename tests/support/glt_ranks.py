"""Ranks of `halohop.glt` as threads of one process: each is what a process is to GLT."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import halohop.glt as glt
from halohop.glt.distributed import dist_client, dist_context, dist_dataset, dist_feature, dist_server, rpc


class _PerThread(threading.local, dist_context.Process):
    """What a process keeps, for each thread."""


def use_fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on each thread is a process that does not know who it is."""
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    fresh = _PerThread()
    for module in (dist_client, dist_context, dist_dataset, dist_feature, dist_server, rpc):
        monkeypatch.setattr(module, "process", fresh)


def leave() -> None:
    """Closes what this thread has opened, without waiting for the others."""
    if dist_context.process.graph is not None:
        dist_context.process.graph.shut(wait=False)
    if dist_context.process.server is not None:
        dist_context.process.server.server.close()
    glt.distributed.shutdown_rpc(graceful=False)


def in_ranks(size: int, work: Callable[[int], Any]) -> list[Any]:
    """What `work` returns on each of some ranks, which stay until all are done. Needs `use_fresh_process`."""
    done = threading.Barrier(size)

    def rank(number: int) -> Any:
        glt.distributed.init_worker_group(size, number)
        try:
            found = work(number)
            done.wait(60)
            return found
        except BaseException:
            done.abort()
            raise
        finally:
            leave()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(rank, range(size), timeout=120))
