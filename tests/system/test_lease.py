"""What servers keep for trainers, and that it goes with them."""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

import halohop
from halohop.loading.metrics import scrape
from halohop.testing.worlds import TOKEN, environment
from halohop.transport import Limits

LEASE = 4.0
LIMITS = Limits(call_seconds=90, attempt_seconds=5, connect_seconds=60)
PATIENCE = 60.0

GREEDY = """
import sys
import halohop, torch
from halohop.transport import Limits
graph = halohop.connect(sys.argv[1:], limits=Limits(call_seconds=20))
halohop.DistTensor(graph, (None,), name="state", node_type="node")[torch.arange(5)] = 1
loader = halohop.NeighborLoader(
    graph, [30_000, 3], batch_size=3, replace=True, seed=1, num_workers=48, backlog_bytes=1 << 40, prefetch_factor=4
)
for batch in loader:
    sys.stdin.readline()
"""


def eventually(holds: Callable[[], bool], *, within: float) -> None:
    """Waits until something holds; looks ten times a second."""
    until, pause = time.monotonic() + within, threading.Event()
    while not holds():
        assert time.monotonic() < until, "it did not come to hold"
        pause.wait(0.1)


def greedy(address: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", GREEDY, address]
    return subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, text=True)


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_killed_trainer_leaves_nothing_on_the_server_after_the_lease(parts, start):
    """And meanwhile another one, slow but alive, gets the batches that it would get anyway."""
    server, address = start("0,1", "127.0.0.1:0", "", "--lease", str(LEASE), "--metrics", ":0")
    (endpoint,) = re.findall(r"metrics at http://(\S+)/metrics", server.stderr.readline())

    def now(name: str) -> float:
        return scrape(endpoint, timeout=PATIENCE).sums.get(name, 0)

    def batches(graph: halohop.Graph) -> halohop.NeighborLoader:
        return halohop.NeighborLoader(graph, [3, 2], batch_size=20, shuffle=True, seed=2, num_workers=1, prefetch_factor=1)

    def told(batch) -> tuple:
        return batch.n_id.tolist(), batch.e_id.tolist(), batch.x.flatten().tolist()

    with halohop.open(parts) as graph:
        undisturbed = [told(batch) for batch in batches(graph)]
    with halohop.connect([address], token=TOKEN, limits=LIMITS) as graph:
        loader = iter(batches(graph))
        got = [told(next(loader))]
        with greedy(address) as trainer:
            eventually(lambda: now("transport_in_flight") > 20, within=PATIENCE)
            assert now("kept_samplers") >= 1
            assert now("kept_senders") == 1
            trainer.kill()
        eventually(lambda: now("transport_in_flight") == 0, within=PATIENCE)
        got.append(told(next(loader)))
        eventually(lambda: now("kept_samplers") == 0, within=10 * LEASE)  # its own, too: it was not heard of for a lease
        got.extend(told(batch) for batch in loader)
        assert got == undisturbed
        assert now("kept_samplers") == 1
    eventually(lambda: now("kept_samplers") + now("pool_idle_bytes") == 0, within=10 * LEASE)
    eventually(
        lambda: now("kept_senders") == 0, within=20 + 10 * LEASE
    )  # its pushes could come again until call_seconds were over
