"""What every transport must do about peers: who is let in, who is waited for, who comes back. The rest: `contracts`."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from halohop.errors import (
    AuthenticationError,
    PeerLostError,
)
from halohop.store.requests import LocateReply, LocateRequest
from halohop.testing.messages import MESSAGE_TYPES, same
from halohop.transport import Channel, Codec, Handler, Limits, Listener, Network, Token

LIMITS = Limits(call_seconds=20, attempt_seconds=2, connect_seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unheard:
    """A message that only the client's codec knows."""

    text: str


class PeerContract:
    """The part of `halohop.testing.contracts.TransportContract` that is about peers, and what its tests are written with."""

    codec = Codec(MESSAGE_TYPES)
    token = Token("a token that tests share")

    @pytest.fixture
    def network(self) -> Network:
        raise NotImplementedError("a contract test class provides the fixture `network`")

    @contextmanager
    def pair(
        self,
        network: Network,
        handler: Handler = lambda request: request,
        *,
        limits: Limits = LIMITS,
        server_limits: Limits = LIMITS,
    ) -> Iterator[tuple[Channel, Listener]]:
        """A listener, and a channel to it."""
        with (
            network.serve(handler, codec=self.codec, token=self.token, limits=server_limits) as listener,
            network.connect(listener.address, codec=self.codec, token=self.token, peer="host 7", limits=limits) as channel,
        ):
            yield channel, listener

    @staticmethod
    def ask(value: int, size: int = 1) -> LocateRequest:
        return LocateRequest(node_type="node", raw=torch.full((size,), value))

    def assert_named(self, error: BaseException, listener: Listener | str, operation: str = "LocateRequest") -> None:
        """The error says who, where and what."""
        address = listener if isinstance(listener, str) else listener.address
        for part in ("host 7", address, operation):
            assert part in str(error)

    @pytest.mark.parametrize("token", [None, Token("another token, that is wrong")])
    def test_a_wrong_token(self, network: Network, token: Token | None) -> None:
        seen: list[Any] = []
        with network.serve(seen.append, codec=self.codec, token=self.token, limits=LIMITS) as listener:
            with network.connect(listener.address, codec=self.codec, token=token, peer="host 7", limits=LIMITS) as channel:
                for _ in range(2):
                    with pytest.raises(AuthenticationError, match="token") as caught:
                        channel.call(self.ask(1))
                    self.assert_named(caught.value, listener)
                    assert "another token, that" not in str(caught.value)
            assert seen == []
            assert listener.statistics()["sessions"] == 0

    def test_a_server_without_the_token(self, network: Network) -> None:
        with (
            network.serve(lambda request: request, codec=self.codec, limits=LIMITS) as listener,
            network.connect(listener.address, codec=self.codec, token=self.token, limits=LIMITS) as channel,
            pytest.raises(AuthenticationError),
        ):
            channel.call(self.ask(1))

    def test_nobody_there(self, network: Network) -> None:
        with self.pair(network) as (_, listener):
            address = listener.address
        limits = Limits(call_seconds=20, attempt_seconds=0.5, connect_seconds=0.5)
        with network.connect(address, codec=self.codec, token=self.token, peer="host 7", limits=limits) as channel:
            start = time.monotonic()
            with pytest.raises(PeerLostError, match="could not be reached") as caught:
                channel.call(self.ask(1))
            assert 0.4 < time.monotonic() - start < 2
            self.assert_named(caught.value, address)

    def test_a_server_that_comes_later(self, network: Network) -> None:
        with self.pair(network) as (_, listener):
            address = listener.address
        with network.connect(address, codec=self.codec, token=self.token, limits=LIMITS) as channel:
            future = channel.submit(self.ask(5))
            with network.serve(lambda request: request, codec=self.codec, token=self.token, bind=address, limits=LIMITS):
                assert same(future.result(timeout=10), self.ask(5))

    def test_a_server_that_restarts(self, network: Network) -> None:
        started, released = threading.Event(), threading.Event()

        def stuck(request: LocateRequest) -> LocateReply:
            started.set()
            released.wait(20)
            return LocateReply(gid=request.raw - 1)

        with self.pair(network, stuck) as (channel, listener):
            futures = [channel.submit(self.ask(value)) for value in range(50)]
            assert started.wait(10)
            listener.close()
            released.set()
            again: Handler = lambda request: LocateReply(gid=request.raw + 1)  # noqa: E731
            with network.serve(again, codec=self.codec, token=self.token, bind=listener.address, limits=LIMITS):
                assert [int(future.result(timeout=15).gid) for future in futures] == list(range(1, 51))
            assert channel.statistics()["connections"] == 2
            assert channel.statistics()["retries"] >= 1

    def test_a_server_that_does_not_come_back(self, network: Network) -> None:
        limits = Limits(call_seconds=0.5, attempt_seconds=0.2)
        with self.pair(network, limits=limits) as (channel, listener):
            channel.call(self.ask(1))
            listener.close()
            start = time.monotonic()
            with pytest.raises(PeerLostError, match=r"went away .* within the deadline of 0\.5 s") as caught:
                channel.call(self.ask(1))
            assert time.monotonic() - start < 2
            self.assert_named(caught.value, listener)
