"""Ends a process as Python does, except that the interpreter is not finalized.

Finalization is what can fail: it searches a million objects of libraries for garbage, libraries report what they still hold as
leaked, and a thread of torch's process group that releases a tensor at that moment aborts the process.
"""

import atexit
import gc
import io
import os
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn


def end_after(work: Callable[[], object]) -> NoReturn:
    """Does `work` as the main program of this process, and ends the process with the exit code that Python would give it.

    Threads are joined, functions of `atexit` are called, and the standard streams are flushed.
    """
    code = _exit_code(work)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    lost = [_exit_code(partial(_flush, stream)) for stream in (sys.stdout, sys.stderr)]
    os._exit(max(lost) or code)


def _exit_code(work: Callable[[], object]) -> int:
    try:
        work()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def flush_files() -> None:
    """Flushes the regular files that a program has left open, as finalization does."""
    for file in gc.get_objects():
        if issubclass(type(file), (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)):
            with suppress(OSError, ValueError, AttributeError):  # a closed file, or one that is not whole
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe may take for ever
                    file.flush()


def _flush(stream: Any) -> None:
    if stream is not None and not getattr(stream, "closed", False):
        stream.flush()
