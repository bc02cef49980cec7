"""What the processes of a job print and how they end: logs of all hosts in the run folder, and the first failure by its name."""

import logging
import queue
import signal
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from halohop.errors import ClusterError
from halohop.files.aside import writing
from halohop.launch.jobs.crew.crew import Crew
from halohop.launch.jobs.crew.remote import Asked, Lost, Said
from halohop.launch.jobs.host.channel import BEAT_S, SILENCE_S
from halohop.launch.jobs.host.messages import Begin, Ended, Output, Started, Stop
from halohop.launch.processes.ends import Ends, Member
from halohop.launch.processes.failures import Failure, parse_report
from halohop.launch.processes.tasks import remove_logs
from halohop.launch.terminal.signals import Resumable, Stopped

READY_S = 600.0
"""Longest wait for servers: some compile kernels, or compare all files with their checksums."""
_SETTLE_S = 1.0
_READY = b"serving partitions "

_LOG = logging.getLogger(__name__)

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
        linger, saves: as of `Ends`.
    """

    def __init__(self, crew: Crew, logs: Path, echo: Echo, *, linger: float | None = None, saves: bool = False) -> None:
        self._crew, self._logs, self._echo = crew, logs, echo
        self._files: dict[Place, IO[bytes]] = {}
        self._lines: dict[Place, bytes] = {}
        self._processes: dict[Place, int] = {}
        self._reports: dict[Place, bytes] = {}
        self._lost: list[Lost] = []
        self._ends = Ends[Place](name=self._named, linger=linger, saves=saves)
        self.ready: set[Place] = set()
        self._is_judged = False
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        with writing(self._logs):
            self._logs.mkdir(parents=True, exist_ok=True)
            remove_logs(self._logs)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Writes what has come while everything ended.

        Raises:
            Resumable: a request to terminate ended the job, and all processes have left a state to resume from.
        """
        self._is_judged = True
        while not self._crew.news.empty():
            self._take(self._crew.news.get())
        for place in list(self._lines):
            self._show(place, b"", last=True)
        self._undo.close()
        if isinstance(error, Stopped) and error.code == 128 + signal.SIGTERM and self._ends.may_resume:
            raise Resumable from error

    def begin(self, place: Place, member: Member) -> None:
        """Starts a process.

        Raises:
            ClusterError: its host is lost.
            WriteError: its log cannot be written.
            Resumable: the job was asked to end before trainers had begun.
        """
        while self._hear(0):
            self._check()
        with writing(self._log(place)):
            self._files[place] = self._undo.enter_context(self._log(place).open("wb", buffering=0))
        self._ends.begin(place, member)
        self._crew.remotes[place[0]].send(Begin(name=place[1]))

    def stop(self, why: str, patience: float) -> None:
        """Asks the processes that serve no others to save where they stand, and to end. Handlers of signals may call it.

        Args:
            why: for people.
            patience: seconds that they have.
        """
        self._crew.news.put(Asked(why=why, patience=patience))

    @property
    def is_stopping(self) -> bool:
        """Whether processes have been asked to save where they stand."""
        return self._ends.were_asked

    def until_ready(self, places: Collection[Place]) -> None:
        """Until servers answer; raises as `until_ended`, or that one does not answer in time."""
        deadline = time.monotonic() + READY_S
        while waiting := [place for place in places if place not in self.ready]:
            if early := [place for place in waiting if place in self._ends.codes]:
                raise ClusterError(f"{self._names(early)} ended before serving; see {self._log(early[0])}")
            if not self._hear(deadline - time.monotonic()):
                raise ClusterError(f"{self._names(waiting)} did not serve within {READY_S:g} s; see {self._log(waiting[0])}")
            self._check()

    def until_ended(self, places: Collection[Place]) -> None:
        """Until processes have ended well.

        Raises:
            HalohopError: any process failed, or a host is lost; names it, and shows the end of its log.
            Resumable: trainers have left a state to resume from, or were asked to before they had begun.
        """
        while any(place not in self._ends.codes for place in places):
            if not self._hear(self._ends.left()):
                break
            self._check()
        self._judge()

    def _check(self) -> None:
        """Raises as `until_ended` where a process has failed, or a host is lost, once the others had a moment to say what they
        saw."""
        if not (self._lost or self._ends.has_failed):
            return
        self._echo, self._is_judged = _show_nothing, True  # what follows are ends that we cause
        began = time.monotonic()
        deadline, latest = began + _SETTLE_S, began + _SETTLE_S + SILENCE_S
        while (left := deadline - time.monotonic()) > 0:
            if not self._hear(left) and not self._lost and time.monotonic() < latest and self._is_one_silent_since(began):
                deadline = time.monotonic() + BEAT_S / 4  # its loss may be what the others failed of
        self._judge()

    def _judge(self) -> None:
        if self._lost:
            said = "; ".join(f"host {one.host}: {one.reason}" for one in self._lost)
            failed = [place for place, code in self._ends.codes.items() if code]
            then = "".join(f"\nthen {self._named(place)} failed; its log: {self._log(place)}" for place in failed)
            others = ", ".join(self._ends.running())
            raise ClusterError(f"{said}{then}{f'; then the launcher ended {others}' if others else ''}")
        self._ends.judge(self._failure, logs=self._logs)

    def _failure(self, place: Place) -> Failure:
        error = parse_report(self._reports[place])
        return Failure(name=self._named(place), code=self._ends.codes[place], log=self._log(place), error=error)

    def _hear(self, seconds: float | None) -> bool:
        """Takes the next news; whether there was any in time."""
        try:
            self._take(self._crew.news.get(timeout=None if seconds is None else max(seconds, 0)))
        except queue.Empty:
            return False
        return True

    def _take(self, item: object) -> None:
        """Notes news."""
        if isinstance(item, Lost):
            self._lost.append(item)
            return
        if isinstance(item, Asked):
            self._stop(item)
            return
        assert isinstance(item, Said)
        place = (item.host, item.message.name)
        match item.message:
            case Output(data=data):
                self._print(place, data)
            case Started(process=number):
                self._processes[place] = number
            case Ended(code=code, report=report):
                self._reports[place] = report
                self._ends.note(place, code)

    def _stop(self, asked: Asked) -> None:
        if self._ends.were_asked or self._is_judged:
            return
        _LOG.warning("%s; all ranks save where they stand", asked.why)
        self._ends.ask(asked.patience)
        if not self._ends.has_trainers:
            raise Resumable
        for host, name in self._ends.keys_running(staying=False):
            with suppress(ClusterError):  # it is lost, which is news
                self._crew.remotes[host].send(Stop(name=name))

    def _is_one_silent_since(self, moment: float) -> bool:
        """Whether a host on which nothing failed has not been heard since then."""
        failed = {host for (host, _), code in self._ends.codes.items() if code}
        seconds = time.monotonic() - moment
        return any(remote.silent_s > seconds for host, remote in self._crew.remotes.items() if host not in failed)

    def _named(self, place: Place) -> str:
        """As a message calls a process: "rank 1 (b, process 4711)"."""
        host, name = place
        number = f", process {self._processes[place]}" if place in self._processes else ""
        return f"{name.replace('-', ' ')} ({host}{number})"

    def _names(self, places: Collection[Place]) -> str:
        return ", ".join(self._named(place) for place in places)

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
