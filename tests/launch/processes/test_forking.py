"""Processes that are forked are what fresh interpreters are, share what was imported, and end with the launcher."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from halohop.launch.processes import forking
from halohop.launch.processes.starting import fresh
from tests.support.forked import Forked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")

PATIENCE_S = 100

Tell = Callable[[str], dict[str, Any]]

TRAINER = '''
import atexit, json, os, signal, sys, threading
from pathlib import Path

def facts():
    """What a program can see of how it was started."""
    descriptors = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.exists()]
    return {
        "name": __name__,
        "arguments": sys.argv[1:],
        "environment": {name: os.environ.get(name) for name in ("RANK", "MARK", "OMP_NUM_THREADS", "AWAY", "ODD")},
        "stdin": sys.stdin.read(),
        "streams": [(stream.encoding, stream.errors) for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "own": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
        "leads": os.getpgrp() == os.getpid(),
        "terminal": os.getsid(0) == int(os.environ["LAUNCHERS_SESSION"]),
        "folder": os.getcwd(),
        "path": sys.path[0],
        "signals": [int(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)],
        "sockets": sum(name.startswith("socket:") for name in descriptors),
        "comm": Path("/proc/self/comm").read_text(),
        "threads": [thread.name for thread in threading.enumerate()],
        "hooks": [sys.excepthook is sys.__excepthook__, sys.unraisablehook is sys.__unraisablehook__],
    }

match sys.argv[1:]:
    case ["facts"]:
        print(json.dumps(facts()))
    case ["shares"]:
        import gc, torch
        gc.collect()
        sizes = dict(line.split()[:2] for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
        print(json.dumps({"threads": torch.get_num_threads(), **sizes}))
        print(json.dumps({"sum": float(torch.ones(1000, 1000).sum())}))  # OpenMP's threads start
    case ["draws"]:
        import numpy, random, torch
        print(json.dumps([torch.initial_seed(), float(numpy.random.rand()), random.random()]))
    case ["end", "late"]:
        atexit.register(print, "the end")
        threading.Thread(target=lambda: threading.Event().wait(0.2) or print("a thread")).start()
    case ["end", "exit", text]:
        sys.exit(int(text) if text.isdecimal() else text)
    case ["end", "error"]:
        raise LookupError("no such luck")
    case ["end", "signal"]:
        os.kill(os.getpid(), signal.SIGTERM)
    case ["wait"]:
        print("here", flush=True)
        threading.Event().wait(600)
'''

LAUNCHER = """
import json, os, signal, sys
import torch
from halohop.launch.processes.forking import fork_server
from halohop.launch.processes.starting import Order, fresh

os.chdir(sys.argv[2])

def order(*arguments, **env):
    read_end, write_end = os.pipe()
    env = {**os.environ, "LAUNCHERS_SESSION": str(os.getsid(0)), **env}
    given = Order(argv=("-m", "the_trainer", *arguments), env=env, stdout=write_end, stderr=write_end, lifeline=lifeline)
    return given, read_end

def run(start, *arguments, **env):
    '''A process from its start to its end: its output and its exit code.'''
    given, read_end = order(*arguments, **env)
    process = start(given)
    os.close(given.stdout)
    with open(read_end) as stream:
        said = stream.read()
    return said, process.wait()

def begin(start):
    '''A process that waits.'''
    given, read_end = order("wait")
    process = start(given)
    os.close(given.stdout)
    os.read(read_end, 5)
    return process

def say(**news):
    print(json.dumps(news), flush=True)

os.environ.pop("AWAY", None)
with fork_server(alone=True) as start:
    lifeline, ours = os.pipe()
    exec(sys.argv[1])
"""


@pytest.fixture
def launcher(tmp_path: Path) -> Callable[[str], Any]:
    """Starts a process that has a fork server, and does what a script says."""
    (tmp_path / "the_trainer.py").write_text(TRAINER)
    (tmp_path / "the_launcher.py").write_text(LAUNCHER)
    (tmp_path / "folder").mkdir()
    path = os.pathsep.join(["/nowhere", str(tmp_path), *filter(None, sys.path)])
    env = os.environ | {"PYTHONPATH": path, "MARK": "of the launcher", "OMP_NUM_THREADS": "3"}
    return lambda script: Forked("the_launcher", [script, str(tmp_path / "folder")], env)


@pytest.fixture
def told(launcher: Callable[[str], Forked]) -> Callable[[str], dict[str, Any]]:
    """Runs a script in such a process to a good end; returns what it says."""

    def tell(script: str) -> dict[str, Any]:
        process = launcher(script)
        try:
            said, errors = process.stdout.read(), process.stderr.read()
            assert process.wait(PATIENCE_S) == 0, errors
            news: dict[str, Any] = json.loads(said)
            return news
        finally:
            process.kill()
            process.wait(PATIENCE_S)
            process.close()

    return tell


def gone(pid: int) -> bool:
    """Whether a process has ended, or will not run again."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(*pids: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while not all(map(gone, pids)):
        assert time.monotonic() < end, f"of {pids} some still run"
        time.sleep(0.01)


