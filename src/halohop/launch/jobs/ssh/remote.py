"""The runner of one host, at the other end of an ssh connection."""

import math
import queue
import shlex
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Self, TypeVar

from halohop.errors import ClusterError, HalohopError, InputError, PeerLostError, ProtocolError
from halohop.launch.jobs.host.channel import Channel
from halohop.launch.jobs.host.messages import Ended, Hello, Message, Output, Started, Trouble
from halohop.launch.jobs.ssh.hosts import Host, Settings
from halohop.launch.jobs.ssh.wording import explained

RUNNER = "halohop.launch.jobs.host"

_START_S = 30.0
"""Seconds beyond those of connecting that a login shell and Python may take; Python may lie on a disk that is slow at first."""
_END_S = 1.0
_KEPT_LINES = 100
_SSH_FAILED = 255

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A host is not reached any more."""

    host: str
    reason: str


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
        settings: of ssh.
        news: where `Said` and `Lost` go.

    Attributes:
        flush_s: seconds that it may take to flush the largest file that is sent to it, during which it says nothing of its work.
    """

    def __init__(self, host: Host, settings: Settings, news: News) -> None:
        self.host, self._settings, self._news = host, settings, news
        self._answers: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._printed: deque[str] = deque(maxlen=_KEPT_LINES)
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._waiting_since = math.inf
        self.flush_s = 0.0
        self._process: subprocess.Popen[bytes]
        self._channel: Channel

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
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
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
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
        seconds = self._settings.connect_timeout + _START_S
        latest = time.monotonic() + seconds
        try:
            self._channel.find_mark(seconds)
            hello = self._channel.receive(seconds, latest=latest)
        except PeerLostError as error:
            printed = self._printed_so_far() or str(error)
            code = self._process.returncode
            reason = explained(printed, code, name=self.host.name, ssh=self.spelled, python=self.host.python)
            raise InputError(reason) from error
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

    @property
    def spelled(self) -> str:
        """The command that a user tries by hand."""
        return shlex.join([*self._settings.words, *(word for word in self.host.target if word != "--")])

    def _command(self) -> list[str]:
        path = self.host.env.get("PYTHONPATH")
        run = ["exec", *(["env", f"PYTHONPATH={path}"] if path else []), self.host.python, "-m", RUNNER]
        own = {
            "BatchMode": "yes",  # asks nobody for a password, who may not be there
            "ConnectTimeout": str(self._settings.connect_timeout),
            "ServerAliveInterval": "2",
            "ServerAliveCountMax": "3",
            "ClearAllForwardings": "yes",
            "ControlMaster": "no",
            "RemoteCommand": "none",
        }
        options = [word for key, value in own.items() for word in ("-o", f"{key}={value}")]
        return [*self._settings.words, "-T", *options, *self.host.target, shlex.join(run)]

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
                else:
                    self._answers.put(message)
        except (HalohopError, OSError, ValueError) as error:  # ValueError: the pipe was closed here
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
        if code is None or code == _SSH_FAILED:
            return f"the connection is lost: its network is cut, or the machine is down ({printed.strip() or error})"
        said = f"; it printed: {printed.strip()}" if printed.strip() else ""
        return f"what starts processes there ended with exit code {code}, and they ended with it{said}"
