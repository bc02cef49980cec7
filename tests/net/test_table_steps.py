"""Steps of optimisers while connections break: the same bits as undisturbed."""

import random
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import halohop
from halohop.optim import SparseAdam
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, partitioned
from halohop.transport import Limits
from tests.optim.ranks import trained, uneven_plan

LIMITS = Limits(call_seconds=40, attempt_seconds=0.3)
CUTS = 20


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_connections_that_are_cut_in_mid_step_change_no_bit(tmp_path: Path, seed: int) -> None:
    """Two ranks, two servers; all connections of one break 20 times, each time a little after a rank has made a step."""
    steps = threading.Semaphore(0)  # of both ranks, 117 in all
    plan = uneven_plan(50, 7, steps=60, ranks=2, seed=seed, schedule=lambda _: SimpleNamespace(step=steps.release))
    train = partial(trained, name="v", make=partial(SparseAdam, lr=0.02), plan=plan)
    with partitioned(ring(50), 1) as graph:
        expected = train([graph])
    while steps.acquire(blocking=False):
        pass
    halohop.partition(ring(50), tmp_path / "parts", num_parts=2, method="random")
    stop = threading.Event()
    with ExitStack() as stack:
        servers = [
            stack.enter_context(halohop.serve(tmp_path / "parts", partitions=[part], token=TOKEN, limits=LIMITS))
            for part in range(2)
        ]
        addresses = [server.address for server in servers]
        graphs = [stack.enter_context(halohop.connect(addresses, token=TOKEN, limits=LIMITS)) for _ in range(2)]
        cuts = []

        def cut() -> None:
            chance = random.Random(seed)
            while len(cuts) < CUTS and not stop.wait(chance.uniform(0, 0.005)):
                for _ in range(chance.randint(1, 5)):
                    steps.acquire()
                chance.choice(servers)._listener._clients.clear()  # type: ignore[attr-defined]  # it forgets all, in mid-call
                cuts.append(1)

        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            found = train(graphs)
        finally:
            stop.set()
            cutter.join()
        assert torch.equal(found, expected)
        assert len(cuts) == CUTS
        assert sum(graph.statistics()["transport_retries"] for graph in graphs) > 0
