"""A runner on another host that looks like a process of this one. Threads forward its streams by calls to that host."""

import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import IO, Protocol

CUT = 255
"""Exit code of a runner whose connection was lost."""
_READ = 1 << 18


class RunnerCalls(Protocol):
    """Calls to a `HeldRunner` on another host. Each stream has a thread of its own that calls, and waits for the answer."""

    @property
    def lost(self) -> type[Exception]:
        """What calls raise if the other side is not connected."""
        ...

    def start(self) -> None: ...

    def write(self, data: bytes) -> None: ...

    def read(self, name: str) -> bytes: ...

    def wait(self) -> int: ...

    def kill(self) -> None:
        """Ends the connection, so that waiting calls fail."""
        ...


class RemoteRunner:
    """Starts a runner over a connection; see `Running`.

    Args:
        calls: to its host.
    """

    def __init__(self, calls: RunnerCalls) -> None:
        self._calls, self._started, self._ended = calls, Future[None](), threading.Event()
        self.returncode: int | None = None
        (far_in, near_in), (near_out, far_out), (near_err, far_err) = os.pipe(), os.pipe(), os.pipe()
        self.stdin: IO[bytes] = os.fdopen(near_in, "wb", buffering=0)
        self.stdout, self.stderr = os.fdopen(near_out, "rb"), os.fdopen(near_err, "rb")
        _in_thread(self._forward_input, os.fdopen(far_in, "rb", buffering=0))
        _in_thread(self._forward_errors, os.fdopen(far_err, "wb", buffering=0))
        _in_thread(self._forward_output, os.fdopen(far_out, "wb", buffering=0))

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("runner", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        self._calls.kill()
        if self.returncode is None:
            self.returncode = CUT
        self._ended.set()  # a thread may wait for a reader of its pipe

    def _forward_input(self, stream: IO[bytes]) -> None:
        with stream:
            try:
                self._calls.start()
            except BaseException as error:  # the other threads raise it
                self._started.set_exception(error)
                return
            self._started.set_result(None)
            with suppress(self._calls.lost):  # the other threads see it, too
                while data := stream.read(_READ):
                    self._calls.write(data)
                self._calls.write(b"")

    def _forward_output(self, stream: IO[bytes]) -> None:
        code = CUT
        with stream:
            try:
                self._forward("stdout", stream)
                code = self._calls.wait()
            except self._calls.lost:  # `_forward_errors` writes which
                pass
            finally:
                self.returncode = code
                self._ended.set()

    def _forward_errors(self, stream: IO[bytes]) -> None:
        with stream, suppress(BrokenPipeError):
            try:
                self._forward("stderr", stream)
            except self._calls.lost as error:
                stream.write(str(error).encode())

    def _forward(self, name: str, stream: IO[bytes]) -> None:
        self._started.result()
        with suppress(BrokenPipeError):  # the launcher has closed its end
            while data := self._calls.read(name):
                stream.write(data)


def _in_thread(work: Callable[[IO[bytes]], None], stream: IO[bytes]) -> None:
    threading.Thread(target=work, args=(stream,), name="halohop-forward", daemon=True).start()
