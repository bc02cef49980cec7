"""Commands and trainers end as Python programs do, but without finalization, in which libraries complain or abort."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = """
import ctypes, os

if os.environ["WHERE"] in os.environ:
    ctypes.pythonapi.Py_AtExit(ctypes.CDLL(None).abort)
"""
"""Aborts the process in finalization, when C++ libraries report what was not released, and their threads may abort it."""

SMALL = ["--epochs", "1", "--fanout", "3,2", "--hidden", "8"]


def run(*command: str | Path, folder: Path, where: str = "PATH") -> subprocess.CompletedProcess[str]:
    """Runs Python with a library that aborts processes whose environment has the variable `where` in their finalization."""
    (folder / "sitecustomize.py").write_text(LIBRARY)
    return subprocess.run(
        [sys.executable, *command],
        env=os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "WHERE": where},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def test_the_library_aborts_any_other_program(tmp_path: Path) -> None:
    assert run("-c", "pass", folder=tmp_path).returncode == -signal.SIGABRT


def test_a_command_is_not_finalized(tmp_path: Path) -> None:
    done = run("-m", "halohop", "--version", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("halohop ")


@pytest.mark.full
def test_training_ends_with_nothing_on_standard_error(tmp_path: Path) -> None:
    done = run("-m", "halohop", "-q", "train", "synthetic:tiny", *SMALL, "--out", "run", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.full
def test_torchrun_starts_the_same_run_whose_ranks_are_not_finalized(tiny_parts: Path, tmp_path: Path) -> None:
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "halohop")
    done = run(*torchrun, "train", tiny_parts, *SMALL, "--out", "run", folder=tmp_path, where="RANK")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test accuracy") == 1
    assert json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])["ranks"] == 2


SCRIPT = """
import atexit, sys, threading

atexit.register(print, "a function of atexit")
threading.Thread(target=lambda: (threading.main_thread().join(), print("a thread"))).start()
sys.stdout.write("no end of line, ")
{end}
"""


@pytest.mark.parametrize(
    ("end", "code", "errors"),
    [
        ("", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('a word')", 1, "a word\n"),
        ("raise ValueError('a fault')", 1, "ValueError: a fault\n"),
        ("sys.exit(('a', 'tuple'))", 1, "('a', 'tuple')\n"),
        ("sys.stdout.flush(); sys.stderr.close()", 0, ""),
    ],
)
def test_threads_exit_functions_and_exit_codes_are_those_of_python(end: str, code: int, errors: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(end=end))
    done = run("-m", "halohop.launch.processes.child", "script.py", folder=tmp_path)
    expected = run("script.py", folder=tmp_path, where="nowhere")
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
    assert (done.returncode, done.stdout) == (code, "no end of line, a thread\na function of atexit\n")
    assert done.stderr.endswith(errors)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_output_that_is_lost_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys; sys.stdout = open('/dev/full', 'w'); print('lost')")
    done = run("-m", "halohop.launch.processes.child", "script.py", folder=tmp_path)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr


def test_a_stream_that_the_program_closed_is_not_a_failure(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys; sys.stdout = open('out', 'w'); print('kept'); sys.stdout.close()")
    done = run("-m", "halohop.launch.processes.child", "script.py", folder=tmp_path)
    assert (done.returncode, done.stderr, (tmp_path / "out").read_text()) == (0, "", "kept\n")


FILES = """
import os, types
modules = types.ModuleType("log")
modules.text, modules.raw = open("text", "w"), open("raw", "wb")
modules.text.write("kept")
modules.raw.write(b"kept")
modules.self = modules  # a cycle, which only finalization takes apart
reading, writing = os.pipe()
modules.pipe = os.fdopen(writing, "wb", buffering=1 << 20)
modules.pipe.write(b"0" * ((1 << 20) - 1))  # more than the pipe takes: flushing it would wait for ever
"""


def test_files_that_a_program_leaves_open_are_flushed_and_pipes_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(FILES)
    done = run("-m", "halohop.launch.processes.child", "script.py", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [(tmp_path / name).read_text() for name in ("text", "raw")] == ["kept", "kept"]
