"""Strangers at the door of a ZeroMQ listener: how few stay, for how long, and what they may send. Peers are not concerned."""

import socket
import struct
import threading
from contextlib import ExitStack

import pytest
import torch
import zmq

from halohop.store.requests import LocateReply, LocateRequest
from halohop.testing.messages import MESSAGE_TYPES
from halohop.testing.strangers import GREETING, READY, knock, resident_bytes, wait_for
from halohop.transport import Codec, Limits, Token, connect, serve

CODEC = Codec(MESSAGE_TYPES)
TOKEN = Token("a token that tests share")


def answer(request):
    return LocateReply(gid=request.raw + 1)


def hung_up(sock) -> bool:
    """Whether the other side ends the connection before the socket's own deadline."""
    try:
        while sock.recv(1000):
            continue
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def works(channel, value: int = 1) -> bool:
    return channel.call(LocateRequest(node_type="node", raw=torch.tensor([value]))).gid.tolist() == [value + 1]


@pytest.mark.parametrize("say", [b"", GREETING[:10], GREETING, GREETING + READY, GREETING + READY + b"\x01\x05x"])
def test_who_does_not_get_to_the_point_is_hung_up_on(say):
    """Silent at any step: before ZeroMQ's greeting, in it, behind it, and in the middle of a message."""
    limits = Limits(attempt_seconds=0.3)
    with (
        serve(answer, codec=CODEC, token=TOKEN, limits=limits) as listener,
        connect(listener.address, codec=CODEC, token=TOKEN) as channel,
        knock(listener, say=say) as sock,
    ):
        assert works(channel)
        assert hung_up(sock)
        assert works(channel)
        assert channel.statistics()["connections"] == 1


def test_who_answers_heartbeats_but_shows_no_token_is_hung_up_on():
    limits = Limits(attempt_seconds=0.3, heartbeat_seconds=0.05)
    with (
        serve(answer, codec=CODEC, token=TOKEN, limits=limits) as listener,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as sock,
    ):
        sock.setsockopt(zmq.LINGER, 0)
        sock.setsockopt(zmq.RECONNECT_IVL, -1)
        monitor = sock.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        sock.connect(listener.address)
        try:
            assert monitor.poll(20_000)
        finally:
            sock.disable_monitor()
            monitor.close(linger=0)


def test_a_message_without_end_costs_nothing():
    """ZeroMQ holds a message's parts until the last has come, so no other limit ends this one."""
    part = b"\x03" + struct.pack(">Q", 2**20) + bytes(2**20)
    with (
        serve(answer, codec=CODEC, token=TOKEN) as listener,
        connect(listener.address, codec=CODEC, token=TOKEN) as channel,
    ):
        assert works(channel)
        parts = part * 1000
        before = resident_bytes()
        for _ in range(5):
            with knock(listener, say=GREETING + READY) as sock, pytest.raises((BrokenPipeError, ConnectionResetError)):
                sock.sendall(parts)
            assert works(channel)
        assert resident_bytes() - before < 256 * 2**20  # what a slow machine lets through before it looks
        assert channel.statistics()["connections"] == 1


def test_a_crowd_of_strangers_does_not_fill_the_house():
    limits = Limits(attempt_seconds=60, heartbeat_seconds=60, max_strangers=8)  # nothing else ends a connection in time
    with serve(answer, codec=CODEC, token=TOKEN, limits=limits) as listener, ExitStack() as stack:
        known = [stack.enter_context(connect(listener.address, codec=CODEC, token=TOKEN)) for _ in range(12)]
        assert all(works(channel) for channel in known)
        crowd = [stack.enter_context(knock(listener, say=GREETING + READY)) for _ in range(100)]
        assert all(hung_up(sock) for sock in crowd[:-8])  # the oldest have to go
        assert wait_for(lambda: len(listener._port._door._strangers) <= 8)
        late = stack.enter_context(connect(listener.address, codec=CODEC, token=TOKEN))
        assert works(late)
        assert all(works(channel) for channel in known)
        assert [channel.statistics()["connections"] for channel in known] == [1] * 12


def test_peers_are_not_watched():
    """One that is silent for long, or says more than any stranger may, keeps its connection."""
    limits = Limits(attempt_seconds=0.2)
    with (
        serve(answer, codec=CODEC, token=TOKEN, limits=limits) as listener,
        connect(listener.address, codec=CODEC, token=TOKEN) as channel,
    ):
        for _ in range(3):
            assert len(channel.call(LocateRequest(node_type="node", raw=torch.zeros(100_000, dtype=torch.int64))).gid) == 100_000
            threading.Event().wait(0.4)
        assert channel.statistics()["connections"] == 1
        assert listener._port._door._strangers == {}


def test_who_left_by_themselves_are_forgotten():
    with serve(answer, codec=CODEC, token=TOKEN) as listener:
        for _ in range(20):
            knock(listener).close()
        assert wait_for(lambda: not listener._port._door._strangers)


def test_messages_of_connections_that_have_ended():
    """ZeroMQ does not know the descriptor of a connection that ended as soon as it was made, but hands out its messages."""
    message = GREETING + READY + b"\x00\x01x"
    with (
        serve(answer, codec=CODEC, token=TOKEN) as listener,
        connect(listener.address, codec=CODEC, token=TOKEN) as channel,
    ):
        for value in range(300):
            with knock(listener) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
                sock.sendall(message)
            if value % 20 == 0:
                assert works(channel, value)
        assert channel.statistics()["connections"] == 1


def test_a_descriptor_that_became_something_else_is_left_alone(tmp_path):
    """The door's notes may be older than the descriptors they name: files and other people's connections stay open."""
    with serve(answer, codec=CODEC, token=TOKEN) as listener, ExitStack() as stack:
        door = listener._port._door
        file = stack.enter_context((tmp_path / "data").open("wb"))
        other = stack.enter_context(serve(answer, codec=CODEC, token=TOKEN))
        foreign = stack.enter_context(knock(other))
        for descriptor in (file.fileno(), foreign.fileno(), 10**6):
            assert door._connection(descriptor) is None
        file.write(b"still open")
        foreign.sendall(GREETING)
