"""Logs of containers, as they are written, in the run folder: a thread and a kubectl for each."""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from halohop.errors import WriteError
from halohop.files.aside import writing
from halohop.launch.jobs.k8s.kubectl import Kubectl, environment
from halohop.launch.jobs.k8s.pods import Pod

_AGAIN_S = 1.0
_SETTLE_S = 10.0
"""How long the rest of all logs may take."""


class PodLogs:
    """The logs of all containers of a job.

    Args:
        kubectl: reads them.
        folder: of ``POD-trainers-K.log`` and ``POD-server-K.log``.
        show: gets each line that a pod's main container writes.
        complain: is told which log cannot be written.
    """

    def __init__(
        self, kubectl: Kubectl, folder: Path, show: Callable[[Pod, bytes], None], complain: Callable[[str], None]
    ) -> None:
        self._kubectl, self._folder, self._show, self._complain = kubectl, folder, show, complain
        self._readers: dict[tuple[str, str], _Reader] = {}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def file(self, pod: Pod, container: str) -> Path:
        """The log of a container."""
        return self._folder / f"{pod.name}-{pod.process if container in ('trainers', 'server') else container}.log"

    def follow(self, pod: Pod) -> None:
        """Begins to read the logs of what has started in a pod, and notes what has ended."""
        for each in pod.containers:
            if each.has_started and (pod.uid, each.name) not in self._readers:
                words = self._kubectl.words("logs", "--follow", "--timestamps", pod.name, f"--container={each.name}")
                show = (lambda line, pod=pod: self._show(pod, line)) if each is pod.containers[-1] else _hide
                reader = _Reader(words, self.file(pod, each.name), show, self._complain)
                self._readers[pod.uid, each.name] = reader
                reader.start()
            if each.state == "terminated" and pod.process.startswith("trainers"):
                self._readers[pod.uid, each.name].has_ended.set()

    def finish(self) -> None:
        """Waits until all logs of containers that have ended are complete, at most some seconds, and reads no more."""
        deadline = time.monotonic() + _SETTLE_S
        for reader in self._readers.values():
            if reader.has_ended.is_set():
                reader.join(max(deadline - time.monotonic(), 0))
        self.close()

    def close(self) -> None:
        """Reads no more."""
        for reader in self._readers.values():
            reader.close()


class _Reader(threading.Thread):
    """Writes a log to a file. It asks again if the connection is lost, from the last line on."""

    def __init__(
        self, words: tuple[str, ...], file: Path, show: Callable[[bytes], None], complain: Callable[[str], None]
    ) -> None:
        super().__init__(name=f"halohop-log-{file.name}", daemon=True)
        self._words, self._show, self._file, self._complain = words, show, file, complain
        self._last = b""
        self._closing = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self.has_ended = threading.Event()

    def run(self) -> None:
        try:
            with self._file.open("wb", buffering=0) as file:
                while not self._closing.is_set():
                    ended = self.has_ended.is_set()
                    if self._read(file.write) == 0 and ended:
                        return
                    self._closing.wait(_AGAIN_S)
        except OSError as error:  # the job goes on
            self._complain(f"the rest of a log is lost: {WriteError.of(self._file, error)}")
            self.close()

    def close(self) -> None:
        self._closing.set()
        if self._process is not None:
            self._process.kill()

    def _read(self, write: Callable[[bytes], object]) -> int:
        since = (f"--since-time={self._last.decode()}",) if self._last else ()
        ends_with_us = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()  # if the launcher is killed
        known = self._last
        with subprocess.Popen(
            (*ends_with_us, *self._words, *since),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            start_new_session=True,
        ) as self._process:
            if self._closing.is_set():
                self._process.kill()
            assert self._process.stdout is not None
            for line in self._process.stdout:
                stamp, _, text = line.partition(b" ")
                if stamp > known:
                    self._last = stamp
                    write(text)
                    self._show(text)
        return self._process.returncode


def _hide(line: bytes) -> None:
    """Shows nothing."""
