"""The runner of one host, at the other end of what reaches it."""

import math
import queue
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Self, TypeVar

from halohop.errors import ClusterError, HalohopError, InputError, PeerLostError, ProtocolError
from halohop.launch.jobs.crew.way import Host, Running, Way
from halohop.launch.jobs.host.channel import Channel
from halohop.launch.jobs.host.messages import Beat, Ended, Hello, Message, Output, Started, Trouble

_START_S = 30.0
"""Seconds beyond those of connecting that a login shell and Python may take; Python may lie on a disk that is slow at first."""
_END_S = 1.0
_SAVE_S = 60.0
"""Seconds that ranks have to save where they stand, if a host must end."""
_KEPT_LINES = 100

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A host is not reached any more."""

    host: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All processes are to save where they stand, and to end.

    Args:
        why: for people.
        patience: seconds that they have.
    """

    why: str
    patience: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a process of a host printed, its start, or its end."""

    host: str
    message: Output | Started | Ended


News = queue.SimpleQueue[object]


class Remote:
    """Starts the runner of a host, and talks to it; use it as a context manager.

    Once it has said hello, a thread reads: what processes print and their ends go to the news, and so does the loss of the host.
    Everything else is the answer that some thread waits for.

    Args:
        host: which.
        way: to it.
        news: where `Said`, `Asked` and `Lost` go.

    Attributes:
        is_lost: whether it does not answer any more, or never did.
        flush_s: seconds that it may take to flush the largest file that is sent to it, during which it says nothing of its work.
    """

    def __init__(self, host: Host, way: Way, news: News) -> None:
        self.host, self._way, self._news = host, way, news
        self._answers: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._printed: deque[str] = deque(maxlen=_KEPT_LINES)
        self._threads: list[threading.Thread] = []
        self.is_lost = self._closing = False
        self._waiting_since = math.inf
        self.flush_s = 0.0
        self._process: Running
        self._channel: Channel

    def __enter__(self) -> Self:
        self._process = self._way.start(self.host)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        name = f"host {self.host.name}"
        self._channel = Channel(self._process.stdout.fileno(), self._process.stdin.fileno(), name=name)
        self._start(self._keep, self._process.stderr)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()
        self.wait(0)

    def end(self) -> None:
        """Asks the host to end everything; does not wait. Safe to call twice."""
        self._closing = True
        if not self._channel.close():
            self._process.kill()  # it does not read, so it would not see the end
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self, seconds: float) -> None:
        """Until the host has ended everything, or for so many seconds; then the connection is closed in any case."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self._process.kill()  # also ends the connection of one that has ended
        self._process.wait()
        for thread in self._threads:
            thread.join(_END_S)  # another process may hold a pipe of ssh's
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def hello(self) -> Hello:
        """Who the host is, when it has answered.

        Raises:
            InputError: it did not; says why, and what to do.
        """
        seconds = self._way.patience + _START_S
        latest = time.monotonic() + seconds
        try:
            self._channel.find_mark(seconds)
            hello = self._channel.receive(seconds, latest=latest)
        except PeerLostError as error:
            printed = self._printed_so_far() or str(error)
            code = self._process.returncode
            self.is_lost = code is None or self._way.is_cut(code)
            raise InputError(self._way.explain(self.host, printed, code)) from error
        if not isinstance(hello, Hello):
            raise ProtocolError(f"sent {type(hello).__name__} before it said who it is")
        self._channel.beat()
        self._start(self._read)
        return hello

    def send(self, message: Message) -> None:
        """Sends a message.

        Raises:
            ClusterError: the host is lost.
        """
        self._waiting_since = time.monotonic()
        try:
            self._channel.send(message)
        except PeerLostError as error:
            raise ClusterError(str(error)) from error
        finally:
            self._waiting_since = math.inf

    def answer(self, kind: type[Kind]) -> Kind:
        """The host's next answer.

        Raises:
            ClusterError: the host is lost, or could not do what it was asked for.
        """
        self._waiting_since = time.monotonic()
        message = self._answers.get()
        self._waiting_since = math.inf
        if isinstance(message, Lost):
            raise ClusterError(message.reason)
        if isinstance(message, Trouble):
            raise ClusterError(message.text)
        if not isinstance(message, kind):
            raise ProtocolError(f"sent {type(message).__name__} where {kind.__name__} was expected")
        return message

    def check(self) -> None:
        """Looks for an answer that was not asked for: the host is lost, or cannot go on. Raises as `answer`."""
        if not self._answers.empty():
            self.answer(type(None))

    @property
    def silent_s(self) -> float:
        """Seconds since the host was heard last."""
        return time.monotonic() - self._channel.heard

    @property
    def idle_s(self) -> float:
        """Seconds that somebody waits for the host, which neither answers nor gets on with its work; below 0: nobody waits."""
        return time.monotonic() - max(self._channel.advanced, self._waiting_since) - self.flush_s

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name=f"halohop-{self.host.name}", daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _keep(self, stream: IO[bytes]) -> None:
        """Runs in a thread: what ssh and the runner say of themselves."""
        for line in stream:
            self._printed.append(line.decode(errors="replace"))

    def _read(self) -> None:
        """Runs in a thread."""
        try:
            while True:
                message = self._channel.receive()
                if isinstance(message, Output | Started | Ended):
                    self._news.put(Said(host=self.host.name, message=message))
                elif isinstance(message, Beat):
                    self._news.put(Asked(why=f"host {self.host.name} was asked to end", patience=_SAVE_S))
                    self._answers.put(Trouble(text="was asked to end"))
                else:
                    self._answers.put(message)
        except (HalohopError, OSError, ValueError) as error:  # ValueError: the pipe was closed here
            self.is_lost = self.is_lost or not self._closing
            lost = Lost(host=self.host.name, reason="" if self._closing else self._loss(error))
            self._answers.put(lost)
            self._news.put(lost)

    def _printed_so_far(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._threads[0].join(_END_S)
        return "".join(self._printed)

    def _loss(self, error: Exception) -> str:
        """Why the host is lost, which had answered."""
        printed, code = self._printed_so_far(), self._process.returncode
        if code is None or self._way.is_cut(code):
            return f"the connection is lost: its network is cut, or the machine is down ({printed.strip() or error})"
        said = f"; it printed: {printed.strip()}" if printed.strip() else ""
        return f"what starts processes there ended with exit code {code}, and they ended with it{said}"
