"""Names of hosts are looked up beside the channel's thread, at each attempt, and all their addresses are tried."""

import errno
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import pytest
import torch

from halohop.errors import DeadlineExceededError, PeerLostError, TransportError
from halohop.store.requests import LocateReply, LocateRequest
from halohop.testing.worlds import free_addresses
from halohop.transport import Codec, Limits, connect, serve
from halohop.transport.addresses import parsed
from halohop.transport.client_port import ClientPort
from halohop.transport.lookup import Lookup

CODEC = Codec([LocateRequest, LocateReply])
LIMITS = Limits(call_seconds=20, attempt_seconds=0.3, connect_seconds=20)
NAME = "server.test"


def answer(request: LocateRequest) -> LocateReply:
    return LocateReply(gid=request.raw + 1)


def ask(channel: Any, **options: Any) -> "Future[Any]":
    return channel.submit(LocateRequest(node_type="node", raw=torch.tensor([1])), **options)


class Names:
    """Stands in for the system's look-up of `NAME`: it waits until it is released, and gives `targets`."""

    def __init__(self) -> None:
        self.resolve = socket.getaddrinfo
        self.targets: list[tuple[str, int]] = []
        self.released = threading.Event()
        self.threads: list[str] = []

    def __call__(self, host: str, *rest: Any, **options: Any) -> Any:
        if host != NAME or options.get("flags") == socket.AI_NUMERICHOST:
            return self.resolve(host, *rest, **options)
        self.threads.append(threading.current_thread().name)
        assert self.released.wait(60)
        if not self.targets:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", target) for target in self.targets]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    stub = Names()
    monkeypatch.setattr(socket, "getaddrinfo", stub)
    yield stub
    stub.released.set()


def test_calls_end_in_time_while_a_name_is_looked_up(names):
    """Also one that is made later, while the first waits; the look-up that takes long is not begun a second time."""
    with connect(f"{NAME}:5510", codec=CODEC, limits=LIMITS) as channel:
        slow = ask(channel)
        begun = time.monotonic()
        with pytest.raises(TransportError, match=rf"the name '{NAME}' was not resolved in time"):
            ask(channel, seconds=2).result(timeout=60)
        assert time.monotonic() - begun < LIMITS.call_seconds / 2
        assert not slow.done()
        with serve(answer, codec=CODEC) as listener:
            names.targets = [parsed(listener.address)]
            names.released.set()
            assert slow.result(timeout=60).gid.tolist() == [2]
    assert names.threads == [f"halohop-lookup-{NAME}"]


def test_a_channel_is_closed_while_a_name_is_looked_up(names):
    channel = connect(f"{NAME}:5510", codec=CODEC, limits=LIMITS)
    waiting = ask(channel)
    begun = time.monotonic()
    channel.close()
    assert time.monotonic() - begun < LIMITS.call_seconds / 2
    with pytest.raises(TransportError, match="closed"):
        waiting.result(timeout=60)


def test_a_slow_name_does_not_hold_up_the_next_address(names):
    with serve(answer, codec=CODEC) as listener, connect(f"{NAME}:5510", listener.address, codec=CODEC, limits=LIMITS) as channel:
        assert ask(channel).result(timeout=60).gid.tolist() == [2]


def test_a_name_that_moves_is_found(names):
    names.released.set()
    limits = Limits(call_seconds=20, attempt_seconds=20, connect_seconds=20)
    with serve(answer, codec=CODEC) as first, serve(answer, codec=CODEC) as second:
        names.targets = [parsed(first.address)]
        with connect(f"{NAME}:5510", codec=CODEC, limits=limits) as channel:
            assert ask(channel).result(timeout=60).gid.tolist() == [2]
            names.targets = [parsed(second.address)]
            first.close()
            assert ask(channel).result(timeout=60).gid.tolist() == [2]
    assert len(names.threads) >= 2


def test_all_addresses_of_a_name_are_tried_in_one_attempt(names):
    names.released.set()
    limits = Limits(call_seconds=20, attempt_seconds=20, connect_seconds=20)
    with serve(answer, codec=CODEC) as listener:
        names.targets = [*map(parsed, free_addresses(2)), parsed(listener.address)]
        with connect(f"{NAME}:5510", codec=CODEC, limits=limits) as channel:
            assert ask(channel).result(timeout=60).gid.tolist() == [2]
    assert len(names.threads) == 1


def test_an_address_that_does_not_answer_comes_last_in_the_next_attempt(names):
    names.released.set()
    with socket.create_server(("127.0.0.1", 0)) as silent, serve(answer, codec=CODEC) as listener:
        names.targets = [silent.getsockname(), parsed(listener.address)]
        with connect(f"{NAME}:5510", codec=CODEC, limits=LIMITS) as channel:
            assert ask(channel).result(timeout=60).gid.tolist() == [2]
    assert len(names.threads) == 2


def test_a_family_that_the_system_lacks_is_passed_over(names, monkeypatch):
    names.released.set()

    class NoIpv6(socket.socket):
        def __init__(self, family=socket.AF_INET, *rest, **options):
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *rest, **options)

    with serve(answer, codec=CODEC) as listener:
        place = parsed(listener.address)
        found = [(socket.AF_INET6, 1, 6, "", ("::1", place[1], 0, 0)), (socket.AF_INET, 1, 6, "", place)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, flags=0, **__: [] if flags else found)
        monkeypatch.setattr(socket, "socket", NoIpv6)
        with connect(f"{NAME}:5510", codec=CODEC, limits=LIMITS) as channel:
            assert ask(channel).result(timeout=60).gid.tolist() == [2]


def test_a_name_without_an_address_is_called_that_until_it_has_one(names):
    names.released.set()
    with connect(f"{NAME}:5510", codec=CODEC, limits=LIMITS) as channel:
        with pytest.raises((PeerLostError, DeadlineExceededError), match=rf"the name '{NAME}' has no address"):
            ask(channel, seconds=1).result(timeout=60)
        with serve(answer, codec=CODEC) as listener:
            names.targets = [parsed(listener.address)]
            assert ask(channel).result(timeout=60).gid.tolist() == [2]


def test_what_was_found_long_ago_is_looked_up_again(names):
    """An attempt was over before the name was found; the next one comes much later."""
    limits = Limits(attempt_seconds=0.05)
    with closing(ClientPort([f"{NAME}:5510"], limits, None)) as port, serve(answer, codec=CODEC) as listener:
        port.open()
        port.drop()
        names.targets = [parsed(address) for address in free_addresses(1)]
        names.released.set()
        port.wait(60)  # until the look-up ends
        assert not threading.Event().wait(2 * limits.attempt_seconds)
        names.targets = [parsed(listener.address)]
        port.open()
        assert [event for _ in range(3) for event in port.wait(0.1)] == []
    assert len(names.threads) == 2


def test_a_process_without_room_for_a_thread_says_so(monkeypatch):
    def full(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        lookup = Lookup((NAME, 5), lambda: None)
    assert lookup.targets == []
    assert "can't start new thread" in lookup.reason
