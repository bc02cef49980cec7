"""The runner of a host, whose messages an actor of Ray carries."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from halohop.launch.jobs.crew.way import RUNNER
from halohop.launch.jobs.ray.library import ray_library

CUT = 255
"""Exit code where the actor, or its node, is gone."""
GROUPS = {"stdin": 1, "stdout": 1, "stderr": 1}
"""Threads of the actor, so that each stream is read and written in order while the others wait."""
_READ = 1 << 18


class HostActor:
    """An actor that starts the runner of a host. Its process ends with the driver, and the runner ends with its standard input.

    Args:
        python: interpreter of the runner; "": the one of Ray's workers.
        env: additional environment of the runner.
    """

    def __init__(self, python: str, env: dict[str, str]) -> None:
        self._words, self._env = ("env", python or sys.executable, "-m", RUNNER), {**os.environ, **env}
        self._process: subprocess.Popen[bytes]

    def start(self) -> None:
        """Starts the runner, which ends if the launcher does not send anything for some seconds."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._words, bufsize=0, env=self._env, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )

    def place(self) -> tuple[str, str]:
        """Name and address of the node."""
        return socket.gethostname(), ray_library("ray.util").get_node_ip_address()

    def write(self, data: bytes) -> None:
        """Writes to the runner's standard input; without data, closes it."""
        stream = self._process.stdin
        assert stream is not None
        with suppress(BrokenPipeError):  # it has ended, which is read
            if not data:
                stream.close()
            while data:
                data = data[stream.write(data) :]

    def read(self, name: str) -> bytes:
        """Reads what comes next from the runner's stream of this name; nothing at its end."""
        return os.read(getattr(self._process, name).fileno(), _READ)

    def wait(self) -> int:
        """The runner's exit code, once it has ended."""
        return self._process.wait()


class RemoteRunner:
    """A runner that an actor has started; see `Running`. Threads copy between its streams and pipes of this process.

    Args:
        actor: a `HostActor`, whose runner is started.
    """

    def __init__(self, actor: Any) -> None:
        self._actor, self._ray, self._ended = actor, ray_library(), threading.Event()
        self.returncode: int | None = None
        self._started = self._actor.start.options(concurrency_group="stdin").remote()
        (far_in, near_in), (near_out, far_out), (near_err, far_err) = os.pipe(), os.pipe(), os.pipe()
        self.stdin: IO[bytes] = os.fdopen(near_in, "wb", buffering=0)
        self.stdout, self.stderr = os.fdopen(near_out, "rb"), os.fdopen(near_err, "rb")
        _in_thread(self._carry_in, os.fdopen(far_in, "rb", buffering=0))
        _in_thread(self._carry_errors, os.fdopen(far_err, "wb", buffering=0))
        _in_thread(self._carry_out, os.fdopen(far_out, "wb", buffering=0))

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("runner", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        self._ray.kill(self._actor)

    def _carry_in(self, stream: IO[bytes]) -> None:
        with stream, suppress(self._ray.exceptions.RayError):  # who reads learns of it, too
            while data := stream.read(_READ):
                self._call("write", "stdin", data)
            self._call("write", "stdin", b"")

    def _carry_out(self, stream: IO[bytes]) -> None:
        code = CUT
        with stream:
            try:
                self._carry("stdout", stream)
                code = self._call("wait", "stdout")
            except self._ray.exceptions.RayError:  # `_carry_errors` says which
                pass
            finally:
                self.returncode = code
                self._ended.set()

    def _carry_errors(self, stream: IO[bytes]) -> None:
        with stream, suppress(BrokenPipeError):
            try:
                self._carry("stderr", stream)
            except self._ray.exceptions.RayError as error:
                stream.write(str(error).encode())

    def _carry(self, name: str, stream: IO[bytes]) -> None:
        with suppress(BrokenPipeError):  # the launcher has closed its end
            while data := self._call("read", name, name):
                stream.write(data)

    def _call(self, method: str, group: str, *arguments: object) -> Any:
        self._ray.get(self._started)
        reference = getattr(self._actor, method).options(concurrency_group=group).remote(*arguments)
        return self._ray.get(reference)


def _in_thread(work: Callable[[IO[bytes]], None], stream: IO[bytes]) -> None:
    threading.Thread(target=work, args=(stream,), name="halohop-ray", daemon=True).start()
