"""What a run tells of itself: events, a line of JSON each in ``metrics.jsonl``."""

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from halohop.world import World

Event = dict[str, Any]

METRICS = "metrics.jsonl"


class EventLog:
    """What rank 0 does with an event: a line of ``metrics.jsonl``, and the callback. Other ranks do nothing.

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

    def begin(self) -> None:
        """Opens a new file."""
        if self._writes:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("wb")

    def go_on(self, size: int) -> None:
        """Opens the file of an interrupted run and cuts it to `size` bytes: what came later will happen again."""
        if not self._writes:
            return
        known = self._path.read_bytes()[:size] if self._path.is_file() else b""
        known = known[: known.rfind(b"\n") + 1]  # a crash of the machine may have taken its end along
        self._file = self._path.open("ab")
        self._file.truncate(len(known))
        self._file.seek(0, os.SEEK_END)
        for line in known.splitlines():
            self._on_event(msgspec.json.decode(line))

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.tell() if self._file else 0

    def __call__(self, event: Event) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(event) + b"\n")
            self._file.flush()
            self._on_event(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
