"""Ranks that torchrun starts again after one was killed: two agents with c10d on this machine, each as a host of its own."""

import json
import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

import halohop
from halohop.datasets import synthetic
from halohop.launch.runs.nodes import node_folders
from halohop.testing.worlds import free_addresses
from tests.support.forked import Forked

PATIENCE_S = 120

OPENS = """
import os, signal, sys
import halohop, torch
with halohop.open(sys.argv[1], deadline=60) as graph:
    rows = graph.rows("x", torch.arange(1000), node_type="node").sum().item()
    print("opened", os.environ["RANK"], os.getpid(), rows, flush=True)
    if not os.path.exists(sys.argv[2]):
        signal.pause()
"""


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """A folder of partitions for each host."""
    halohop.partition(synthetic("tiny"), tmp_path / "parts", num_parts=2, method="random")
    return [str(folder) for folder in node_folders(tmp_path / "parts", tmp_path / "nodes", 2)]


@contextmanager
def agents(shared: bool, *words: list[str]) -> Iterator[tuple[list[Forked], queue.SimpleQueue[str]]]:
    """torchrun of each host, and the lines that their ranks print."""
    (place,) = free_addresses(1)
    env = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": str(int(not shared)), "HALOHOP_TOKEN": "a secret of these tests"}
    env |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    options = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint={place}", "--rdzv-id=job"]
    options += ["--max-restarts=2", "--monitor-interval=0.2", "--local-addr=127.0.0.1"]
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read(stream: Iterator[str]) -> None:
        for line in stream:
            lines.put(line)

    with ExitStack() as stack:
        started, threads = [], []
        for own in words:
            agent = stack.enter_context(closing(Forked("torch.distributed.run", [*options, *own], env)))
            started.append(agent)
            threads += [threading.Thread(target=read, args=(stream,)) for stream in (agent.stdout, agent.stderr)]
        for thread in threads:
            thread.start()
        try:
            yield started, lines
        finally:
            for agent in started:
                agent.send_signal(signal.SIGTERM)  # it ends its ranks
            for agent in started:
                agent.wait(60)
            for thread in threads:
                thread.join(60)


def wait_for(lines: queue.SimpleQueue[str], word: str, count: int) -> list[list[str]]:
    """The words of so many lines that begin like this, as they come."""
    found: list[list[str]] = []
    seen: list[str] = []
    while len(found) < count:
        try:
            seen.append(lines.get(timeout=PATIENCE_S))
        except queue.Empty:
            raise AssertionError("".join(seen)) from None
        if seen[-1].startswith(word):
            found.append(seen[-1].split())
    return found


@pytest.mark.parametrize("shared", [pytest.param(True, marks=pytest.mark.full), False])
@pytest.mark.parametrize("killed", [1, pytest.param(0, marks=pytest.mark.full)])
def test_ranks_that_torchrun_starts_again_open_the_graph_again(
    folders: list[str], tmp_path: Path, shared: bool, killed: int
) -> None:
    """In torch's own store, which outlives the ranks, and in one that rank 0 keeps."""
    (tmp_path / "opens.py").write_text(OPENS)
    words = [[str(tmp_path / "opens.py"), folder, str(tmp_path / "goes on")] for folder in folders]
    with agents(shared, *words) as (started, lines):
        first = {rank: (int(pid), rows) for _, rank, pid, rows in wait_for(lines, "opened", 2)}
        (tmp_path / "goes on").touch()
        os.kill(first[str(killed)][0], signal.SIGKILL)
        second = {rank: (int(pid), rows) for _, rank, pid, rows in wait_for(lines, "opened", 2)}
        assert [agent.wait(PATIENCE_S) for agent in started] == [0, 0]
    assert {pid for pid, _ in first.values()}.isdisjoint(pid for pid, _ in second.values())
    assert len({rows for _, rows in (*first.values(), *second.values())}) == 1


@pytest.mark.full  # the test above restarts ranks, and recipes/test_resume.py resumes
@pytest.mark.parametrize("shared", [True, False])
def test_a_run_whose_rank_is_killed_resumes_with_the_same_losses(folders: list[str], tmp_path: Path, shared: bool) -> None:
    def losses(out: Path) -> list[tuple[int, int | None, float]]:
        events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        assert events[-1]["event"] == "end"
        return [(event["epoch"], event.get("step"), event["loss"]) for event in events if event["event"] in ("step", "epoch")]

    def words(out: Path) -> list[list[str]]:
        options = ["--fanout=4,4", "--hidden=16", "--batch-size=10", "--epochs=3", "--save-every=2", "--workers=0"]
        return [["-m", "halohop", "train", each, *options, f"--out={out}", "--resume=auto", "--json"] for each in folders]

    with agents(shared, *words(tmp_path / "whole")) as (started, _):
        assert [agent.wait(PATIENCE_S) for agent in started] == [0, 0]
    with agents(shared, *words(tmp_path / "broken")) as (started, lines):
        wait_for(lines, '{"event":"epoch"', 1)
        (rank,) = ranks_below(started[1].pid)
        os.kill(rank, signal.SIGKILL)
        wait_for(lines, '{"event":"resume"', 1)
        assert [agent.wait(PATIENCE_S) for agent in started] == [0, 0]
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")


def ranks_below(agent: int) -> list[int]:
    """The ranks that an agent has started."""
    children = [child for tasks in Path(f"/proc/{agent}/task").glob("*/children") for child in tasks.read_text().split()]
    return [int(child) for child in children if "RANK=" in Path(f"/proc/{child}/environ").read_text()]
