"""What the processes of a job print and how they end: logs of all hosts in the run folder, and the first failure by its name."""

import queue
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from halohop.errors import ClusterError, HalohopError
from halohop.files.aside import writing
from halohop.launch.jobs.host.channel import BEAT_S, SILENCE_S
from halohop.launch.jobs.host.messages import Begin, Output
from halohop.launch.jobs.ssh.crew import Crew
from halohop.launch.jobs.ssh.remote import Lost, Said
from halohop.launch.jobs.torchrun_log import lost_a_peer, rank_failure
from halohop.launch.processes.failures import TAIL_LINES, Failure, failure

READY_S = 600.0
"""Longest wait for servers: some compile kernels, or compare all files with their checksums."""
_SETTLE_S = 1.0
_READY = b"serving partitions "

Place = tuple[str, str]
"""A host and the name of a process there."""


Echo = Callable[[Place, bytes], None]
"""Gets each line of each process, without its end."""


class Watch:
    """Writes logs, and knows which processes are ready and which have ended; use it as a context manager.

    Args:
        crew: the hosts.
        logs: folder for ``HOST-NAME.log``.
        echo: shows lines to people.
    """

    def __init__(self, crew: Crew, logs: Path, echo: Echo) -> None:
        self._crew, self._logs, self._echo = crew, logs, echo
        self._files: dict[Place, IO[bytes]] = {}
        self._lines: dict[Place, bytes] = {}
        self.ready: set[Place] = set()
        self.ended: dict[Place, int] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        with writing(self._logs):
            self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._rest()
        self._undo.close()

    def begin(self, place: Place) -> None:
        """Starts a process.

        Raises:
            ClusterError: its host is lost.
            WriteError: its log cannot be written.
        """
        with writing(self._log(place)):
            self._files[place] = self._undo.enter_context(self._log(place).open("wb", buffering=0))
        self._crew.remotes[place[0]].send(Begin(name=place[1]))

    def until_ready(self, places: Collection[Place]) -> None:
        """Until servers answer; raises as `until_ended`, or that one does not answer in time."""
        deadline = time.monotonic() + READY_S
        while waiting := [place for place in places if place not in self.ready]:
            if not self._hear(deadline - time.monotonic()):
                raise ClusterError(f"{_names(waiting)} did not serve within {READY_S:g} s; see {self._log(waiting[0])}")
            if early := [place for place in waiting if place in self.ended]:
                raise ClusterError(f"{_names(early)} ended before serving; see {self._log(early[0])}")

    def until_ended(self, places: Collection[Place]) -> None:
        """Until processes have ended well.

        Raises:
            ClusterError: any process failed, or a host is lost; names it, and shows the end of its log.
        """
        while any(place not in self.ended for place in places):
            self._hear(None)

    def _rest(self) -> None:
        """Writes what has come while everything ended."""
        while not self._crew.news.empty():
            item = self._crew.news.get()
            if isinstance(item, Said) and isinstance(item.message, Output):
                self._print((item.host, item.message.name), item.message.data)
        for place in list(self._lines):
            self._show(place, b"", last=True)

    def _hear(self, seconds: float | None) -> bool:
        """Takes the next news; whether there was any in time."""
        try:
            item = self._crew.news.get(timeout=None if seconds is None else max(seconds, 0))
        except queue.Empty:
            return False
        failed = self._take(item)
        if failed:
            raise self._failure(failed)
        return True

    def _take(self, item: object) -> "Place | Lost | None":
        """Notes news; returns a process that failed, or a host that is lost."""
        if isinstance(item, Lost):
            return item
        assert isinstance(item, Said)
        place = (item.host, item.message.name)
        if isinstance(item.message, Output):
            self._print(place, item.message.data)
            return None
        self.ended[place] = item.message.code
        return place if item.message.code else None

    def _failure(self, first: "Place | Lost") -> HalohopError:
        """What to raise, once the other hosts had a moment to say what they saw."""
        self._echo = _show_nothing  # what follows are ends that we cause
        failed, lost = ([], [first]) if isinstance(first, Lost) else ([first], [])
        deadline = time.monotonic() + _SETTLE_S
        latest = deadline + SILENCE_S
        while (left := deadline - time.monotonic()) > 0:
            try:
                item = self._take(self._crew.news.get(timeout=left))
            except queue.Empty:
                if not lost and time.monotonic() < latest and self._is_one_silent():
                    deadline = time.monotonic() + _SETTLE_S  # its loss may be what the others failed of
                continue
            if isinstance(item, Lost):
                lost.append(item)
            elif item is not None:
                failed.append(item)
        others = [f"{name} on {host}" for host, name in self._files if (host, name) not in self.ended]
        ended = f"; then the launcher ended {', '.join(others)}" if others else ""
        if lost:
            said = "; ".join(f"host {one.host}: {one.reason}" for one in lost)
            then = "".join(f"\nthen {name} on {host} failed; its log: {self._log((host, name))}" for host, name in failed)
            return ClusterError(f"{said}{then}{ended}")
        return failure(self._failures(failed), ended=others)

    def _failures(self, places: Collection[Place]) -> list[Failure]:
        """Of ranks where torchrun names them; processes that seem only to have lost a peer come last."""
        found = []
        for place in places:
            log, name = self._log(place), f"{place[1]} on {place[0]}"
            text = log.read_text(errors="replace")
            one = rank_failure(text)
            said = "\n".join(text.splitlines()[-TAIL_LINES:]) if one is None else one.said
            if one is None:
                failed = Failure(name=name, code=self.ended[place], log=log, error=None)
            else:
                failed = Failure(name=f"rank {one.rank} ({name})", code=one.code, log=log, error=None, said=said)
            found.append((lost_a_peer(said), failed))
        return [failed for _, failed in sorted(found, key=lambda pair: pair[0])]

    def _is_one_silent(self) -> bool:
        return any(remote.silent_s > 1.5 * BEAT_S for remote in self._crew.remotes.values())

    def _log(self, place: Place) -> Path:
        return self._logs / f"{place[0]}-{place[1]}.log"

    def _print(self, place: Place, data: bytes) -> None:
        with writing(self._log(place)):
            self._files[place].write(data)
        if _READY in self._lines.get(place, b"") + data:
            self.ready.add(place)
        self._show(place, data)

    def _show(self, place: Place, data: bytes, *, last: bool = False) -> None:
        *lines, self._lines[place] = (self._lines.get(place, b"") + data).split(b"\n")
        if last:
            lines = [line for line in (self._lines.pop(place),) if line]
        for line in lines:
            self._echo(place, line)


def _show_nothing(place: Place, line: bytes) -> None:
    """Shows nothing."""


def _names(places: Collection[Place]) -> str:
    return ", ".join(f"{name} on {host}" for host, name in places)
