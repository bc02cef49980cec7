"""A process that is killed while it saves tables leaves the checkpoint of before, or the new one, whole."""

import multiprocessing
import random
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

from halohop.cluster.tables.checkpoint import RECORD
from halohop.tables.spec import Beginning, TableSpec
from halohop.testing.graphs import ring
from halohop.testing.worlds import partitioned

pytestmark = pytest.mark.timeout(60)

SPEC = TableSpec(name="x", key="node", num_rows=2000, shape=(8,), dtype="float32", begin=Beginning(kind="normal", high=1.0))


def save_on(folder: Path, line: Connection) -> None:
    """Writes all rows and saves them, again and again; announces the step before each save, and after it."""
    graph = partitioned(ring(SPEC.num_rows), 3, shard_each=True)
    graph.tables.make(SPEC)
    for step in range(1, 10_000):
        graph.tables.write("x", torch.arange(SPEC.num_rows), torch.full((SPEC.num_rows, 8), float(step)))
        line.send(("saves", step))
        graph.tables.save(folder, step=step)
        line.send(("saved", step))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 20))])
def test_a_kill_at_any_moment_leaves_a_checkpoint_that_is_good(seed: int, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=save_on, args=(tmp_path, there))
    process.start()
    there.close()
    saves = saved = 0
    draw = random.Random(seed)
    while saved < 1 + seed % 3:
        kind, step = here.recv()
        saved = step if kind == "saved" else saved
    threading.Event().wait(draw.uniform(0, 0.05))
    process.kill()
    process.join(20)
    assert process.exitcode == -signal.SIGKILL
    try:
        while True:
            kind, step = here.recv()
            saves, saved = (step, saved) if kind == "saves" else (saves, step)
    except EOFError:
        here.close()
    steps = sorted(int(path.parent.name.split("-")[1]) for path in tmp_path.glob(f"*/{RECORD}"))
    assert saved <= max(steps, default=-1) <= max(saves, saved), (steps, saves, saved)
    graph = partitioned(ring(SPEC.num_rows), 2, seed=1, shard_each=True)
    for step in steps:
        graph.tables.load(tmp_path, step=step)
        assert graph.tables.read("x", torch.arange(SPEC.num_rows)).eq(step).all()
    graph.tables.save(tmp_path, step=20_000)
    assert [path.name.split("-")[1] for path in tmp_path.iterdir()] == ["20000"], "what the kill left is gone"
    graph.close()
