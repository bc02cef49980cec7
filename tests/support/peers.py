"""What channels and listeners do about peers: who is let in, who is waited for, who comes back. The rest: `contracts`."""

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from halohop.errors import (
    AuthenticationError,
    DeadlineExceededError,
    PeerLostError,
    TransportError,
)
from halohop.store.requests import LocateReply, LocateRequest
from halohop.testing.worlds import free_address
from halohop.transport import Channel, Codec, ConnectionLostError, Handler, Limits, Listener, Token, connect, serve
from tests.support.messages import MESSAGE_TYPES, same
from tests.support.strangers import wait_for

LIMITS = Limits(call_seconds=20, attempt_seconds=2, connect_seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unheard:
    """A message that only the client's codec knows."""

    text: str


class PeerContract:
    """The part of `TransportContract` (tests.support.contracts) that is about peers, and what its tests are written with."""

    codec = Codec(MESSAGE_TYPES)
    token = Token("a token that tests share")

    @contextmanager
    def pair(
        self,
        handler: Handler = lambda request: request,
        *,
        limits: Limits = LIMITS,
        server_limits: Limits = LIMITS,
    ) -> Iterator[tuple[Channel, Listener]]:
        """A listener at an address that stays free when it is closed, and a channel to it."""
        with (
            serve(handler, codec=self.codec, token=self.token, bind=free_address(), limits=server_limits) as listener,
            connect(listener.address, codec=self.codec, token=self.token, peer="host 7", limits=limits) as channel,
        ):
            yield channel, listener

    @staticmethod
    def ask(value: int, size: int = 1) -> LocateRequest:
        return LocateRequest(node_type="node", raw=torch.full((size,), value, dtype=torch.float64))

    def assert_named(self, error: BaseException, listener: Listener | str, operation: str = "LocateRequest") -> None:
        """The error says who, where and what."""
        address = listener if isinstance(listener, str) else listener.address
        for part in ("host 7", address, operation):
            assert part in str(error)

    @pytest.mark.parametrize("token", [None, Token("another token, that is wrong")])
    def test_a_wrong_token(self, token: Token | None) -> None:
        seen: list[Any] = []
        with serve(seen.append, codec=self.codec, token=self.token, limits=LIMITS) as listener:
            with connect(listener.address, codec=self.codec, token=token, peer="host 7", limits=LIMITS) as channel:
                for _ in range(2):
                    with pytest.raises(AuthenticationError, match="token") as caught:
                        channel.call(self.ask(1))
                    self.assert_named(caught.value, listener)
                    assert "another token, that" not in str(caught.value)
            assert seen == []
            assert listener.statistics()["sessions"] == 0

    def test_a_server_without_the_token(self) -> None:
        with (
            serve(lambda request: request, codec=self.codec, limits=LIMITS) as listener,
            connect(listener.address, codec=self.codec, token=self.token, limits=LIMITS) as channel,
            pytest.raises(AuthenticationError),
        ):
            channel.call(self.ask(1))

    def test_nobody_there(self) -> None:
        with self.pair() as (_, listener):
            address = listener.address
        limits = Limits(call_seconds=20, attempt_seconds=0.5, connect_seconds=0.5)
        with connect(address, codec=self.codec, token=self.token, peer="host 7", limits=limits) as channel:
            start = time.monotonic()
            with pytest.raises(PeerLostError, match="could not be reached") as caught:
                channel.call(self.ask(1))
            assert 0.4 < time.monotonic() - start < LIMITS.call_seconds / 2
            self.assert_named(caught.value, address)

    def test_what_nobody_was_there_for_is_not_kept(self) -> None:
        with self.to(free_address(), connect_seconds=0.1) as channel:
            sent = []
            for _ in range(3):
                request = self.ask(5)
                sent.append(weakref.ref(request.raw))
                channel.submit(request).exception(timeout=60)
                del request
            assert wait_for(lambda: all(tensor() is None for tensor in sent))  # the channel's thread turns away from the last

    def test_a_server_that_comes_later(self) -> None:
        with self.pair() as (_, listener):
            address = listener.address
        with connect(address, codec=self.codec, token=self.token, limits=LIMITS) as channel:
            future = channel.submit(self.ask(5))
            with serve(lambda request: request, codec=self.codec, token=self.token, bind=address, limits=LIMITS):
                assert same(future.result(timeout=60), self.ask(5))

    def test_a_server_that_restarts(self) -> None:
        started, released = threading.Event(), threading.Event()

        def stuck(request: LocateRequest) -> LocateReply:
            started.set()
            released.wait(60)
            return LocateReply(gid=request.raw - 1)

        with self.pair(stuck) as (channel, listener):
            futures = [channel.submit(self.ask(value)) for value in range(50)]
            assert started.wait(60)
            listener.close()
            released.set()
            with self.elsewhere(1, bind=listener.address):
                assert [int(future.result(timeout=60).gid) for future in futures] == list(range(1, 51))
            assert channel.statistics()["connections"] == 2
            assert channel.statistics()["retries"] >= 1

    def test_a_call_may_have_a_time_of_its_own(self) -> None:
        """Longer than one usually waits for a server that was never there, or shorter than for one that is."""
        released = threading.Event()

        def slow(request: LocateRequest) -> LocateReply:
            released.wait(60)
            return LocateReply(gid=request.raw)

        address = free_address()
        with self.to(address, connect_seconds=0.2) as channel:
            patient = channel.submit(self.ask(1), seconds=20)
            with pytest.raises(PeerLostError, match="could not be reached within 0"):
                channel.call(self.ask(2))
            with serve(slow, codec=self.codec, token=self.token, bind=address, limits=LIMITS):
                assert wait_for(lambda: channel.is_connected)
                with pytest.raises(DeadlineExceededError, match=r"within its deadline of 0\.3 s"):
                    channel.submit(self.ask(3), seconds=0.3).result(timeout=60)
                released.set()
                assert patient.result(timeout=60).gid.tolist() == [1]

    def test_a_call_that_is_made_once_fails_with_its_connection(self) -> None:
        """In flight, and while there is none; calls that are repeated wait on."""
        started, released = threading.Event(), threading.Event()

        def stuck(request: LocateRequest) -> LocateReply:
            started.set()
            released.wait(60)
            return LocateReply(gid=request.raw)

        with self.pair(stuck) as (channel, listener):
            once, repeated = channel.submit(self.ask(1), once=True), channel.submit(self.ask(2))
            assert started.wait(60)
            listener.close()
            released.set()
            for future in (once, channel.submit(self.ask(3), once=True)):
                with pytest.raises(ConnectionLostError, match="host 7") as caught:
                    future.result(timeout=60)
                self.assert_named(caught.value, listener)
            with self.elsewhere(1, bind=listener.address):
                assert repeated.result(timeout=60).gid.tolist() == [3]

    def test_a_listener_that_ends_answers_what_it_was_sent(self, caplog: pytest.LogCaptureFixture) -> None:
        """And no more: what is asked later waits for another one; clients without a request leave at once, and do not warn."""
        started, released = threading.Event(), threading.Event()

        def slow(request: LocateRequest) -> LocateReply:
            started.set()
            released.wait(60)
            return LocateReply(gid=request.raw - 1)

        with self.pair(slow) as (channel, listener), self.to(listener.address) as idle:
            assert wait_for(lambda: idle.is_connected)
            asked = channel.submit(self.ask(1))
            assert started.wait(60)
            assert not listener.drain(0.2)
            assert wait_for(lambda: not channel.is_connected)
            assert wait_for(lambda: not idle.is_connected)
            later = channel.submit(self.ask(2))
            with pytest.raises(ConnectionLostError):
                idle.submit(self.ask(3), once=True).result(timeout=60)
            released.set()
            assert asked.result(timeout=60).gid.tolist() == [0]
            assert listener.drain(10)
            listener.close()
            with self.elsewhere(1, bind=listener.address):
                assert later.result(timeout=60).gid.tolist() == [3]
                assert "lost the connection" not in caplog.text

    @contextmanager
    def elsewhere(self, summand: int, *, bind: str | None = None) -> Iterator[Listener]:
        """A listener that adds this."""

        def answer(request: LocateRequest) -> LocateReply:
            return LocateReply(gid=request.raw + summand)

        with serve(answer, codec=self.codec, token=self.token, bind=bind, limits=LIMITS) as listener:
            yield listener

    def to(self, address: str, *, connect_seconds: float = 30) -> Channel:
        limits = Limits(call_seconds=40, attempt_seconds=0.5, connect_seconds=connect_seconds)
        return connect(address, codec=self.codec, token=self.token, peer="host 7", limits=limits)

    def test_what_waits_is_asked_at_the_new_address(self) -> None:
        with self.elsewhere(1) as first, self.to(first.address) as channel:
            assert channel.call(self.ask(1)).gid.tolist() == [2]
            assert channel.is_connected
            assert not channel.is_lost(0)
            first.close()
            futures = [channel.submit(self.ask(value)) for value in range(20)]
            assert wait_for(lambda: channel.is_lost(0))
            assert not channel.is_lost(100)
            with self.elsewhere(2) as second:
                channel.add_address(second.address)
                channel.add_address(second.address)  # known by now
                channel.add_address(second.address.removeprefix("tcp://"))
                assert [int(future.result(timeout=30).gid) for future in futures] == list(range(2, 22))
                assert channel.call(self.ask(7)).gid.tolist() == [9]
                assert channel.addresses == (second.address, first.address)
                counted = channel.statistics()
                assert (counted["calls"], counted["connections"], counted["failures"]) == (22, 2, 0)
                assert counted["in_flight"] == counted["waiting"] == 0

    def test_who_is_elsewhere_is_asked_there_though_the_old_one_lives(self) -> None:
        """It may be a host that answers nothing."""
        inside, released = threading.Event(), threading.Event()

        def stuck(request: LocateRequest) -> LocateReply:
            inside.set()
            released.wait(60)
            return LocateReply(gid=request.raw)

        with (
            serve(stuck, codec=self.codec, token=self.token, limits=LIMITS) as first,
            self.elsewhere(2) as second,
            self.to(first.address) as channel,
        ):
            futures = [channel.submit(self.ask(value)) for value in range(5)]
            assert inside.wait(60)
            channel.add_address(second.address)
            assert [int(future.result(timeout=60).gid) for future in futures] == list(range(2, 7))
            released.set()

    def test_the_old_address_is_tried_again_too(self) -> None:
        nowhere = free_address()
        with self.elsewhere(1) as first, self.to(first.address) as channel:
            channel.add_address(nowhere)
            assert channel.call(self.ask(1)).gid.tolist() == [2]

    def test_a_new_address_gives_calls_their_whole_time(self) -> None:
        """Also those to a peer that was never seen: somebody has."""
        here, there = free_address(), free_address()
        with self.to(here, connect_seconds=1) as channel:
            future = channel.submit(self.ask(1))
            channel.add_address(there)
            with pytest.raises(TimeoutError):
                future.result(timeout=2)
            with serve(lambda request: request, codec=self.codec, token=self.token, bind=there, limits=LIMITS):
                assert same(future.result(timeout=60), self.ask(1))

    def test_what_waits_for_a_new_address_when_it_is_closed_fails(self) -> None:
        here, there = free_address(), free_address()
        with self.to(here) as channel:
            futures = [channel.submit(self.ask(1))]
            channel.add_address(there)
            futures.append(channel.submit(self.ask(1)))
            channel.close()
            for future in futures:
                with pytest.raises(TransportError, match=r"'host 7'.*was closed") as caught:
                    future.result(timeout=60)
                self.assert_named(caught.value, there)
                self.assert_named(caught.value, here)
            channel.add_address(free_address())  # too late, and no harm
            with pytest.raises(TransportError, match="was closed"):
                channel.call(self.ask(1))

    def test_a_server_that_does_not_come_back(self) -> None:
        with self.pair() as (channel, listener):
            channel.call(self.ask(1))
            listener.close()
            assert wait_for(lambda: not channel.is_connected)
            start = time.monotonic()
            with pytest.raises(PeerLostError, match=r"went away .* within the deadline of 0\.5 s") as caught:
                channel.submit(self.ask(1), seconds=0.5).result(timeout=60)
            assert time.monotonic() - start < LIMITS.call_seconds / 2
            self.assert_named(caught.value, listener)
