"""How one process of a run is started: what it is to be, and a fresh interpreter for it."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from halohop.launch.processes.lifeline import PARENT_FD
from halohop.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A process to start. It leads a process group of its own, and reads nothing.

    Args:
        argv: what follows the interpreter: a script and its arguments, or ``-m``, a module and its arguments.
        env: its whole environment.
        folder: its working directory; None: the launcher's.
        stdout, stderr, lifeline: descriptors for it; they stay the caller's to close.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: str | None = None
    stdout: int
    stderr: int
    lifeline: int


class Process(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int:
        """Its number, and that of its group."""

    def wait(self) -> int:
        """Waits for its end; returns its exit code as `subprocess` counts: negative for a signal."""


Start = Callable[[Order], Process]

CHILD = ("-m", "halohop.launch.processes.child")
"""What follows an interpreter that runs a rank: the script or the module, with its arguments, comes behind."""

CORES = "HALOHOP_CORES"
"""Environment variable of a process that is to run on these cores only: their numbers, separated by commas."""


def take_cores() -> None:
    """Keeps this process, and the threads that it will start, to the cores that it was given, if it was given any."""
    given = os.environ.get(CORES)
    if given and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, map(int, given.split(",")))


def fresh(order: Order, python: str = sys.executable) -> Process:
    """Starts a new interpreter, which imports what it needs; works everywhere."""
    return subprocess.Popen(
        [python, *CHILD, *order.argv],
        env={**order.env, PARENT_FD: str(order.lifeline)},
        cwd=order.folder,
        stdin=subprocess.DEVNULL,
        stdout=order.stdout,
        stderr=order.stderr,
        start_new_session=True,  # a group to end as one, and Ctrl-C reaches the launcher alone
        pass_fds=[order.lifeline],
    )


def is_launched(world: World) -> bool:
    """Whether this process is a rank that torchrun or another launcher has started, not one that starts ranks itself."""
    return world.size > 1 or "RANK" in os.environ
