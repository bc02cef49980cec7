"""Handlers that answer with a future: the reply is sent when it is done, and no thread waits meanwhile."""

import threading
import time
from concurrent.futures import Future, wait
from contextlib import contextmanager

import pytest
import torch

from halohop.errors import DeadlineExceededError, IdError, PeerLostError, RemoteError, TransportError
from halohop.store.requests import LocateReply, LocateRequest
from halohop.transport import Codec, Limits, Token, connect, serve
from halohop.transport.wire import REPLY, REQUEST, Kind
from tests.support.messages import MESSAGE_TYPES
from tests.support.strangers import Attacker, reset, wait_for

CODEC = Codec(MESSAGE_TYPES)
TOKEN = Token("a token that tests share")


def ask(value, size=1):
    return LocateRequest(node_type="node", raw=torch.full((size,), value))


class Promises:
    """A handler that promises a reply to negative numbers, and gives all others at once."""

    def __init__(self):
        self.made: list[tuple[int, Future]] = []
        self.lock = threading.Lock()

    def __call__(self, request):
        value = int(request.raw[0])
        if value >= 0:
            return LocateReply(gid=request.raw + 1)
        future = Future()
        with self.lock:
            self.made.append((value, future))
        return future

    def keep(self):
        with self.lock:
            made, self.made = self.made, []
        for value, future in made:
            future.set_result(LocateReply(gid=torch.tensor([value])))


@contextmanager
def served(**limits):
    promises = Promises()
    limits = Limits(**{"handler_threads": 2, "heartbeat_seconds": 0.5, **limits})
    with serve(promises, codec=CODEC, token=TOKEN, limits=limits) as listener:
        yield promises, listener


def connected(listener, **limits):
    return connect(listener.address, codec=CODEC, token=TOKEN, limits=Limits(**limits))


def test_hundreds_wait_and_hold_no_thread_and_no_place():
    """More than the server has threads, and more than it takes in flight: requests that they wait for are still read."""
    with served(max_in_flight=8) as (promises, listener), connected(listener, max_in_flight=1000) as channel:
        waiting = [channel.submit(ask(-1 - number)) for number in range(400)]
        with connected(listener) as other:
            assert other.call(ask(1)).gid.tolist() == [2]
        assert wait_for(lambda: len(promises.made) == 400)
        assert wait_for(lambda: listener.statistics()["in_flight"] == 400)  # the other's may still be leaving
        promises.keep()
        assert [int(future.result(20).gid) for future in waiting] == [-1 - number for number in range(400)]
        assert wait_for(lambda: listener.statistics()["in_flight"] == 0)
        assert listener.statistics()["calls"] == 401


def test_large_requests_that_wait_do_not_fill_the_server():
    with served(max_in_flight_bytes=2**20) as (promises, listener), connected(listener) as channel:
        waiting = [channel.submit(ask(-1, 2**17)) for _ in range(4)]  # a megabyte each
        assert wait_for(lambda: len(promises.made) == 4)
        promises.keep()
        assert not wait(waiting, timeout=20).not_done


def test_what_fails_later_reaches_the_client_with_its_traceback():
    def fail(future):
        try:
            raise IdError("row 7 is not here")
        except IdError as error:
            future.set_exception(error)

    with served() as (promises, listener), connected(listener) as channel:
        futures = [channel.submit(ask(-1 - number)) for number in range(4)]
        assert wait_for(lambda: len(promises.made) == 4)
        made = dict(promises.made)
        fail(made[-1])
        made[-2].set_exception(PeerLostError("owner 3 is gone"))
        made[-3].cancel()
        made[-4].set_result("no message")
        with pytest.raises(RemoteError, match="IdError: row 7 is not here") as caught:
            futures[0].result(20)
        assert "in fail" in caught.value.remote_traceback
        with pytest.raises(PeerLostError, match="owner 3 is gone"):
            futures[1].result(20)
        with pytest.raises(RemoteError, match="CancelledError"):
            futures[2].result(20)
        with pytest.raises(RemoteError, match="str is not a registered message type"):
            futures[3].result(20)
        assert listener.statistics()["failures"] == 4


def test_a_future_that_is_done_already_is_an_answer():
    def handler(request):
        future = Future()
        future.set_result(LocateReply(gid=request.raw))
        return future

    with serve(handler, codec=CODEC, token=TOKEN) as listener, connected(listener) as channel:
        assert channel.call(ask(5)).gid.tolist() == [5]


def test_a_request_that_is_repeated_while_it_waits_is_taken_once():
    with served() as (promises, listener), Attacker(listener, TOKEN) as client:
        for _ in range(3):
            client.send(REQUEST.pack(Kind.REQUEST, 7, 600_000), *CODEC.encode(ask(-1)))
        assert wait_for(lambda: promises.made)
        client.send(REQUEST.pack(Kind.REQUEST, 8, 600_000), *CODEC.encode(ask(1)))
        numbers = (REPLY.unpack(frames[0])[1] for frames in iter(client.receive, None) if frames[0][0] == Kind.REPLY)
        assert next(numbers) == 8
        assert len(promises.made) == 1
        promises.keep()
        assert next(numbers) == 7


def test_a_client_that_left_is_sent_nothing_and_asks_again_over_another_connection():
    with served() as (promises, listener):
        client = Attacker(listener, TOKEN)
        client.send(REQUEST.pack(Kind.REQUEST, 7, 600_000), *CODEC.encode(ask(-1)))
        assert wait_for(lambda: promises.made)
        reset(client.sock)
        assert wait_for(lambda: not listener._clients)
        with connected(listener) as channel:
            again = channel.submit(ask(-1))
            assert wait_for(lambda: len(promises.made) == 2)
            promises.keep()
            assert again.result(20).gid.tolist() == [-1]
        found = listener.statistics()
        assert (found["calls"], found["expired"], found["in_flight"]) == (1, 1, 0)


def test_what_comes_after_the_deadline_of_the_client_is_not_sent():
    with served() as (promises, listener), connected(listener) as channel:
        late = channel.submit(ask(-1), seconds=0.3)
        assert wait_for(lambda: promises.made)
        end = time.monotonic() + 0.3  # the listener's own, which begins when the request has come, is no later
        with pytest.raises(DeadlineExceededError):
            late.result(20)
        assert wait_for(lambda: time.monotonic() > end)
        promises.keep()
        assert wait_for(lambda: listener.statistics()["expired"] == 1)
        assert channel.call(ask(1)).gid.tolist() == [2]
        assert channel.statistics()["connections"] == 1


def test_a_listener_that_drains_waits_for_what_it_has_promised():
    with served() as (promises, listener), connected(listener) as channel:
        waiting = channel.submit(ask(-1))
        assert wait_for(lambda: promises.made)
        assert not listener.drain(0.3)
        promises.keep()
        assert waiting.result(20).gid.tolist() == [-1]
        assert listener.drain(20)


def test_a_listener_that_was_closed_sends_nothing():
    with served() as (promises, listener), connected(listener, call_seconds=0.5, connect_seconds=0.5) as channel:
        waiting = channel.submit(ask(-1))
        assert wait_for(lambda: promises.made)
        listener.close()
        promises.keep()
        with pytest.raises(TransportError):
            waiting.result(20)
        assert listener.statistics()["in_flight"] == 0
