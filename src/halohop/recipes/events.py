"""What a run tells of itself: events, a line of JSON each in ``metrics.jsonl``."""

import fcntl
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from halohop import World
from halohop.errors import InputError
from halohop.files import decode_json, read_regular, writing
from halohop.recipes.names import METRICS

Event = dict[str, Any]

_LOG = logging.getLogger(__name__)


def print_event(event: Event) -> None:
    """Prints an event as one line of JSON in ASCII, at once."""
    print(json.dumps(msgspec.json.decode(msgspec.json.encode(event)), separators=(",", ":")), flush=True)


class EventLog:
    """What rank 0 does with an event: a line of ``metrics.jsonl``, and the callback. Other ranks only log it.

    Call it with every event, once `begin` or `go_on` has opened the file; use it as a context manager.

    Args:
        out: folder of the run.
        world: this trainer's place.
        on_event: is called with every event, those of before a resumption included.
    """

    def __init__(self, out: str, world: World, on_event: Callable[[Event], None]) -> None:
        self._path = Path(out) / METRICS
        self._writes = world.rank == 0
        self._on_event = on_event
        self._file: IO[bytes] | None = None

    def begin(self, clear: Callable[[], None] = lambda: None) -> None:
        """Opens a new file. `clear` removes what else another run left, before the log that says whose it is.

        Raises:
            InputError: another run is writing it.
            WriteError: it cannot be written, then or later.
        """
        if self._writes:
            self._file = self._open()
            clear()
            with writing(self._path):
                self._file.truncate(0)

    def go_on(self, size: int) -> None:
        """Opens the file of an interrupted run and cuts it to `size` bytes: what came later will happen again. Raises as
        `begin`."""
        if not self._writes:
            return
        self._file = self._open()
        known = read_regular(self._path)[:size]
        known = known[: known.rfind(b"\n") + 1]  # a crash of the machine may have taken its end along
        with writing(self._path):
            self._file.truncate(len(known))
            self._file.seek(0, os.SEEK_END)
        for line in known.splitlines():
            event: Event = decode_json(line, self._path, Event)
            self._on_event(event)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.tell() if self._file else 0

    def __call__(self, event: Event) -> None:
        level = logging.DEBUG if event["event"] == "step" else logging.INFO
        _LOG.log(level, "%s", ", ".join(f"{name} {value}" for name, value in event.items() if _short(value)))
        if self._file is not None:
            line = msgspec.json.encode(event) + b"\n"
            with writing(self._path):
                while line:
                    line = line[self._file.write(line) :]
            self._on_event(event)

    def _open(self) -> IO[bytes]:
        """The file for appending, which no other run that lives is writing."""
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("ab", buffering=0)  # so that nothing is left to write when it is closed on a full disk
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InputError(f"another run is writing {self._path}; wait until it has ended, or choose another folder") from None
        except OSError:
            return file  # a file system without locks
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()


def _short(value: object) -> bool:
    return isinstance(value, str | int | float)
