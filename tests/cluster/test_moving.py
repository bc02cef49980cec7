"""Channels whose peers turn up elsewhere; and all that channels must do anyway."""

from collections.abc import Collection

import pytest
import torch

from halohop.cluster.every import Every
from halohop.cluster.moving import MovingChannel
from halohop.errors import TransportError
from halohop.store.requests import LocateReply, LocateRequest
from halohop.testing.contracts import TransportContract
from halohop.testing.worlds import free_addresses
from halohop.transport import Channel, Codec, Handler, Limits, Listener, Network, Token, serve
from halohop.transport.base import DEFAULT_LIMITS

LIMITS = Limits(call_seconds=40, attempt_seconds=0.5, connect_seconds=30)


class MovingNetwork:
    def serve(
        self,
        handler: Handler,
        *,
        codec: Codec,
        token: Token | None = None,
        bind: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
        waiting: Collection[type] = (),
    ) -> Listener:
        return serve(handler, codec=codec, token=token, bind=bind, limits=limits, waiting=waiting)

    def connect(
        self,
        address: str,
        *,
        codec: Codec,
        token: Token | None = None,
        peer: str = "server",
        limits: Limits = DEFAULT_LIMITS,
    ) -> Channel:
        return MovingChannel([address], codec=codec, token=token, peer=peer, limits=limits)


class TestMovingChannel(TransportContract):
    @pytest.fixture
    def network(self) -> Network:
        return MovingNetwork()

    def moving(self, address: str) -> MovingChannel:
        return MovingChannel([address], codec=self.codec, token=self.token, peer="host 7", limits=LIMITS)

    def elsewhere(self, summand: int) -> Listener:
        def answer(request: LocateRequest) -> LocateReply:
            return LocateReply(gid=request.raw + summand)

        return serve(answer, codec=self.codec, token=self.token, limits=LIMITS)

    def test_what_waits_is_asked_at_the_new_address(self) -> None:
        with self.elsewhere(1) as first, self.moving(first.address) as channel:
            assert channel.call(self.ask(1)).gid.tolist() == [2]
            assert not channel.waits_longer_than(0)
            first.close()
            futures = [channel.submit(self.ask(value)) for value in range(20)]
            assert channel.waits_longer_than(0)
            assert not channel.waits_longer_than(100)
            with self.elsewhere(2) as second:
                channel.also(second.address)
                channel.also(second.address)  # known by now
                assert [int(future.result(timeout=30).gid) for future in futures] == list(range(2, 22))
                assert channel.call(self.ask(7)).gid.tolist() == [9]
                assert channel.addresses == (second.address, first.address)
                counted = channel.statistics()
                assert (counted["calls"], counted["connections"], counted["failures"]) == (22, 2, 0)
                assert counted["in_flight"] == counted["waiting"] == 0

    def test_the_old_address_is_tried_again_too(self) -> None:
        (nowhere,) = free_addresses(1)
        with self.elsewhere(1) as first, self.moving(first.address) as channel:
            channel.also(nowhere)
            assert channel.call(self.ask(1)).gid.tolist() == [2]

    def test_what_waits_when_it_is_closed_fails(self) -> None:
        here, there = free_addresses(2)
        with self.moving(here) as channel:
            future = channel.submit(self.ask(1))
            channel.also(there)
            later = channel.submit(self.ask(1))
            channel.close()
            for each in (future, later):
                with pytest.raises(TransportError, match=r"'host 7'.*was closed"):
                    each.result(timeout=20)
            channel.also("127.0.0.1:1")  # too late, and no harm
            with pytest.raises(TransportError, match="was closed"):
                channel.call(self.ask(1))

    def test_what_cannot_be_sent_is_refused_at_once(self) -> None:
        with self.moving(*free_addresses(1)) as channel:
            with pytest.raises(Exception, match="str"):
                channel.submit("no request").result(timeout=20)
            assert not channel.waits_longer_than(0)


def test_actions_that_fail_are_tried_again(caplog):
    times = torch.zeros(1)

    def fail_once() -> None:
        times.add_(1)
        if times == 1:
            raise TransportError("for once")

    with Every(0.01, fail_once, name="test") as every:
        while times < 3:
            every._closed.wait(0.01)
    assert "for once" in caplog.text
    seen = int(times)
    every.close()
    assert int(times) == seen
