"""Workers that are killed: those that need them end with a named error within the deadline, and the others go on."""

import random
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import halohop
import halohop.glt as glt
from halohop.testing.graphs import ring
from halohop.testing.worlds import free_address
from tests.support.deadlines import within
from tests.support.forked import forkserver

SEEDS, WORKERS = 400, 4
DEADLINE = 15
"""`rpc_timeout`, in seconds; a batch may take twice as long, so that the peer's own error comes first."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kills")
    halohop.partition(ring(SEEDS), root / "parts", num_parts=2, method="random", edge_dir="out")
    return root


def train(folder: Path, port: int, rank: int, collocated: bool, out: Path) -> None:
    """Loads epochs without end; writes a line for each batch, or the error that ends it."""
    try:
        glt.distributed.init_worker_group(WORKERS, rank)
        dataset = glt.distributed.DistDataset()
        dataset.load(folder / "parts", rank // 2, graph_mode="CPU")
        where = {"master_addr": "localhost", "master_port": port, "rpc_timeout": DEADLINE}
        kind = "CollocatedDistSamplingWorkerOptions" if collocated else "MpDistSamplingWorkerOptions"
        options = getattr(glt.distributed, kind)(**where)
        mine = torch.arange(rank, SEEDS, WORKERS)
        loader = glt.distributed.DistNeighborLoader(dataset, [3, 3], mine, 10, shuffle=True, worker_options=options)
        with (out / f"{rank}.txt").open("w", buffering=1) as lines:
            while True:
                for batch in loader:
                    lines.write(f"{len(batch.node)}\n")
    except BaseException:
        (out / f"{rank}.error").write_text(traceback.format_exc())
        raise


@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(20))
def test_a_lost_worker_is_named(seed: int, folder: Path, tmp_path: Path) -> None:
    chance, port = random.Random(seed), int(free_address().split(":")[1])
    victim, after = chance.randrange(WORKERS), chance.randrange(1, 60)
    workers = [forkserver().Process(target=train, args=(folder, port, rank, bool(seed % 2), tmp_path)) for rank in range(WORKERS)]
    others = [rank for rank in range(WORKERS) if rank // 2 != victim // 2]
    try:
        for worker in workers:
            worker.start()
        until(lambda: batches(tmp_path, victim) >= after, tmp_path)
        workers[victim].kill()
        if victim % 2:  # the first worker of a host answers for its partition, and this is the second
            seen = [batches(tmp_path, rank) for rank in others]
            for rank, count in zip(others, seen, strict=True):
                until(lambda rank=rank, count=count: batches(tmp_path, rank) > count + 80, tmp_path)
            return
        end = time.monotonic() + within(3 * DEADLINE)
        for rank in others:
            workers[rank].join(max(0.0, end - time.monotonic()))
            assert workers[rank].exitcode == 1, f"worker {rank} goes on"
            assert "PeerLostError" in (tmp_path / f"{rank}.error").read_text()
    finally:
        for worker in workers:
            worker.kill()
            worker.join(30)


def batches(out: Path, rank: int) -> int:
    """How many a worker has had."""
    file = out / f"{rank}.txt"
    return len(file.read_text().split()) if file.exists() else 0


def until(condition: Callable[[], bool], out: Path) -> None:
    """Waits for a condition, while no worker fails."""
    end = time.monotonic() + within(60)
    while not condition():
        assert not [*out.glob("*.error")], [file.read_text() for file in out.glob("*.error")]
        assert time.monotonic() < end, "no more batches"
        threading.Event().wait(0.005)
