"""`halohop train` against servers, all in processes of their own, some of which are killed."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from halohop import partition
from halohop.datasets import synthetic
from halohop.testing.worlds import environment, free_addresses
from tests.support.deadlines import within
from tests.support.ranks import ranks_of

TRAIN = [sys.executable, "-m", "halohop", "train"]
OPTIONS = ["--fanout", "5,5", "--hidden", "16", "--batch-size", "5", "--epochs", "3", "--patience", "0", "--device", "cpu"]
PATIENCE = 150.0
"""Seconds that a run may take, with a server that is started again in its midst."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("train") / "parts"
    partition(synthetic("tiny"), path, num_parts=4, method="random")
    return path


@pytest.fixture(scope="module")
def undisturbed(parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], dict[str, float]]:
    """By the number of trainers, what a run over the partitions themselves comes to."""

    @cache
    def of(trainers: int) -> dict[str, float]:
        out = tmp_path_factory.mktemp("undisturbed")
        with training(str(parts), out, "--trainers", trainers) as run:
            finished(run)
        return learned(out)

    return of


@contextmanager
def training(parts: str, out: Path, *options: object) -> Iterator[subprocess.Popen[str]]:
    command = [*TRAIN, *([parts] if parts else []), *OPTIONS, "--out", str(out), *map(str, options)]
    env = environment() | {"COLUMNS": "200"}
    with subprocess.Popen(command, env=env, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def finished(run: subprocess.Popen[str]) -> None:
    _, said = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, said


def events(out: Path) -> list[dict[str, Any]]:
    """Those that are written whole."""
    log = out / "metrics.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")] if log.exists() else []


def learned(out: Path) -> dict[str, float]:
    """Losses and scores of every told step, epoch and split."""
    figures, found = ("loss", "val_loss", "accuracy"), {}
    for event in events(out):
        place = " ".join(str(event[name]) for name in ("event", "epoch", "step", "split") if name in event)
        found |= {f"{place} {name}": event[name] for name in figures if event.get(name) is not None}
    return found


def alike(figures: dict[str, float]) -> Any:
    """Equal to these, but for the last digits: torch's threads may round otherwise from run to run."""
    return pytest.approx(figures, rel=1e-4)


def wait_for_step(out: Path, run: subprocess.Popen[str], epoch: int, step: int) -> None:
    """Until the run is there, in mid-epoch."""
    pause, left = threading.Event(), int(PATIENCE / 0.02)
    while (epoch, step) not in [(event.get("epoch"), event.get("step")) for event in events(out)]:
        left -= 1
        assert left, "the run did not come there in time"
        assert run.poll() is None, run.communicate(timeout=60)[1]
        pause.wait(0.02)


def halves(start: Any) -> tuple[list[subprocess.Popen[str]], list[str], Any]:
    """Two servers with two partitions each, their addresses, and a function that starts one of them again."""
    addresses = free_addresses(2)

    def begin(number: int) -> subprocess.Popen[str]:
        process, _ = start(("0,1", "2,3")[number], addresses[number], addresses[1 - number])
        return process

    return [begin(0), begin(1)], addresses, begin


@pytest.mark.full  # test_clusters.py kills servers under loaders, and trainers are killed below
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("trainers", "sampling"), [pytest.param(1, "client", marks=pytest.mark.soak), (2, "servers")])
def test_a_server_that_is_killed_and_started_again_changes_nothing(
    start: Any, undisturbed: Callable[[int], dict[str, float]], tmp_path: Path, trainers: int, sampling: str
) -> None:
    servers, addresses, begin = halves(start)
    victim = random.Random(trainers).randrange(2)
    with training(",".join(addresses), tmp_path, "--trainers", trainers, "--sampling", sampling) as run:
        wait_for_step(tmp_path, run, 1, 20)
        servers[victim].send_signal(signal.SIGKILL)
        assert servers[victim].wait(60) == -signal.SIGKILL
        assert events(tmp_path)[-1]["event"] == "step", "the epoch was over before the server was"
        begin(victim)
        finished(run)
    assert learned(tmp_path) == alike(undisturbed(trainers))


@pytest.mark.full  # tests/recipes/test_resume.py kills one that has the graph itself
@pytest.mark.timeout(400)
@pytest.mark.parametrize("trainers", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_trainers_that_are_killed_go_on(
    start: Any, undisturbed: Callable[[int], dict[str, float]], tmp_path: Path, trainers: int
) -> None:
    """Rank 0 is killed with all its threads in mid-epoch; the launcher ends the others, and another one goes on."""
    _, addresses, _ = halves(start)
    with training(",".join(addresses), tmp_path, "--trainers", trainers, "--save-every", 7) as run:
        wait_for_step(tmp_path, run, 2, 10)
        os.kill(ranks_of(run.pid)[0], signal.SIGKILL)
        _, said = run.communicate(timeout=PATIENCE)
        assert run.returncode == 1
        assert "was killed by SIGKILL" in said
    with training("", tmp_path / "elsewhere", "--resume", tmp_path) as run:
        finished(run)
    assert [(event["epoch"], event["step"] > 0) for event in events(tmp_path) if event["event"] == "resume"] == [(2, True)]
    assert learned(tmp_path) == alike(undisturbed(trainers))


@pytest.mark.full  # test_clusters.py interrupts a trainer that waits, tests/launch a run
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "alive", [pytest.param(True, marks=pytest.mark.soak), False], ids=["mid-epoch", "waiting for a dead server"]
)
def test_ctrl_c_ends_trainers_and_servers(start: Any, tmp_path: Path, alive: bool) -> None:
    servers, addresses, _ = halves(start)
    with training(",".join(addresses), tmp_path, "--trainers", 2, "--epochs", 100_000) as run:
        wait_for_step(tmp_path, run, 1, 20)
        if not alive:
            servers[0].kill()
            assert servers.pop(0).wait(60) == -signal.SIGKILL
            with pytest.raises(subprocess.TimeoutExpired):
                run.wait(3)
        ranks = ranks_of(run.pid).values()
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=within(5))
        assert run.returncode == 130
        assert "Traceback" not in said
        assert len(ranks) == 2
        assert not [pid for pid in ranks if Path(f"/proc/{pid}").exists()]
    for server in servers:
        server.send_signal(signal.SIGINT)
        assert server.wait(within(5)) == 130
