"""SIGTERM to `halohop train`, to one of its trainers, and to a launched job: saved, exit code 75, and gone on with as if nothing
had been."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from halohop.testing.worlds import environment
from tests.support.deadlines import within

WORDS = ("--epochs", "8", "--fanout", "5,5", "--batch-size", "25", "--json")
pytestmark = [pytest.mark.full, pytest.mark.timeout(400), pytest.mark.xdist_group("alone")]


def begin(folder: Path, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "halohop", *words]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def losses(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["event"] == "epoch"]


def descendants(pid: int) -> list[int]:
    """Of a process, by what the system says."""
    found = [int(child) for tasks in Path(f"/proc/{pid}/task").glob("*/children") for child in tasks.read_text().split()]
    return found + [other for child in found for other in descendants(child)]


def ranks(pid: int) -> list[int]:
    names = {child: Path(f"/proc/{child}/comm").read_text() for child in descendants(pid)}
    return [child for child, name in sorted(names.items()) if name.startswith("halohop rank")]


@pytest.fixture(scope="module")
def whole(tiny_parts: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    folder = tmp_path_factory.mktemp("whole")
    run = begin(folder, "train", str(tiny_parts), "--trainers", "2", *WORDS, "--out", "run")
    _, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    return losses(folder / "run")


@pytest.mark.parametrize("who", ["launcher", "trainer", "job"])
def test_it_saves_and_goes_on(tiny_parts: Path, tmp_path: Path, whole: list[float], who: str) -> None:
    train: dict[str, Any] = {"epochs": 8, "fanout": "5,5", "batch_size": 25, "json": "true"}
    words = ["train", str(tiny_parts), "--trainers", "2", *WORDS, "--out", "run"]
    if who == "job":
        words = ["launch", "--data", str(tiny_parts), "--trainers", "2", "--out", "run"]
        words += [word for name, value in train.items() for word in ("--train", f"{name}={value}")]
    run = begin(tmp_path, *words)
    assert run.stdout is not None
    for line in run.stdout:
        if json.loads(line)["event"] == "epoch":
            break
    mine = ranks(run.pid)
    assert len(mine) == 2
    start = time.monotonic()
    os.kill(mine[1] if who == "trainer" else run.pid, signal.SIGTERM)
    _, err = run.communicate(timeout=100)
    assert run.returncode == 75, err
    if who != "trainer":
        assert time.monotonic() - start < within(5)
        assert "halohop: terminated" in err
    assert not [pid for pid in mine if Path(f"/proc/{pid}").exists()]
    assert 1 <= len(losses(tmp_path / "run")) < 8
    again = begin(tmp_path, "train", str(tiny_parts), "--trainers", "2", *WORDS, "--resume", "run")
    _, err = again.communicate(timeout=300)
    assert again.returncode == 0, err
    assert losses(tmp_path / "run") == whole
