"""A signal ends a command with one line and exit code 128 + its number, at any moment."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from halohop.recipes.stopping import EXIT_RESUMABLE
from tests.support.deadlines import within

PATIENCE_S = 100
HALOHOP = [sys.executable, "-m", "halohop"]
LINES = {signal.SIGINT: "halohop: interrupted\n", signal.SIGTERM: "halohop: terminated\n"}

SCRIPT = """
import ctypes, os, signal, sys, threading
from halohop.launch.terminal import signals

signals.GRACE_S = 0.3

class Garbage:
    def __del__(self):
        ready()

def ready():
    os.kill(os.getpid(), int(sys.argv[1]))
    print("interrupted", flush=True)

with signals.Signals() as answers:
    {starting}
    with answers.working():
        try:
            {working}
        finally:
            print("undone", flush=True)
{ended}
"""


def said(kind: signal.Signals, *, starting: str = "pass", working: str = "pass", ended: str = "") -> tuple[int, str, str]:
    """Exit code, output and standard error of a script with statements for each stage of a command."""
    script = SCRIPT.format(starting=starting, working=working, ended=ended)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, str(int(kind))]  # of forks beside threads
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("kind", LINES)
def test_before_the_command_begins_the_process_ends_at_once(kind: signal.Signals) -> None:
    assert said(kind, starting="ready()") == (128 + kind, "", LINES[kind])


@pytest.mark.parametrize("kind", LINES)
def test_a_command_undoes_what_it_has_begun(kind: signal.Signals) -> None:
    assert said(kind, working="ready()") == (128 + kind, "undone\n", LINES[kind])


@pytest.mark.parametrize(
    ("working", "output"),
    [
        ("exec('try: ready()\\nexcept BaseException as error: raise ImportError(1) from error')", "undone\n"),  # a library's own
        ("Garbage(); threading.Event().wait(60)", "undone\n"),  # a finalizer swallows it, so it is raised again
        ("exec('try: ready()\\nexcept BaseException: ready()')", "interrupted\nundone\n"),  # a second signal changes nothing
        ("exec('try: ready()\\nexcept BaseException: threading.Event().wait(60)')", ""),  # too slow: ended by force
    ],
)
def test_whatever_libraries_make_of_it(working: str, output: str) -> None:
    assert said(signal.SIGINT, working=working) == (130, output, LINES[signal.SIGINT])


def test_an_import_is_not_interrupted(tmp_path: Path) -> None:
    """C++ that is being initialised aborts at an exception of Python's."""
    (tmp_path / "signalled.py").write_text("import __main__\n__main__.ready()\nprint('imported', flush=True)\n")
    working = f"sys.path.insert(0, {str(tmp_path)!r}); import signalled; threading.Event().wait(60)"
    assert said(signal.SIGTERM, working=working) == (143, "interrupted\nimported\nundone\n", LINES[signal.SIGTERM])


def test_a_main_thread_in_foreign_code_does_not_keep_the_process() -> None:
    lock = "ctypes.CDLL(None).pthread_mutex_lock(mutex)"  # the second one waits for ever, whatever signals come
    working = f"threading.Timer(0.1, ready).start(); mutex = ctypes.create_string_buffer(64); {lock}; {lock}"
    assert said(signal.SIGTERM, working=working) == (143, "interrupted\n", LINES[signal.SIGTERM])


def test_what_a_finished_command_returned_stays() -> None:
    assert said(signal.SIGTERM, ended="ready()") == (0, "undone\ninterrupted\n", "")