def test_a_forked_process_sees_what_a_fresh_interpreter_sees(told: Tell, tmp_path: Path) -> None:
    env = "RANK='7', MARK='its own', OMP_NUM_THREADS='2', ODD=chr(0xDC80)"
    news = told(f"say(forked=run(start, 'facts', {env}), fresh=run(fresh, 'facts', {env}))")
    assert news["forked"][1] == news["fresh"][1] == 0, news
    forked, interpreted = (json.loads(news[how][0]) for how in ("forked", "fresh"))
    assert forked == interpreted
    assert forked["environment"]["MARK"] == "its own"
    assert forked["arguments"] == ["facts"]
    assert forked["leads"]
    assert forked["comm"] == "halohop rank 7\n"
    assert forked["path"] == forked["folder"] == str(tmp_path / "folder")


def test_it_shares_what_was_imported_and_has_threads_of_its_own(told: Tell) -> None:
    said, code = told("torch.set_num_threads(4); say(news=run(start, 'shares', OMP_NUM_THREADS='2'))")["news"]
    sizes, done = map(json.loads, said.splitlines())
    assert code == 0
    assert sizes["threads"] == 2
    assert int(sizes["Rss:"]) > 100 * 1024
    assert int(sizes["Private_Dirty:"]) < 30 * 1024  # kB
    assert done == {"sum": 1e6}


def test_kernels_are_ready_before_it_forks(told: Tell) -> None:
    """Or each trainer would load its own."""
    ready = "len(cpu_hops.go_hops.signatures), len(cpu_sample.draw_few.signatures)"
    assert min(told(f"from halohop.ops import cpu_hops, cpu_sample; say(news=[{ready}])")["news"]) > 0


def test_random_numbers_differ_between_processes_that_set_no_seed(told: Tell) -> None:
    news = told("torch.rand(1); say(draws=[run(start, 'draws') for _ in range(2)])")["draws"]
    (first, second), codes = [json.loads(said) for said, _ in news], [code for _, code in news]
    assert codes == [0, 0]
    assert [one == other for one, other in zip(first, second, strict=True)] == [False] * 3


def test_it_has_no_more_threads_than_its_launcher_may_use(told: Tell) -> None:
    script = "torch.set_num_threads(1); say(news=run(start, 'shares', OMP_NUM_THREADS='2'))"
    said, code = told(script)["news"]
    assert (code, json.loads(said.splitlines()[0])["threads"]) == (0, 1)


def test_it_ends_as_an_interpreter_does(told: Tell) -> None:
    ends = {
        "late": ("a thread\nthe end\n", 0),
        "exit 3": ("", 3),
        "exit trouble": ("trouble\n", 1),
        "error": ("LookupError: no such luck\n", 1),
        "signal": ("", -signal.SIGTERM),
    }
    news = told(f"say(news=[run(start, 'end', *how.split()) for how in {[*ends]}])")["news"]
    assert [(said[said.rfind("LookupError") :] if "Traceback" in said else said, code) for said, code in news] == [*ends.values()]


def test_when_the_server_is_killed_so_are_its_processes_and_the_launcher_says_so(told: Tell) -> None:
    news = told(
        """
process = begin(start)
(server,) = [int(line.split()[1]) for line in open(f"/proc/{process.pid}/status") if line.startswith("PPid:")]
os.kill(server, signal.SIGKILL)
code = process.wait()
try:
    begin(start)
except Exception as error:
    say(code=code, error=repr(error), pid=process.pid)
"""
    )
    assert news["code"] == -signal.SIGKILL
    assert "ClusterError" in news["error"]
    assert "was killed" in news["error"]
    wait_until_gone(news["pid"])


def test_everything_ends_with_the_launcher(launcher: Callable[[str], Forked]) -> None:
    process = launcher("first, second = begin(start), begin(start); say(pids=[first.pid, second.pid]); first.wait()")
    try:
        pids = json.loads(process.stdout.readline())["pids"]
        status = Path(f"/proc/{pids[0]}/status").read_text()
        (server,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:")]
        process.kill()
        process.wait(PATIENCE_S)
        wait_until_gone(server, *pids)
    finally:
        process.close()


def test_a_process_that_is_not_alone_does_not_fork() -> None:
    with forking.fork_server(alone=False) as start:
        assert start is fresh


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_get_fresh_interpreters(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with forking.fork_server(alone=True) as start:
        assert start is fresh


def test_a_process_that_has_used_a_gpu_does_not_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    with forking.fork_server(alone=True) as start:
        assert start is fresh


def test_an_old_kernel_gets_fresh_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(38, os.strerror(38))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with forking.fork_server(alone=True) as start:
        assert start is fresh
