"""Processes that begin with everything imported: importing torch and PyG takes seconds, forking from who has them none."""

import atexit
import faulthandler
import multiprocessing
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from subprocess import CompletedProcess
from typing import IO

_IMPORTED = ("halohop.recipes.train", "halohop.recipes.inference")
"""Modules that a trainer imports, and their own."""


def forkserver() -> ForkServerContext:
    """Starts processes that have imported `halohop.recipes`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_IMPORTED))
    return context


class Forked:
    """``python -m MODULE ARGUMENTS``, forked from a process that has imported `halohop.recipes`. Its output comes by pipes.

    All that imports read of the environment (such as OMP_NUM_THREADS) is that of the process that began first.

    Args:
        module: what to run as ``__main__``; "-c" for a script, which is the first argument then.
        arguments: its command line.
        env: the whole environment.
        cwd: the folder that it works in; that of the process that began first unless given.
        stdin: whether it reads what is written to its `stdin`.

    Example:
        >>> process = Forked("platform", [], os.environ)
        >>> platform = process.stdout.read()
        >>> process.wait(60)
        0
        >>> process.close()
    """

    def __init__(
        self, module: str, arguments: Sequence[str], env: Mapping[str, str], *, cwd: Path | None = None, stdin: bool = False
    ) -> None:
        context = forkserver()
        given, out, err = (context.Pipe(duplex=False) for _ in range(3))
        standard = {0: given[0]} if stdin else {}
        standard |= {1: out[1], 2: err[1]}
        self._process = context.Process(target=_run, args=(module, tuple(arguments), dict(env), cwd, standard))
        self._process.start()
        self.stdin, self.stdout, self.stderr = _text(given[1], given[0], "w"), _text(*out), _text(*err)

    @property
    def pid(self) -> int:
        """The number that the system gave it."""
        assert self._process.pid is not None
        return self._process.pid

    def wait(self, timeout: float) -> int:
        """Its exit code; negative for the signal that ended it. It must end within so many seconds."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"process {self.pid} runs on after {timeout:.0f} s"
        return self._process.exitcode

    def show_stacks(self) -> None:
        """Lets it write where its threads stand to its standard error, if it still runs."""
        if self._process.is_alive():
            os.kill(self.pid, signal.SIGUSR1)
            self._process.join(1.0)

    def send_signal(self, number: int) -> None:
        """Sends it a signal, if it still runs."""
        if self._process.is_alive():
            os.kill(self.pid, number)

    def stop(self, timeout: float = 60.0) -> None:
        """Stops it by SIGSTOP, and waits until each of its threads has stopped."""
        self.send_signal(signal.SIGSTOP)
        tasks, deadline = Path(f"/proc/{self.pid}/task"), time.monotonic() + timeout
        while not all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in tasks.glob("*/stat")):
            assert time.monotonic() < deadline, f"process {self.pid} runs on after SIGSTOP"
            threading.Event().wait(0.01)

    def kill(self) -> None:
        """Ends it by SIGKILL, if it still runs."""
        self._process.kill()

    def finish(self, timeout: float = 60) -> CompletedProcess[str]:
        """Waits for its end, and closes it: its exit code and what it wrote."""
        with closing(self):
            try:
                output, errors = self.stdout.read(), self.stderr.read()
                return CompletedProcess((), self.wait(timeout), output, errors)
            finally:
                self.kill()
                self.wait(60)

    def close(self) -> None:
        """Gives its descriptors back; it must have ended."""
        self.stdin.close()
        self.stdout.close()
        self.stderr.close()
        self._process.close()


def run_script(script: str, *arguments: str, env: Mapping[str, str] = os.environ) -> CompletedProcess[str]:
    """``python -c SCRIPT ARGUMENTS``, forked, when it has ended: its exit code and what it wrote."""
    return Forked("-c", [script, *arguments], env).finish()


def _text(ours: Connection, theirs: Connection, mode: str = "r") -> IO[str]:
    """Our end of a pipe as lines of text; the other end is the process's alone."""
    theirs.close()
    stream = os.fdopen(os.dup(ours.fileno()), mode, buffering=1)
    ours.close()
    return stream


def _run(module: str, arguments: tuple[str, ...], env: dict[str, str], cwd: Path | None, standard: dict[int, Connection]) -> None:
    for descriptor, connection in standard.items():
        os.dup2(connection.fileno(), descriptor)
        connection.close()
    if 0 in standard:
        sys.stdin = os.fdopen(0, closefd=False)
    faulthandler.register(signal.SIGUSR1, file=2)
    if cwd is not None:
        os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [folder for folder in env.get("PYTHONPATH", "").split(os.pathsep) if folder and folder not in sys.path]
    sys.argv[1:] = arguments
    sys.modules.pop(module, None)  # it runs as __main__
    try:
        if module == "-c":
            sys.argv = ["-c", *arguments[1:]]
            exec(compile(arguments[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # as at the end of any other process
