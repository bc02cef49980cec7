"""What channels and listeners do, plain or encrypted, as a test class: inherit it, and pytest runs the tests."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

import pytest
import torch

from halohop.errors import (
    DeadlineExceededError,
    InputError,
    MessageTooLargeError,
    RemoteError,
    TransportError,
)
from halohop.store.requests import LocateReply, LocateRequest
from halohop.transport import Codec, Limits, connect, serve
from tests.support.messages import MESSAGE_TYPES, random_messages, same
from tests.support.peers import LIMITS, PeerContract, Unheard
from tests.support.strangers import wait_for


class TransportContract(PeerContract):
    """What `halohop.transport.serve` and `connect` do.

    Example::

        class TestEncrypted(TransportContract):
            token = Token("a token that tests share", encrypt=True)
    """

    def test_every_message_arrives_as_it_was_sent(self) -> None:
        with self.pair() as (channel, _):
            for seed in range(10):
                for message in random_messages(seed):
                    assert same(channel.call(message), message)

    def test_what_was_received_may_be_written_to(self) -> None:
        kept = torch.arange(100_000)
        with self.pair(lambda request: LocateReply(gid=kept)) as (channel, _):
            channel.call(self.ask(0)).gid.zero_()
            assert torch.equal(channel.call(self.ask(0)).gid, torch.arange(100_000))

    def test_many_in_flight_from_many_threads(self) -> None:
        def handler(request: LocateRequest) -> LocateReply:
            return LocateReply(gid=request.raw + 1)

        limits = Limits(call_seconds=20, max_in_flight=7, max_in_flight_bytes=200_000)
        with self.pair(handler, limits=limits, server_limits=limits) as (channel, _):

            def ask_all(thread: int) -> None:
                values = [1000 * thread + i for i in range(60)]
                futures = [channel.submit(self.ask(value, size=1 + value % 5000)) for value in values]
                for value, future in zip(values, futures, strict=True):
                    gid = future.result(timeout=60).gid
                    assert gid.tolist() == [value + 1] * (1 + value % 5000)

            with ThreadPoolExecutor(8) as pool:
                for done in as_completed([pool.submit(ask_all, thread) for thread in range(8)]):
                    done.result()

    def test_requests_that_wait_for_others_have_threads_of_their_own(self) -> None:
        """Two servers that ask each other, with as many calls in the making as they have threads."""
        limits = Limits(call_seconds=20, handler_threads=2)
        asked = threading.Semaphore(0)

        def handler(request: Any) -> Any:
            if isinstance(request, Unheard):
                asked.release()
                other = peers[request.text]
                return LocateReply(gid=other.call(self.ask(7)).gid)
            return LocateReply(gid=request.raw)

        codec = Codec([*MESSAGE_TYPES, Unheard])
        options: dict[str, Any] = {"codec": codec, "token": self.token, "limits": limits}
        with (
            serve(handler, waiting=[Unheard], **options) as first,
            serve(handler, waiting=[Unheard], **options) as second,
            connect(first.address, **options) as to_first,
            connect(second.address, **options) as to_second,
        ):
            peers = {"first": to_first, "second": to_second}
            futures = [to_first.submit(Unheard(text="second")) for _ in range(4)]
            futures += [to_second.submit(Unheard(text="first")) for _ in range(4)]
            assert [int(future.result(timeout=60).gid) for future in futures] == [7] * 8

    def test_a_slow_request_of_a_type_that_was_quick_holds_up_no_client(self) -> None:
        """How long the next one takes does not follow from those before."""
        released = threading.Event()

        def handler(request: LocateRequest) -> LocateReply:
            if int(request.raw) == 0:
                assert released.wait(60)
            return LocateReply(gid=request.raw)

        with self.pair(handler) as (channel, listener):
            for _ in range(100):
                channel.call(self.ask(1))
            with connect(listener.address, codec=self.codec, token=self.token, limits=LIMITS) as other:
                slow = channel.submit(self.ask(0))
                for asked in (channel, other) * 10:
                    assert asked.submit(self.ask(2)).result(timeout=60).gid.tolist() == [2]
                assert not slow.done()
                released.set()
                assert slow.result(timeout=60).gid.tolist() == [0]
                assert channel.statistics()["connections"] == other.statistics()["connections"] == 1

    def test_closing_from_within_and_amidst_requests(self) -> None:
        """A thread that answers may close its own listener."""
        inside, released = threading.Event(), threading.Event()

        def handler(request: LocateRequest) -> LocateReply:
            if int(request.raw) == 2:
                listener.close()
            if int(request.raw) == 0:
                inside.set()
                assert released.wait(60)
            return LocateReply(gid=request.raw)

        for last in (0, 2):
            with self.pair(handler) as (channel, listener):
                channel.call(self.ask(1))
                future = channel.submit(self.ask(last), seconds=1)
                if last == 0:
                    assert inside.wait(60)
                start = time.monotonic()
                listener.close()
                assert time.monotonic() - start < 10  # the handler would stay for a minute
                released.set()
                with pytest.raises(TransportError):
                    future.result(timeout=60)

    def test_a_listener_that_was_closed_is_gone_though_a_handler_has_not_returned(self) -> None:
        """Its address is free, and its clients know."""
        inside, released = threading.Event(), threading.Event()

        def handler(request: LocateRequest) -> LocateReply:
            if int(request.raw) == 0:
                inside.set()
                released.wait(60)
            return LocateReply(gid=request.raw)

        with self.pair(handler) as (channel, listener):
            future = channel.submit(self.ask(0))
            assert inside.wait(60)
            listener.close()
            with self.elsewhere(5, bind=listener.address):
                assert future.result(timeout=60).gid.tolist() == [5]
                released.set()
                listener.close()  # once more: the address is no longer its own
                with connect(listener.address, codec=self.codec, token=self.token, limits=LIMITS) as other:
                    assert other.call(self.ask(1)).gid.tolist() == [6]

    def test_a_handler_that_raises(self) -> None:
        def handler(request: LocateRequest) -> LocateReply:
            raise KeyError("no such shard")

        with self.pair(handler) as (channel, listener):
            for _ in range(20):  # more often than there are handler threads: they survive it
                with pytest.raises(RemoteError, match="no such shard") as caught:
                    channel.call(self.ask(1))
            self.assert_named(caught.value, listener)
            assert "in handler" in caught.value.remote_traceback
            with pytest.raises(RemoteError, match="features of hop 3"):
                channel.call(self.ask(1), operation="features of hop 3")

    def test_a_handler_that_leaves_by_the_back_door(self) -> None:
        def handler(request: LocateRequest) -> LocateReply:
            raise SystemExit(3)

        with self.pair(handler) as (channel, _), pytest.raises(RemoteError, match="SystemExit"):
            channel.call(self.ask(1))

    @pytest.mark.parametrize("warm", [0, 200])
    def test_a_handler_whose_error_cannot_be_told(self, warm: int) -> None:
        """Such as one about a file whose name is no text. It ends no thread, least of all the one that reads."""

        class UntoldError(Exception):
            def __str__(self) -> str:
                raise LookupError("no words")

        errors: list[Exception] = [UntoldError(), ValueError("\udcff")]

        def handler(request: LocateRequest) -> LocateReply:
            if int(request.raw) < len(errors):
                raise errors[int(request.raw)]
            return LocateReply(gid=request.raw)

        with self.pair(handler) as (channel, _):
            for value, name in ((0, "UntoldError"), (1, r"ValueError: \\udcff")):
                for _ in range(warm):
                    channel.call(self.ask(2))
                with pytest.raises(RemoteError, match=name):
                    channel.call(self.ask(value))
            assert channel.call(self.ask(2)).gid.tolist() == [2]

    def test_a_handler_whose_reply_cannot_be_sent(self) -> None:
        with (
            self.pair(lambda request: {"not": "a message"}) as (channel, _),
            pytest.raises(RemoteError, match="dict is not a registered message type"),
        ):
            channel.call(self.ask(1))

    def test_a_handler_that_never_returns(self) -> None:
        released = threading.Event()

        def handler(request: LocateRequest) -> LocateReply:
            released.wait(60)
            return LocateReply(gid=request.raw)

        limits = Limits(call_seconds=0.6, attempt_seconds=0.3)
        with self.pair(handler, limits=limits) as (channel, listener):
            assert wait_for(lambda: channel.is_connected)
            start = time.monotonic()
            with pytest.raises(DeadlineExceededError, match=r"0\.6 s") as caught:
                channel.call(self.ask(1))
            assert 0.5 < time.monotonic() - start < 10  # the handler would stay for a minute
            self.assert_named(caught.value, listener)
            assert channel.statistics()["retries"] == 0  # nothing is lost on a connection that lasts
            assert listener.statistics()["in_flight"] == 1
            released.set()

    def test_messages_that_are_too_large(self) -> None:
        def handler(request: LocateRequest) -> LocateReply:
            return LocateReply(gid=torch.zeros(int(request.raw[0]), dtype=torch.float64))

        small, large = Limits(max_message_bytes=2**17), Limits(max_message_bytes=2**24)
        for mine, theirs in ((small, large), (large, small), (small, small)):
            with self.pair(handler, limits=mine, server_limits=theirs) as (channel, listener):
                with pytest.raises(MessageTooLargeError, match="131072") as caught:
                    channel.call(self.ask(1, size=20_000))
                self.assert_named(caught.value, listener)
                with pytest.raises(MessageTooLargeError, match="131072") as caught:
                    channel.call(self.ask(20_000))
                self.assert_named(caught.value, listener)
                assert len(channel.call(self.ask(10_000)).gid) == 10_000
                assert channel.statistics()["connections"] == 1

    def test_a_request_that_nobody_understands(self) -> None:
        with (
            self.pair() as (channel, _),
            pytest.raises(InputError, match="Unheard is not a registered message type"),
        ):
            channel.call(Unheard(text="hello"))

    def test_closing_while_calls_are_pending(self) -> None:
        released = threading.Event()

        def handler(request: LocateRequest) -> LocateReply:
            released.wait(60)
            return LocateReply(gid=request.raw)

        with self.pair(handler) as (channel, listener):
            futures = [channel.submit(self.ask(value)) for value in range(20)]
            start = time.monotonic()
            channel.close()
            assert time.monotonic() - start < 10  # the handler would stay for a minute
            for future in [*futures, channel.submit(self.ask(1))]:
                with pytest.raises(TransportError, match="was closed") as caught:
                    future.result(timeout=0)
                self.assert_named(caught.value, listener)
            channel.close()
            start = time.monotonic()
            listener.close()
            assert time.monotonic() - start < 10
            listener.close()
            released.set()

    def test_asking_again_from_a_callback(self) -> None:
        second: Future[Future[Any]] = Future()
        with self.pair() as (channel, _):
            channel.submit(self.ask(1)).add_done_callback(lambda _: second.set_result(channel.submit(self.ask(2))))
            assert same(second.result(timeout=60).result(timeout=60), self.ask(2))

    def test_statistics(self) -> None:
        arrived, released = threading.Semaphore(0), threading.Event()

        def handler(request: LocateRequest) -> LocateReply:
            arrived.release()
            assert released.wait(60)
            return LocateReply(gid=request.raw)

        limits = Limits(max_in_flight=2)
        with self.pair(handler, limits=limits) as (channel, listener):
            futures = [channel.submit(self.ask(value, size=1000)) for value in range(3)]
            for _ in range(2):
                assert arrived.acquire(timeout=60)
            for side in (channel, listener):
                assert side.statistics()["in_flight"] == 2
            assert channel.statistics()["waiting"] == 1
            released.set()
            for future in futures:
                future.result(timeout=60)
            channel.call(self.ask(9))  # by its answer, the listener has counted those before it
            client, server = channel.statistics(), listener.statistics()
        assert (client["calls"], client["failures"], client["in_flight"], client["waiting"]) == (4, 0, 0, 0)
        assert 24_000 < client["bytes_sent"] < 25_000
        assert 24_000 < client["bytes_received"] < 25_000
        assert client["call_seconds"] > 0
        assert client["connections"] == server["sessions"] == 1
        assert server["calls"] == 4
        assert server["bytes_received"] == client["bytes_sent"]
        assert server["handler_seconds"] > 0
