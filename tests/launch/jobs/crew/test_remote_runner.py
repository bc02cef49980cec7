"""A runner of another host as a process of this one: what is forwarded, and what happens at either end."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from halohop.launch.jobs.crew.remote_runner import CUT, RemoteRunner
from halohop.launch.jobs.host import held_runner
from halohop.launch.jobs.host.held_runner import HeldRunner

ECHO = """
import sys
sys.stderr.write("begun")
sys.stderr.flush()
for data in iter(lambda: sys.stdin.buffer.read1(), b""):
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
sys.exit(3)
"""


class GoneError(Exception):
    """The other side is gone."""


class Near:
    """Calls to a runner that this process holds."""

    lost = GoneError

    def __init__(self) -> None:
        self.held = HeldRunner(sys.executable, os.environ)
        self.is_gone = self.is_started = False
        self.refusal: str | None = None

    def start(self) -> None:
        if self.refusal is not None:
            raise GoneError(self.refusal)
        self.held.start()
        self.is_started = True

    def write(self, data: bytes) -> None:
        self.held.write(data)
        self._check()

    def read(self, name: str) -> bytes:
        found = self.held.read(name)
        self._check()
        assert found is not None
        return found

    def wait(self) -> int:
        code = self.held.wait()
        self._check()
        assert code is not None
        return code

    def kill(self) -> None:
        self.is_gone = True
        self.held._process.kill()

    def _check(self) -> None:
        if self.is_gone:
            raise GoneError("its node is gone")


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> Iterator[Near]:
    start = subprocess.Popen
    monkeypatch.setattr(held_runner.subprocess, "Popen", lambda words, **how: start([sys.executable, "-c", ECHO], **how))
    made = Near()
    yield made
    for thread in [each for each in threading.enumerate() if each.name == "halohop-forward"]:
        thread.join(20)
        assert not thread.is_alive()
    if made.is_started:
        with made.held._process:
            pass  # closes its pipes


def close(remote: RemoteRunner) -> None:
    for stream in (remote.stdin, remote.stdout, remote.stderr):
        stream.close()


def test_a_runner_starts_when_its_launcher_is_there(near: Near) -> None:
    """It ends after 6 s without a word, and other hosts may take longer to start."""
    assert not near.is_started
    remote = RemoteRunner(near)
    assert remote.stderr.read(5) == b"begun"
    remote.stdin.close()
    assert remote.wait(20) == 3
    close(remote)


def test_bytes_go_both_ways_and_the_end_of_input_is_the_end(near: Near) -> None:
    remote = RemoteRunner(near)
    sent = bytes(range(256)) * 5000
    assert remote.stderr.read(5) == b"begun"
    remote.stdin.write(sent[:10])
    assert remote.stdout.read(10) == sent[:10]
    with pytest.raises(subprocess.TimeoutExpired):
        remote.wait(0)
    assert remote.returncode is None
    remote.stdin.close()
    assert remote.stdout.read() == b""
    assert remote.wait(20) == 3
    close(remote)


def test_the_end_of_the_other_side_is_the_end_of_the_connection(near: Near) -> None:
    remote = RemoteRunner(near)
    assert remote.stderr.read(5) == b"begun"
    remote.kill()
    assert remote.wait(20) == CUT
    assert remote.stdout.read() == b""
    assert b"its node is gone" in remote.stderr.read()
    assert near.held.wait() == -signal.SIGKILL
    close(remote)


def test_a_runner_that_has_ended_is_written_to_without_harm(near: Near) -> None:
    remote = RemoteRunner(near)
    assert remote.stderr.read(5) == b"begun"
    near.held._process.kill()
    assert near.held.wait() == -signal.SIGKILL
    remote.stdin.write(b"more")
    remote.stdin.close()
    assert remote.wait(20) == -signal.SIGKILL
    close(remote)


def test_a_runner_that_cannot_be_started_says_why(near: Near) -> None:
    near.refusal = "no such pod"
    remote = RemoteRunner(near)
    assert remote.wait(20) == CUT
    assert remote.stdout.read() == b""
    assert remote.stderr.read() == b"no such pod"
    close(remote)


def test_what_does_not_come_in_time_is_told_from_the_end(near: Near) -> None:
    near.start()
    assert near.held.read("stdout", 0.05) is None
    assert near.held.wait(0.05) is None
    near.held.write(b"word")
    assert near.held.read("stdout", 20) == b"word"
    near.held.write(b"")
    assert near.held.read("stdout", 20) == b""
    assert near.held.wait(20) == 3
