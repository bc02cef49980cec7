"""One process of a run: what it is to be, what it prints, and when it ends."""

import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec

from halohop.alive import REPORT_FILE
from halohop.files.aside import writing
from halohop.launch.processes.ends import Member
from halohop.launch.processes.failures import Failure, prepare, reported
from halohop.launch.processes.stalls import Stalls
from halohop.launch.processes.starting import Order, Process, Start
from halohop.launch.terminal.logs import LEVEL, level_of_trainers

READ_S = 3.0
"""Seconds to read what a process that has ended has left in a pipe."""

Event = dict[str, Any]
Echo = Callable[[bytes], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A process to start.

    Args:
        name: for messages: "rank 0".
        place: where it is, for messages: "node 0".
        argv: as of `Order`.
        env: its whole environment.
        log: file for what it prints.
        folder: its working directory; None: this process's.
        member: what its end means.
        events: JSON objects that it prints to its standard output, one per line, are events, and do not go to the log.
        echo, echo_errors: get each line of its standard output, and of its standard error, in a thread, beside the log.
    """

    name: str
    place: str
    argv: Sequence[str]
    env: Mapping[str, str]
    log: Path
    folder: str | None = None
    member: Member = field(default=Member())
    events: bool = False
    echo: Echo | None = None
    echo_errors: Echo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process has ended with this exit code, as `subprocess` counts: negative for a signal."""

    number: int
    code: int


News = queue.SimpleQueue[Ended | Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A process that was started; `waiter` runs until it has ended, and all that it printed was read."""

    task: Task
    process: Process
    waiter: threading.Thread

    @property
    def name(self) -> str:
        return f"{self.task.name} ({self.task.place}, process {self.process.pid})"

    def failed(self, code: int) -> Failure:
        return Failure(name=self.name, code=code, log=self.task.log, error=reported(error_file(self.task.log)))

    def send(self, kind: signal.Signals) -> None:
        """A signal for it, and whatever it has started."""
        with suppress(ProcessLookupError, PermissionError):  # none is left; macOS says of zombies that they are not ours
            os.killpg(self.process.pid, kind)


def error_file(log: Path) -> Path:
    """Where a process reports an error."""
    return log.with_suffix(".error.json")


def remove_logs(folder: Path) -> None:
    """Removes what an earlier run has left in the folder of its logs."""
    for name in ("rank", "server", "trainers", "fetch"):
        for file in (*folder.glob(f"*{name}*.log"), *folder.glob(f"*{name}*.error.json")):
            file.unlink()


def started(start: Start, task: Task, number: int, lifeline: int, news: News, stalls: Stalls) -> Child:
    """Starts a process.

    Args:
        start: how.
        task: what it is to be.
        number: of it, in what it puts into the news.
        lifeline: descriptor, as of `Order`.
        news: gets its events, then its end.
        stalls: looks whether it gets on, unless it serves the others.
    """
    with writing(task.log):
        task.log.write_bytes(b"")
        prepare(error_file(task.log))
    readers: list[_Reader] = []
    with ExitStack() as ours, ExitStack() as undo:
        log = ours.enter_context(task.log.open("ab"))

        def stream(echo: Echo | None, events: bool) -> int:
            if echo is None and not events:
                return log.fileno()
            read_end, write_end = os.pipe()
            pipe = undo.enter_context(os.fdopen(read_end, "rb"))
            readers.append(_Reader(pipe=pipe, log=task.log, news=news if events else None, echo=echo))
            return ours.enter_context(os.fdopen(write_end, "wb")).fileno()

        order = Order(
            argv=task.argv,
            env={**task.env, REPORT_FILE: str(error_file(task.log).resolve()), LEVEL: str(level_of_trainers())},
            folder=task.folder,
            stdout=stream(task.echo, task.events),
            stderr=stream(task.echo_errors, False),
            lifeline=lifeline,
        )
        process = start(order)
        undo.pop_all()
    if not task.member.stays:
        stalls.begin(process.pid, error_file(task.log))
    child: list[Child] = []
    waiter = threading.Thread(target=partial(_wait, child, number, readers, news, stalls), name=f"halohop-wait-{number}")
    child.append(Child(task=task, process=process, waiter=waiter))
    waiter.start()
    return child[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """What reads a stream of a process, in a thread: events are news, other lines go to the log and the echo."""

    pipe: IO[bytes]
    log: Path
    news: News | None
    echo: Echo | None
    threads: list[threading.Thread] = field(default_factory=list)

    def begin(self, number: int) -> threading.Thread:
        thread = threading.Thread(target=self._run, name=f"halohop-read-{number}")
        thread.start()
        return thread

    def _run(self) -> None:
        with self.pipe, self.log.open("ab", buffering=0) as log:
            for line in self.pipe:
                if self.news is not None:
                    with suppress(msgspec.DecodeError, RecursionError):
                        self.news.put(msgspec.json.decode(line, type=Event))
                        continue
                with suppress(OSError):  # on a full disk events still count; what the process cannot write itself, ends it
                    log.write(line)
                if self.echo is not None:
                    with suppress(OSError):  # nobody reads it any more
                        self.echo(line)


def _wait(children: Sequence[Child], number: int, readers: Sequence[_Reader], news: News, stalls: Stalls) -> None:
    """Runs in a thread: a process's events, then its end, in this order."""
    (child,) = children
    threads = [reader.begin(number) for reader in readers]
    code = child.process.wait()
    stalls.end(child.process.pid)
    child.send(signal.SIGKILL)  # whatever it started; they might keep the pipes open, too
    for thread in threads:
        thread.join(READ_S)
    news.put(Ended(number=number, code=code))
