"""Whom a connection reached: every time the server shows what it serves, and one that serves something else is asked nothing."""

import logging
import re
import socket
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest
import torch
from msgspec.msgpack import encode as msgpack

from halohop.errors import AuthenticationError, PeerLostError, ProtocolError
from halohop.store.requests import LocateReply, LocateRequest
from halohop.testing.worlds import free_address
from halohop.transport import Codec, Identity, Limits, Token, connect, handshake, serve
from halohop.transport.framing import Assembler, Pool
from halohop.transport.handshake import MAX_WELCOME_BYTES, ServerHandshake, Step, Terms
from tests.support.messages import MESSAGE_TYPES
from tests.support.strangers import GREETING, framed, hung_up, wait_for

CODEC = Codec(MESSAGE_TYPES)
TOKEN = Token("a token that tests share")
SEALED = Token("a token that tests share", encrypt=True)
LIMITS = Limits(call_seconds=20, attempt_seconds=2)
OURS, OTHER = Identity(dataset="aa" * 16, parts=(0, 1)), Identity(dataset="bb" * 16, parts=(0, 1))
EXPECTED = Identity(dataset="aa" * 16, parts=(1,))
SHOWN = msgpack(OURS)
BOTH = pytest.mark.parametrize("token", [TOKEN, SEALED], ids=["plain", "sealed"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """A message of another halohop."""

    text: str


def ask(value: int) -> LocateRequest:
    return LocateRequest(node_type="node", raw=torch.tensor([value]))


class Room:
    """Serves and connects, and notes what each server was asked."""

    def __init__(self, token):
        self.token = token
        self.asked: list[tuple[str, int]] = []

    def serve(self, identity, *, bind=None, codec=CODEC):
        """At an address that stays free when it is closed."""

        def handler(request):
            self.asked.append((identity.dataset[:1], int(request.raw)))
            return LocateReply(gid=request.raw + 1)

        return serve(handler, codec=codec, token=self.token, bind=bind or free_address(), limits=LIMITS, identity=identity)

    def connect(self, address, *, expected=EXPECTED, limits=LIMITS, codec=CODEC):
        return connect(address, codec=codec, token=self.token, peer="server 1", limits=limits, expected=expected)


def assert_lost(channel, match):
    """An error that says this comes; on a busy machine, the first calls may end before the server has shown itself."""
    for _ in range(20):
        with pytest.raises(PeerLostError) as caught:
            channel.submit(ask(2), seconds=0.6).result(timeout=60)
        if re.search(match, str(caught.value)):
            return
    pytest.fail(f"{caught.value} does not match {match}")


@BOTH
@pytest.mark.parametrize("expected", [EXPECTED, None], ids=["given", "learned"])
@pytest.mark.parametrize(
    ("found", "named"),
    [
        (OTHER, r"data set bbbb\w+ with partitions \[0, 1\]"),
        (Identity(dataset=OURS.dataset, parts=(0,)), r"data set aaaa\w+ with partitions \[0\]"),
        (Identity(), "a server without a data set"),
    ],
    ids=["data_set", "partitions", "none"],
)
def test_another_server_at_a_lost_servers_address_is_asked_nothing(token, expected, found, named):
    room = Room(token)
    with room.serve(OURS) as first, room.connect(first.address, expected=expected) as channel:
        assert channel.call(ask(1)).gid.tolist() == [2]
        first.close()
        with room.serve(found, bind=first.address) as second:
            assert_lost(channel, rf"'server 1'.*{named} answers there, where a server of data set aaaa\w+ with")
            assert second.statistics()["sessions"] > 0
    assert {*room.asked} == {("a", 1)}


@BOTH
def test_the_expected_one_is_found_again_behind_another(token):
    """At its old address once the other is gone, or at another one meanwhile."""
    room = Room(token)
    with room.serve(OURS) as first, room.connect(first.address) as channel:
        channel.call(ask(1))
        first.close()
        with room.serve(OTHER, bind=first.address) as wrong:
            waits = channel.submit(ask(2))
            assert wait_for(lambda: wrong.statistics()["sessions"] > 0)
        with room.serve(Identity(dataset=OURS.dataset, parts=(1, 2)), bind=first.address) as back:
            assert waits.result(timeout=60).gid.tolist() == [3]
            back.close()
        with room.serve(OTHER, bind=first.address) as wrong, room.serve(OURS) as elsewhere:
            waits = channel.submit(ask(4))
            assert wait_for(lambda: wrong.statistics()["sessions"] > 0)
            channel.add_address(elsewhere.address)
            assert waits.result(timeout=60).gid.tolist() == [5]
    assert room.asked == [("a", 1), ("a", 2), ("a", 4)]


@BOTH
def test_what_is_expected_may_become_more(token):
    """A connection to a server that has less is dropped at once; one that has it stays."""
    room = Room(token)
    with room.serve(OURS) as server, room.connect(server.address, expected=None) as channel:
        channel.call(ask(1))
        channel.expect(EXPECTED)
        channel.call(ask(2))
        assert channel.statistics()["connections"] == 1
        channel.expect(Identity(dataset=OURS.dataset, parts=(0, 1, 2)))
        assert_lost(channel, r"partitions \[0, 1\] answers there, where .* \[0, 1, 2\] was expected")
    assert room.asked == [("a", 1), ("a", 2)]


@BOTH
def test_the_next_address_is_tried_and_the_error_names_each(token):
    room = Room(token)
    gone = f"tcp://{free_address()}"
    options = {"codec": CODEC, "token": token, "peer": "server 1", "expected": EXPECTED}
    with room.serve(OTHER) as wrong:
        with room.serve(OURS) as right, connect(wrong.address, right.address, limits=LIMITS, **options) as channel:
            assert channel.call(ask(1)).gid.tolist() == [2]
        with connect(wrong.address, gone, limits=LIMITS, **options) as channel:
            reasons = rf"{wrong.address}: a server of data set bbbb.*{gone}: the connection was refused"
            assert_lost(channel, reasons)
    assert room.asked == [("a", 1)]


@BOTH
def test_other_message_types_are_refused_on_both_sides(token, caplog):
    room = Room(token)
    later = Codec([*MESSAGE_TYPES, Later])
    with room.serve(OURS) as server, caplog.at_level(logging.WARNING), room.connect(server.address, codec=later) as channel:
        with pytest.raises(ProtocolError, match=r"'server 1'.*other message types.*install the same halohop") as caught:
            channel.call(Later(text="hello"))
        assert server.address in str(caught.value)
        assert wait_for(lambda: "install the same halohop" in caplog.text)
        assert server.address in caplog.text
        assert server.statistics()["sessions"] == 0
    assert room.asked == []


@BOTH
def test_another_data_set_is_not_there_whatever_it_speaks(token):
    room = Room(token)
    with (
        room.serve(OTHER, codec=Codec([*MESSAGE_TYPES, Later])) as server,
        room.connect(server.address) as channel,
    ):
        assert_lost(channel, "bbbb")


# ---- servers that know the token, and do as they like


class Impostor:
    """Answers handshakes over plain TCP, the next of some ways with each connection; notes what else it is sent."""

    def __init__(self, *ways):
        self._ways = list(ways)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"
        self.met, self.heard = 0, []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while True:
            try:
                sock = self._listening.accept()[0]
            except OSError:
                return
            with sock:
                sock.settimeout(10)
                try:
                    self._meet(sock)
                except OSError:
                    continue

    def _meet(self, sock):
        sock.sendall(GREETING)
        self._exactly(sock, len(GREETING))
        server = ServerHandshake(TOKEN, Terms(max_message_bytes=2**20, messages=CODEC.digest), OURS, self._message(sock))
        sock.sendall(framed(server.challenge()))
        assert server.accept(self._message(sock)) is not None
        way = self._ways.pop(0) if len(self._ways) > 1 else self._ways[0]
        sock.sendall(way(server))
        self.met += 1
        self.heard.append(sock.recv(1000))

    def _message(self, sock):
        assembler = Assembler(max_bytes=1000, max_frames=1, pool=Pool(0))
        while not assembler.complete:
            assembler.feed(memoryview(self._exactly(sock, 1)))
        return bytes(assembler.take()[0][0])

    @staticmethod
    def _exactly(sock, count):
        data = b""
        while len(data) < count:
            more = sock.recv(count - len(data))
            if not more:
                raise ConnectionAbortedError("hung up")
            data += more
        return data

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._listening.close()


def welcome(text=SHOWN, digest=CODEC.digest):
    """A way to answer: with such an identity, signed."""

    def way(server):
        shown = handshake._packed(Terms(max_message_bytes=2**20, messages=digest)) + text
        return framed(handshake._step(Step.WELCOME) + handshake._signed(TOKEN.key, "server", server._nonces, shown))

    return way


@contextmanager
def impostor(*ways):
    with (
        closing(Impostor(*ways)) as server,
        connect(server.address, codec=CODEC, token=TOKEN, peer="server 1", limits=LIMITS, expected=EXPECTED) as channel,
    ):
        yield server, channel


@pytest.mark.parametrize(
    ("way", "error", "match"),
    [
        (lambda server: welcome()(server)[:-1] + b"\xff", AuthenticationError, "could not prove"),
        (welcome(SHOWN[:-1]), ProtocolError, "cannot be read"),
        (welcome(b""), ProtocolError, "cannot be read"),
        (welcome(SHOWN + b"\0"), ProtocolError, "cannot be read"),
        (welcome(msgpack({"dataset": OURS.dataset, "parts": [True, "1"]})), ProtocolError, "cannot be read"),
        (welcome(digest=bytes(16)), ProtocolError, "other message types"),
        (welcome(msgpack(OTHER)), PeerLostError, "bbbb"),
        (welcome(msgpack({"dataset": OURS.dataset, "parts": list(range(70_000, 90_000))})), PeerLostError, "does not speak"),
    ],
    ids=["altered", "truncated", "empty", "longer", "nonsense", "digest", "data_set", "huge"],
)
def test_identities_by_hand(way, error, match):
    with impostor(way) as (server, channel):
        if error is PeerLostError:
            assert_lost(channel, match)
        else:
            with pytest.raises(error, match=match):
                channel.call(ask(1))
        assert wait_for(lambda: server.heard)
    assert set(server.heard) == {b""}  # it was sent no request


def test_a_server_that_changes_what_it_serves_with_every_connection():
    def ends(server):
        return welcome()(server) + framed(b"\x82") + b"\xff" * 4  # and then breaks the rules of framing

    with impostor(ends, welcome(msgpack(OTHER)), ends, welcome(b"")) as (server, channel):
        future = channel.submit(ask(1))
        with pytest.raises(ProtocolError, match="cannot be read"):
            future.result(timeout=60)
        assert wait_for(lambda: server.met >= 4)  # it counts a connection after its answer
        assert channel.statistics()["connections"] == 2


@pytest.mark.parametrize("size", [MAX_WELCOME_BYTES + 1, 2**29])
@pytest.mark.parametrize("frames", [1, 2])
def test_a_server_that_has_not_proven_the_token_is_given_no_room(size, frames):
    """Nor are several frames: a handshake has one."""
    limits = Limits(call_seconds=30, attempt_seconds=30)  # nothing else ends the connection in time
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with connect(address, codec=CODEC, token=TOKEN, limits=limits) as channel:
            channel.submit(ask(1))
            with listening.accept()[0] as sock:
                sock.settimeout(10)
                sizes = [size] if frames == 1 else [8, 8]
                sock.sendall(GREETING + frames.to_bytes(4) + b"".join(part.to_bytes(8) for part in sizes) + bytes(64))
                assert hung_up(sock)
            assert wait_for(lambda: "does not speak" in channel._dialling.why([address]))
