"""A child that outlives its launcher ends itself: both hold a pipe, and its end of file is the news.

It also works when the launcher is killed with a signal that cannot be caught, because the kernel closes its end.
"""

import os
import signal
import threading
from collections.abc import Callable, Mapping

from halohop.errors import InputError
from halohop.linux import kill_on_end_of_file

PARENT_FD = "HALOHOP_PARENT_FD"
"""Environment variable with the number of the inherited read end."""


def hold(env: Mapping[str, str] | None = None, *, on_loss: Callable[[], object] | None = None) -> threading.Thread | None:
    """Watches the launcher from a daemon thread.

    Args:
        env: where HALOHOP_PARENT_FD is looked up; None takes this process's environment.
        on_loss: what to do when the launcher is gone; None ends this process and whatever it started.

    Returns:
        The watching thread, or None where no launcher said that it wants to be watched.

    Raises:
        InputError: the variable is no number of an open descriptor.

    Example:
        >>> read_end, write_end = os.pipe()
        >>> seen = []
        >>> watcher = hold({PARENT_FD: str(read_end)}, on_loss=lambda: seen.append("the launcher is gone"))
        >>> os.close(write_end)
        >>> watcher.join(10)
        >>> seen
        ['the launcher is gone']
    """
    text = (os.environ if env is None else env).get(PARENT_FD)
    if text is None:
        return None
    try:
        descriptor = int(text)
        os.set_inheritable(descriptor, False)  # our own children must not be taken for the launcher's
    except (ValueError, OSError) as error:
        raise InputError(f"{PARENT_FD}={text!r} is no open descriptor; it is the launcher's to set, unset it") from error
    if on_loss is None:
        # The kernel does what `end_group` does, also while foreign code holds Python's lock and no thread runs.
        kill_on_end_of_file(descriptor, -os.getpid() if os.getpgrp() == os.getpid() else os.getpid())
    watcher = threading.Thread(target=_watch, args=(descriptor, on_loss or end_group), name="halohop-lifeline", daemon=True)
    watcher.start()
    return watcher


def end_group() -> None:
    """Ends this process at once, and with it its process group if it leads one."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _watch(descriptor: int, on_loss: Callable[[], object]) -> None:
    while os.read(descriptor, 1):
        pass  # nothing is written; only the end of file means something
    os.close(descriptor)
    on_loss()
