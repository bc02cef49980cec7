"""One launch at a time in a run folder."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from halohop.errors import InputError
from halohop.files.aside import writing

LOCK = "launch.lock"


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """No other launch begins in a run folder while the context lasts, wherever it runs that sees the folder.

    Raises:
        InputError: another one is running there.
        WriteError: the folder cannot be written.
    """
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        file = (out / LOCK).open("ab")
    with file:
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"another launch is running in {out}; wait until it has ended, or choose another folder"
                ) from None
        yield
