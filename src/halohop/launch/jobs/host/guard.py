"""A process that only waits for the runner, so that a runner that is killed leaves nothing behind, either.

Both are child subreapers. Where the runner ends, for whatever reason, the guard ends all that is left; where the guard is killed,
the runner ends all that it started.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from halohop.launch.jobs.host.descendants import end_all
from halohop.launch.processes.lifeline import PARENT_FD, hold
from halohop.linux import adopt_orphans, name_process


def guarded(run: Callable[[], int]) -> int:
    """Runs a function in a forked process; nothing that it starts outlives it.

    Args:
        run: returns the exit code. No thread has been started before.

    Returns:
        The exit code of the process: that of `run`, or 128 + the number of the signal that killed it.
    """
    if sys.platform != "linux":
        sys.exit(f"hosts of halohop launch need Linux, got {sys.platform}; use halohop train on this host")
    adopt_orphans()
    read_end, write_end = os.pipe()
    runner = os.fork()
    if runner == 0:
        os.close(write_end)
        os._exit(_run(run, read_end))
    name_process("halohop guard")
    os.close(read_end)
    _answer(lambda number, frame: os.kill(runner, number))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # the runner's alone: their ends mean something
        os.dup2(null, stream)
    os.close(null)
    code = os.waitstatus_to_exitcode(os.waitpid(runner, 0)[1])
    end_all()
    return code if code >= 0 else 128 - code


def _run(run: Callable[[], int], lifeline: int) -> int:
    adopt_orphans()
    name_process("halohop host")
    hold({PARENT_FD: str(lifeline)}, on_loss=end)
    _answer(lambda number, frame: end())
    return run()


def _answer(terminate: Callable[[int, FrameType | None], object]) -> None:
    """Answers signals: a request to terminate by a function, the terminal's by nothing, since the launcher says when it is over.

    Ignored signals would stay ignored in the processes that are started.
    """
    signal.signal(signal.SIGTERM, terminate)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: None)


def end() -> None:
    """Ends all that this process started, and the process itself."""
    end_all()
    os._exit(1)