def test_what_is_ignored_stays_ignored() -> None:
    done = subprocess.run(
        ["nohup", sys.executable, "-c", SCRIPT.format(starting="ready()", working="pass", ended=""), str(int(signal.SIGHUP))],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\nundone\n")


def test_a_forked_child_is_not_the_command() -> None:
    """Its signals are its own: they end it as the system does, and its parent hears nothing of them."""
    fork = "pid = os.fork(); pid or ready(); assert os.waitpid(pid, 0)[1] == signal.SIGTERM; threading.Event().wait(0.5)"
    assert said(signal.SIGTERM, working=fork) == (0, "undone\n", "")


def answers(pid: int) -> bool:
    """Whether a process catches SIGTERM: from then on it is ours to end."""
    try:
        caught = re.search(r"SigCgt:\s+(\w+)", Path(f"/proc/{pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return False
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def marked(mark: str) -> list[int]:
    """Processes whose environment has this mark, zombies aside."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in file.read_text(errors="replace"):
                found.append(int(file.parent.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def commands(parts: Path, out: Path) -> dict[str, list[str | Path]]:
    """Commands that never end by themselves, or late, by their names."""
    endless = ["--epochs", "100000", "--patience", "0", "--fanout", "3,2", "--hidden", "8", "--method", "random"]
    return {
        "train": ["train", parts, "--nodes", "2", *endless, "--out", out / "run"],
        "source": ["train", "synthetic:tiny", "--nodes", "2", *endless, "--out", out / "run"],
        "partition": ["partition", "synthetic:medium", out / "parts", "--method", "random"],
        "serve": ["serve", parts, "--listen", "127.0.0.1:0"],
        "infer": ["infer", "127.0.0.1:9", "--checkpoint", out, "--fanout", "2", "--out", out / "predictions"],
        "top": ["top", "127.0.0.1:9"],
    }


def interrupt(arguments: list[str | Path], delay: float, kind: signal.Signals, *, group: bool) -> None:
    """Starts a command, sends it a signal `delay` seconds after it began to answer signals, and looks at what is left of it."""
    mark = f"HALOHOP_TEST_MARK={os.getpid()}-{time.monotonic_ns()}"
    env = os.environ | dict([mark.split("=")])
    with subprocess.Popen(
        [*HALOHOP, *map(str, arguments)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as command:
        while not answers(command.pid):
            assert command.poll() is None
            time.sleep(0.001)
        time.sleep(delay)
        (os.killpg if group else os.kill)(command.pid, kind)
        sent = time.monotonic()
        _, errors = command.communicate(timeout=PATIENCE_S)
        took = time.monotonic() - sent
    case = f"{arguments[0]} after {delay:.2f} s, {kind.name}{' to its group' if group else ''}: {errors}"
    if arguments[0] == "partition" and command.returncode == 0:  # it had ended before the signal
        return
    saved = kind == signal.SIGTERM and "asked to end, and saved" in errors
    assert command.returncode == (EXIT_RESUMABLE if saved else 128 + kind), case
    assert errors.endswith(LINES[kind]), case
    assert "Traceback" not in errors, case
    assert "Exception" not in errors, case
    assert took < within(6), case
    end = time.monotonic() + within(3)
    while left := marked(mark):
        assert time.monotonic() < end, f"{left} still run: {case}"
        time.sleep(0.01)


def leftovers(out: Path) -> list[str]:
    return [str(path) for path in out.rglob("*") if re.search(r"partial|replaced|\.new$", path.name)]


@pytest.mark.parametrize("name", ["train", "serve", "partition"])
def test_commands_end_at_random_moments(name: str, tiny_parts: Path, tmp_path: Path) -> None:
    """Mostly during their imports; the soak goes on for longer."""
    chance = random.Random(name)
    interrupt(commands(tiny_parts, tmp_path)[name], chance.uniform(0, 3), chance.choice([*LINES]), group=chance.random() < 0.5)
    assert leftovers(tmp_path) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_all_commands_end_at_many_random_moments(tiny_parts: Path, tmp_path: Path) -> None:
    chance = random.Random(0)
    for round_ in range(60):
        out = tmp_path / str(round_)
        every = commands(tiny_parts, out)
        name = chance.choice([*every])
        interrupt(every[name], chance.uniform(0, 15), chance.choice([*LINES]), group=chance.random() < 0.5)
        assert leftovers(out) == []
