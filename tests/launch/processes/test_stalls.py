"""Processes that hang, and those that only look like it."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from halohop.errors import ClusterError
from halohop.launch.processes import ends, local, stalls
from halohop.launch.processes.ends import Member
from halohop.launch.processes.tasks import Task
from tests.support.deadlines import within

pytestmark = pytest.mark.timeout(120)
STEP = "import os, signal, sys, threading\nfrom halohop.alive import note_step\nnote_step()\nprint('stepped', flush=True)\n"
HANGS = f"{STEP}def wait_for_ever():\n    threading.Event().wait()\nwait_for_ever()\n"
STOPS = f"{STEP}os.kill(os.getpid(), signal.SIGSTOP)\n"
WORKS = f"{STEP}for _ in range(15):\n    threading.Event().wait(.2)\n    note_step()\n"
IS_LATE = "import threading\nthreading.Event().wait(3)\n"
DEAF = f"{STEP}signal.signal(signal.SIGABRT, signal.SIG_IGN)\nthreading.Event().wait()\n"


def run(folder: Path, *scripts: str, stall: float | None = 1.0, serves: str = "") -> str:
    """Runs scripts as processes; returns the error of the run, or nothing."""
    tasks = []
    for number, code in enumerate([*scripts, *([serves] if serves else [])]):
        (folder / f"{number}.py").write_text(code)
        argv, log = (str(folder / f"{number}.py"),), folder / "logs" / f"rank-{number}.log"
        member = Member(stays=number == len(scripts))
        tasks.append(Task(name=f"rank {number}", place="here", argv=argv, env={}, log=log, member=member))
    try:
        local.run_tasks(
            lambda env: [replace(task, env=env) for task in tasks],
            len(scripts),
            secret={},
            logs=folder / "logs",
            linger=None,
            stall=stall,
        )
    except ClusterError as error:
        return str(error)
    return ""


def test_a_process_that_hangs_is_named_and_its_log_says_where(tmp_path: Path) -> None:
    said = run(tmp_path, HANGS, WORKS)
    assert said.startswith("rank 0 (here, process ")
    assert "failed: it has made no step for 1 s, its log shows where it was; if its steps take so long, give them more" in said
    log = (tmp_path / "logs" / "rank-0.log").read_text()
    assert "Fatal Python error: Aborted" in log
    assert "in wait_for_ever" in log


def test_a_stopped_process_is_to_blame_though_others_hang_for_it(tmp_path: Path) -> None:
    said = run(tmp_path, HANGS, STOPS)
    assert said.startswith("rank 1 (here, process ")
    assert "has made no step for 1 s, and is stopped (SIGSTOP)" in said.splitlines()[0]


def test_one_that_ignores_the_request_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halohop.launch.processes.stalls._GRACE_S", 0.1)
    assert "it has made no step for 1 s" in run(tmp_path, DEAF)


def test_steps_and_what_comes_before_the_first_may_take_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "SETTLE_S", 0.1)
    assert run(tmp_path, WORKS, IS_LATE, serves=HANGS) == ""
    assert run(tmp_path, WORKS, stall=None) == ""


@pytest.mark.full
def test_without_a_limit_a_process_may_hang(tmp_path: Path) -> None:
    kills = f"{STEP}import threading\nthreading.Event().wait(3)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    assert f"was killed by {signal.SIGKILL.name}" in run(tmp_path, kills, stall=None)


def test_time_in_which_the_launcher_was_stopped_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a container is frozen: nobody could make a step."""
    clock = SimpleNamespace(ahead=0.0)
    monkeypatch.setattr(stalls, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + clock.ahead))
    file, pause = tmp_path / "report", threading.Event()
    file.touch()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    with stalls.Stalls(2.0) as watch:
        watch.begin(process.pid, file)
        os.utime(file)
        while watch._watched[process.pid].changed is None:
            pause.wait(0.01)
        clock.ahead = 1000.0
        pause.wait(0.6)
        assert process.poll() is None
        assert process.wait(within(30)) == -signal.SIGABRT
