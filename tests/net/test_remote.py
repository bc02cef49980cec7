"""Requests to several servers alike: who is asked next, and what is said of those that are lost."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

import pytest

from halohop.errors import DeadlineExceededError, PeerLostError
from halohop.net.remote import RemoteShard
from halohop.store.requests import FetchRequest
from halohop.transport import Channel, ConnectionLostError
from tests.support.deadlines import within

REQUEST = FetchRequest(queries=())

Answer = Callable[[], Any]


class Told:
    """A channel whose calls end at once, as the test says; the last answer is given again and again."""

    is_connected = True

    def __init__(self, number: int, *answers: Answer) -> None:
        self.peer = f"server {number}"
        self.answers = [*answers]

    def submit(self, request: FetchRequest, *, seconds: float | None = None, once: bool = False) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result((self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])())
        except Exception as error:
            done.set_exception(error)
        return done


def lost(text: str) -> Answer:
    def answer() -> None:
        raise ConnectionLostError(f"{text} went away")

    return answer


def late() -> None:
    raise DeadlineExceededError("no answer from server 1")


def over() -> None:
    raise PeerLostError("could not be reached within what was left")


def shard(*channels: Told, seconds: float = 20) -> RemoteShard:
    return RemoteShard([cast(Channel, one) for one in channels], call_seconds=seconds)


def test_the_next_one_answers_in_place_of_one_that_is_lost() -> None:
    assert shard(Told(0, lost("server 0")), Told(1, lambda: "rows")).ask(REQUEST).result(within(1)) == "rows"


def test_the_first_is_asked_again_when_the_others_are_lost_too() -> None:
    first = Told(0, lost("server 0"), lambda: "rows")
    assert shard(first, Told(1, lost("server 1"))).ask(REQUEST).result(within(1)) == "rows"


def test_all_that_were_lost_are_named_when_the_time_is_over() -> None:
    """The call that ends last has only what the others left of the time, so its own limit is not told."""
    servers = Told(0, lost("server 0"), over), Told(1, lost("server 1"))
    with pytest.raises(PeerLostError, match=r"^server 0 went away; server 1 went away; none of them came back within .* 20 s$"):
        shard(*servers).ask(REQUEST).result(within(1))


def test_one_that_does_not_answer_is_named_after_one_that_was_lost() -> None:
    """Such as a server that is stopped: the one that is gone before is not the only culprit."""
    with pytest.raises(PeerLostError, match=r"^server 0 went away; then no answer from server 1$"):
        shard(Told(0, lost("server 0")), Told(1, late)).ask(REQUEST).result(within(1))


def test_a_server_that_waits_for_another_names_that_one() -> None:
    """Its error has the remote one as its cause, and is no word about those that were lost before."""

    def waited() -> None:
        raise PeerLostError("server 1 waited for another: server 2 went away") from RuntimeError("there")

    with pytest.raises(PeerLostError, match=r"^server 1 waited for another: server 2 went away$"):
        shard(Told(0, lost("server 0")), Told(1, waited)).ask(REQUEST).result(within(1))
