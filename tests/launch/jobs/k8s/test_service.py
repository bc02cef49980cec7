"""What a pod of trainers does when it is asked for something, dismissed, or told to end; with real runners: test_contract.py."""

import sys
import threading
import time

import pytest

from halohop.errors import ClusterError
from halohop.launch.jobs.host import held_runner
from halohop.launch.jobs.host.held_runner import HeldRunner
from halohop.launch.jobs.k8s.messages import Chunk, Dismiss, Done, Ping, Read, RunnerExit, Start, Wait, Write
from halohop.launch.jobs.k8s.service import TERMINATED, PodService

ECHO = "import sys; [print(line, end='', flush=True) for line in sys.stdin]"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> PodService:
    """Its runner is a program that prints what it reads."""
    start = held_runner.subprocess.Popen
    monkeypatch.setattr(held_runner.subprocess, "Popen", lambda words, **how: start([sys.executable, "-c", ECHO], **how))
    return PodService()


def end(service: PodService) -> None:
    runner = service._runner
    assert isinstance(runner, HeldRunner)
    runner.end(20)


def test_a_runner_is_started_written_to_read_and_waited_for(service: PodService) -> None:
    with pytest.raises(ClusterError, match="the pod was started again"):
        service.answer(Wait())
    assert service.answer(Start()) == Done()
    service.answer(Write(data=b"word\n"))
    assert service.answer(Read(name="stdout")) == Chunk(data=b"word\n")
    service.answer(Write(data=b""))
    assert service.answer(Read(name="stdout")) == Chunk(data=b"")
    assert service.answer(Wait()) == RunnerExit(code=0)
    end(service)


def test_a_second_start_ends_the_runner_that_is_there(service: PodService) -> None:
    service.answer(Start())
    first = service._runner
    assert first is not None
    service.answer(Start())
    assert first.wait(20) == 0
    assert service._runner is not first
    end(service)


def test_a_pod_that_is_asked_to_end_starts_nothing(service: PodService) -> None:
    """The launcher repeats its call at the pod that takes the place of this one."""
    with pytest.raises(SystemExit) as ended:
        service.terminate()
    assert ended.value.code == TERMINATED
    assert not service.answer(Start()).done()  # type: ignore[union-attr]
    assert service._runner is None
    assert service.until_dismissed(60) == TERMINATED


def test_a_pod_that_is_dismissed_ends_well_whatever_comes(service: PodService) -> None:
    assert service.answer(Dismiss()) == Done()
    service.terminate()
    assert service.until_dismissed(60) == 0


def test_a_pod_waits_for_a_launcher_and_again_after_each_call(service: PodService) -> None:
    begin = time.monotonic()
    call = threading.Timer(0.3, service.answer, [Ping()])
    call.start()
    with pytest.raises(ClusterError, match=r"the first pod did not connect within 0.5 s \(start_seconds"):
        service.until_dismissed(0.5)
    assert time.monotonic() - begin >= 0.8
    call.join(20)
