"""The runner of this host, for a process that forwards its streams: an actor of Ray, or a pod of Kubernetes."""

import math
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress

RUNNER = "halohop.launch.jobs.host"
_READ = 1 << 18


class HeldRunner:
    """The runner of this host. It ends with its standard input, so that it does not outlive this process.

    Args:
        python: interpreter of the runner.
        env: its environment.
    """

    def __init__(self, python: str, env: Mapping[str, str]) -> None:
        self._words, self._env = ("env", python, "-m", RUNNER), env
        self._process: subprocess.Popen[bytes]

    def start(self) -> None:
        """Starts the runner, which ends if the launcher does not send anything for some seconds."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self._words, bufsize=0, env=self._env, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )

    def write(self, data: bytes) -> None:
        """Writes to the runner's standard input; without data, closes it."""
        stream = self._process.stdin
        assert stream is not None
        with suppress(BrokenPipeError):  # the runner has ended, which readers see
            if not data:
                stream.close()
            while data:
                data = data[stream.write(data) :]

    def read(self, name: str, seconds: float = math.inf) -> bytes | None:
        """Reads what comes next from the runner's stream of this name: nothing at its end, None if nothing comes in time."""
        stream = getattr(self._process, name)
        if seconds < math.inf and not select.select([stream], [], [], seconds)[0]:
            return None
        return os.read(stream.fileno(), _READ)

    def wait(self, seconds: float | None = None) -> int | None:
        """The runner's exit code, once it has ended; None if it does not end in time."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def terminate(self) -> None:
        """Tells the runner that this host must end. Signal handlers may call it."""
        self._process.send_signal(signal.SIGTERM)

    def end(self, seconds: float) -> None:
        """Ends the runner and all that it has started; kills it if that takes longer."""
        self.write(b"")
        if self.wait(seconds) is None:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
