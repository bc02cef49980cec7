"""The launcher's connections to pods: which ones count as those of its job."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from halohop.launch.jobs.crew.way import Host
from halohop.launch.jobs.k8s import messages
from halohop.launch.jobs.k8s.messages import KINDS, Ping
from halohop.launch.jobs.k8s.service import PodService
from halohop.launch.jobs.k8s.way import Pods
from halohop.testing.worlds import free_addresses
from halohop.transport import Codec, Identity, Listener, Token, serve

TOKEN, OTHER = Token("a secret of these tests only"), Token("a secret of an earlier job")
HOST = Host(name="papers-trainers-1", address="127.0.0.1", python="python", folder="/", data="")


@pytest.fixture
def undo(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    monkeypatch.setattr(messages, "RUNNER_PORT", int(free_addresses(1)[0].rpartition(":")[2]))
    with ExitStack() as stack:
        yield stack


def pod(token: Token, uid: str) -> Listener:
    identity, bind = Identity(dataset=uid), f"127.0.0.1:{messages.RUNNER_PORT}"
    return serve(PodService().answer, codec=Codec(KINDS), token=token, bind=bind, identity=identity)


def test_a_pod_of_the_job_answers(undo: ExitStack) -> None:
    undo.enter_context(pod(TOKEN, "1"))
    found, missing = Pods(token=TOKEN, uid="1").call_all([HOST], Ping(), 20)
    assert ([*found], missing) == ([HOST.name], {})


@pytest.mark.parametrize(("token", "uid"), [(OTHER, "0"), (TOKEN, "0")])
def test_a_pod_of_an_earlier_job_is_not_the_jobs(undo: ExitStack, token: Token, uid: str) -> None:
    """It has a minute to end, with the same address, and its token may be the same."""
    earlier = undo.enter_context(pod(token, uid))

    def replace() -> None:
        earlier.close()
        undo.enter_context(pod(TOKEN, "1"))

    change = threading.Timer(0.5, replace)
    change.start()
    found, missing = Pods(token=TOKEN, uid="1").call_all([HOST], Ping(), 30)
    change.join(20)
    assert ([*found], missing) == ([HOST.name], {})


def test_a_pod_that_is_not_there_in_time_is_named(undo: ExitStack) -> None:
    found, missing = Pods(token=TOKEN, uid="1").call_all([HOST], Ping(), 0.3)
    assert (found, [*missing]) == ({}, [HOST.name])
    undo.enter_context(pod(OTHER, "0"))
    found, missing = Pods(token=TOKEN, uid="1").call_all([HOST], Ping(), 0.3)
    assert (found, [*missing]) == ({}, [HOST.name])
