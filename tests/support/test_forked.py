"""Forked processes behave as `python -m` does."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.forked import Forked

SAYS = """
import atexit, os, sys
atexit.register(print, "the end")
print(__name__, sys.argv[1:], os.environ["SECRET"], "HOME" in os.environ)
print("trouble", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""
FAILS = "raise LookupError('no such luck')"
WAITS = "import threading; print('here', flush=True); threading.Event().wait(60)"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    for name, text in (("says", SAYS), ("fails", FAILS), ("waits", WAITS)):
        (tmp_path / f"module_that_{name}.py").write_text(text)
    return {"PYTHONPATH": str(tmp_path), "SECRET": "42"}


@contextmanager
def forked(module: str, arguments: list[str], env: dict[str, str]) -> Iterator[Forked]:
    with closing(Forked(module, arguments, env)) as process:
        yield process
        process.kill()
        process.wait(60)


@pytest.mark.parametrize("code", [0, 3])
def test_arguments_environment_output_and_exit_code(env: dict[str, str], code: int) -> None:
    with forked("module_that_says", [str(code), "more"], env) as process:
        assert process.stdout.read().splitlines() == [f"__main__ ['{code}', 'more'] 42 False", "the end"]
        assert process.stderr.read() == "trouble\n"
        assert process.wait(60) == code


def test_an_error_is_a_traceback(env: dict[str, str]) -> None:
    with forked("module_that_fails", [], env) as process:
        assert process.wait(60) == 1
        assert process.stderr.read().splitlines()[-1] == "LookupError: no such luck"


def test_killed_or_waited_for_in_vain(env: dict[str, str]) -> None:
    with forked("module_that_waits", [], env) as process:
        assert process.stdout.readline() == "here\n"
        with pytest.raises(AssertionError, match=f"process {process.pid} runs on"):
            process.wait(0.01)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM


def test_a_script_that_reads_what_it_is_written(env: dict[str, str]) -> None:
    script = "import sys; print(__name__, sys.argv, input(), sys.stdin.read())"
    with closing(Forked("-c", [script, "one"], env, stdin=True)) as process:
        process.stdin.write("a line\n")
        process.stdin.close()
        assert process.stdout.read() == "__main__ ['-c', 'one'] a line \n"
        assert process.wait(60) == 0


def test_stopped_until_it_goes_on(env: dict[str, str]) -> None:
    with closing(Forked("-c", ["print(input())"], env, stdin=True)) as process:
        process.stop()
        process.stdin.write("on\n")
        assert not select.select([process.stdout], [], [], 0.2)[0]
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == "on\n"
        assert process.wait(60) == 0
