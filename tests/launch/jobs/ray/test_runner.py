"""What an actor carries for a runner, with an actor that is an object of this process; with real ones: test_contract.py."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from halohop.launch.jobs.ray import runner
from halohop.launch.jobs.ray.runner import CUT, GROUPS, HostActor, RemoteRunner

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
    """As Ray raises it where an actor is gone."""


class Actor:
    """A handle of an actor whose calls are done at once."""

    def __init__(self) -> None:
        self.behind = HostActor("", {"MINE": "1"})
        self.is_gone = False

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(options=lambda concurrency_group: SimpleNamespace(remote=self._call(name, concurrency_group)))

    def _call(self, name: str, group: str) -> Any:
        def call(*arguments: object) -> Any:
            assert group in GROUPS
            found = getattr(self.behind, name)(*arguments)
            if self.is_gone:
                raise GoneError("its node is gone")
            return found

        return call


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Actor]:
    start = subprocess.Popen
    monkeypatch.setattr(runner.subprocess, "Popen", lambda words, **how: start([sys.executable, "-c", ECHO], **how))
    made = Actor()

    def kill(killed: Actor) -> None:
        killed.is_gone = True
        killed.behind._process.kill()

    library = SimpleNamespace(get=lambda found: found, kill=kill, exceptions=SimpleNamespace(RayError=GoneError))
    monkeypatch.setattr(runner, "ray_library", lambda: library)
    yield made
    for thread in [each for each in threading.enumerate() if each.name == "halohop-ray"]:
        thread.join(20)
        assert not thread.is_alive()
    with made.behind._process:
        pass  # closes its pipes


def close(remote: RemoteRunner) -> None:
    for stream in (remote.stdin, remote.stdout, remote.stderr):
        stream.close()


def test_a_runner_starts_when_its_launcher_is_there(actor: Actor) -> None:
    """It ends after 6 s without a word, and other hosts may take longer to start."""
    assert not hasattr(actor.behind, "_process")
    remote = RemoteRunner(actor)
    assert remote.stderr.read(5) == b"begun"
    remote.stdin.close()
    assert remote.wait(20) == 3
    close(remote)


def test_bytes_go_both_ways_and_the_end_of_input_is_the_end(actor: Actor) -> None:
    remote = RemoteRunner(actor)
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


def test_the_end_of_an_actor_is_the_end_of_the_connection(actor: Actor) -> None:
    remote = RemoteRunner(actor)
    remote.kill()
    assert remote.wait(20) == CUT
    assert remote.stdout.read() == b""
    assert b"its node is gone" in remote.stderr.read()
    assert actor.behind.wait() == -signal.SIGKILL
    close(remote)


def test_a_runner_that_has_ended_is_written_to_without_harm(actor: Actor) -> None:
    remote = RemoteRunner(actor)
    actor.behind._process.kill()
    assert actor.behind.wait() == -signal.SIGKILL
    remote.stdin.write(b"more")
    remote.stdin.close()
    assert remote.wait(20) == -signal.SIGKILL
    close(remote)
