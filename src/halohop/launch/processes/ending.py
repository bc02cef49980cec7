"""Ends a process as Python does, except that the interpreter is not finalized.

Finalization is what can fail: it searches a million objects of libraries for garbage, libraries report what they still hold as
leaked, and a thread of torch's process group that releases a tensor at that moment aborts the process.
"""

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn


def end_after(work: Callable[[], object]) -> NoReturn:
    """Does `work` as the main program of this process, and ends the process with the exit code that Python would give it.

    Threads are joined, functions of `atexit` are called, and the standard streams are flushed.
    """
    code = _exit_code(work)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    os._exit(_exit_code(_flush) or code)


def _exit_code(work: Callable[[], object]) -> int:
    try:
        work()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
