"""Processes that begin with everything imported: importing torch and PyG takes seconds, forking from who has them none."""

import atexit
import faulthandler
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
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
        module: what to run as ``__main__``.
        arguments: its command line.
        env: the whole environment.
        cwd: the folder that it works in; that of the process that began first unless given.

    Example:
        >>> process = Forked("platform", [], os.environ)
        >>> platform = process.stdout.read()
        >>> process.wait(60)
        0
        >>> process.close()
    """

    def __init__(self, module: str, arguments: Sequence[str], env: Mapping[str, str], *, cwd: Path | None = None) -> None:
        context = forkserver()
        out, err = context.Pipe(duplex=False), context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(module, tuple(arguments), dict(env), cwd, out[1], err[1]))
        self._process.start()
        self.stdout, self.stderr = _text(out), _text(err)

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

    def kill(self) -> None:
        """Ends it by SIGKILL, if it still runs."""
        self._process.kill()

    def close(self) -> None:
        """Gives its descriptors back; it must have ended."""
        self.stdout.close()
        self.stderr.close()
        self._process.close()


def _text(pipe: tuple[Connection, Connection]) -> IO[str]:
    """The reading end as text; the writing end is the process's alone."""
    reader, writer = pipe
    writer.close()
    stream = os.fdopen(os.dup(reader.fileno()))
    reader.close()
    return stream


def _run(
    module: str, arguments: tuple[str, ...], env: dict[str, str], cwd: Path | None, out: Connection, err: Connection
) -> None:
    for connection, descriptor in ((out, 1), (err, 2)):
        os.dup2(connection.fileno(), descriptor)
        connection.close()
    faulthandler.register(signal.SIGUSR1, file=2)
    if cwd is not None:
        os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [folder for folder in env.get("PYTHONPATH", "").split(os.pathsep) if folder and folder not in sys.path]
    sys.argv[1:] = arguments
    sys.modules.pop(module, None)  # it runs as __main__
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # as at the end of any other process
