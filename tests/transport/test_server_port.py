"""Strangers at the port of a listener: how few stay, for how long, and what they may send. Peers are not concerned."""

import errno
import gc
import os
import resource
import socket
import threading
from contextlib import ExitStack, closing

import pytest
import torch

from halohop.store.requests import LocateReply, LocateRequest
from halohop.transport import Codec, Limits, Token, connect, serve
from halohop.transport.handshake import ClientHandshake, Terms
from halohop.transport.server_port import ServerPort
from halohop.transport.tls import seal_of
from halohop.transport.wire import Flushed, Lost
from tests.support.messages import MESSAGE_TYPES
from tests.support.strangers import (
    GREETING,
    SEALED_GREETING,
    endpoint,
    framed,
    hung_up,
    knock,
    reset,
    resident_bytes,
    wait_for,
)

CODEC = Codec(MESSAGE_TYPES)
TERMS = Terms(max_message_bytes=1000, messages=CODEC.digest)
TOKEN = Token("a token that tests share")
SEALED = Token("a token that tests share", encrypt=True)
HELLO = framed(ClientHandshake(TOKEN, TERMS).hello())


def answer(request):
    return LocateReply(gid=request.raw + 1)


def works(channel, value: int = 1, size: int = 1) -> bool:
    gid = channel.call(LocateRequest(node_type="node", raw=torch.full((size,), value))).gid
    return gid.tolist() == [value + 1] * size


@pytest.mark.parametrize(
    "say",
    [b"", GREETING[:3], GREETING, GREETING + HELLO[:5], GREETING + HELLO[:20], GREETING + HELLO],
    ids=["nothing", "half_a_greeting", "greeting", "head", "half_a_hello", "hello"],
)
@pytest.mark.parametrize("token", [TOKEN, SEALED], ids=["plain", "sealed"])
def test_who_does_not_get_to_the_point_is_hung_up_on(say, token):
    """Silent at any step, for a time; or, where the listener encrypts, something else than was asked for."""
    limits = Limits(attempt_seconds=0.3)
    with (
        serve(answer, codec=CODEC, token=token, limits=limits) as listener,
        connect(listener.address, codec=CODEC, token=token) as channel,
    ):
        assert works(channel)
        before = listener.statistics()["strangers"]  # on a busy machine, the channel's first handshake may have been one
        with knock(listener, say=say) as sock:
            assert works(channel)
            assert hung_up(sock)
        assert works(channel)
        assert channel.statistics()["connections"] == 1
        assert wait_for(lambda: listener.statistics()["strangers"] == before + 1)


def test_who_says_a_byte_now_and_then_is_hung_up_on():
    with serve(answer, codec=CODEC, token=TOKEN, limits=Limits(attempt_seconds=0.5)) as listener, knock(listener) as sock:

        def say():
            for byte in GREETING + HELLO:
                sock.sendall(bytes([byte]))
                threading.Event().wait(0.05)

        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            say()


def test_much_of_what_strangers_say_costs_nothing():
    """No room is made for it, and it is not read on."""
    with (
        serve(answer, codec=CODEC, token=TOKEN) as listener,
        connect(listener.address, codec=CODEC, token=TOKEN) as channel,
    ):
        assert works(channel)
        say = GREETING + b"\0\0\0\1" + (2**24).to_bytes(8) + bytes(2**24)
        before = resident_bytes()
        for _ in range(5):
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                knock(listener, say=say)
            assert works(channel)
        assert resident_bytes() - before < 16 * 2**20
        assert channel.statistics()["connections"] == 1


def test_a_crowd_of_strangers_does_not_fill_the_house():
    limits = Limits(attempt_seconds=60, heartbeat_seconds=60, max_strangers=8)  # nothing else ends a connection in time
    with serve(answer, codec=CODEC, token=TOKEN, limits=limits) as listener, ExitStack() as stack:
        known = [stack.enter_context(connect(listener.address, codec=CODEC, token=TOKEN)) for _ in range(12)]
        assert all(works(channel) for channel in known)
        crowd = [stack.enter_context(knock(listener, say=GREETING + HELLO)) for _ in range(100)]
        assert all(hung_up(sock) for sock in crowd[:-8])  # the oldest have to go
        assert wait_for(lambda: len(listener._port._strangers) <= 8)
        assert wait_for(lambda: len(listener._handshakes) <= 8)
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
            assert works(channel, size=100_000)
            threading.Event().wait(0.4)
        assert channel.statistics()["connections"] == 1
        assert listener._port._strangers == {}


@pytest.mark.parametrize("leave", [lambda sock: sock.close(), reset])
def test_who_left_by_themselves_are_forgotten(leave):
    with serve(answer, codec=CODEC, token=TOKEN) as listener:
        for _ in range(20):
            leave(knock(listener, say=GREETING + HELLO))
        assert wait_for(lambda: listener.statistics()["strangers"] == 20)
        assert wait_for(lambda: not (listener._port._strangers or listener._port._streams or listener._handshakes))


def test_a_stranger_that_leaves_before_encryption_begins():
    """Its socket is closed by us, not by chance."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = ServerPort(listening, Limits(), seal_of(SEALED, server=True))
        with closing(port):
            client = socket.create_connection(listening.getsockname())
            assert not list(port.wait(20, True))
            client.sendall(SEALED_GREETING)
            reset(client)
            ((_, lost),) = port.wait(20, True)
            assert isinstance(lost, Lost)
            gc.collect()  # a socket that was left to it warns


@pytest.mark.parametrize("strangers", [0, 5])
def test_a_process_without_descriptors_to_spare_goes_on(strangers):
    """It serves its peers, hangs up on strangers for others, does not spin, and accepts again when it can."""
    limits = Limits(attempt_seconds=60)
    with (
        serve(answer, codec=CODEC, token=TOKEN, limits=limits) as listener,
        connect(listener.address, codec=CODEC, token=TOKEN) as channel,
        ExitStack() as stack,
    ):
        assert works(channel)
        crowd = [stack.enter_context(knock(listener, say=GREETING + HELLO)) for _ in range(strangers)]
        assert wait_for(lambda: len(listener._handshakes) == strangers)
        late = stack.enter_context(closing(socket.socket()))  # has a descriptor already
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = os.dup(0)
        os.close(spare)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
        try:
            with pytest.raises(OSError, match="Too many open files") as caught:
                os.dup(0)
            assert caught.value.errno == errno.EMFILE
            late.connect(("127.0.0.1", int(listener.address.rpartition(":")[2])))
            late.settimeout(20)
            late.sendall(GREETING + HELLO)
            if strangers:
                assert hung_up(crowd[0])
                assert late.recv(1000).startswith(GREETING)
                assert wait_for(lambda: listener.statistics()["strangers"] == 1)
                assert len(listener._handshakes) <= strangers  # nothing is kept of who had to go
            else:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
                threading.Event().wait(1)
                assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 0.5
            assert works(channel)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert strangers or late.recv(1000)
        assert works(channel)
        assert channel.statistics()["connections"] == 1


def test_the_last_descriptor_is_for_who_comes():
    """It lets a connection in, and does not end it to make room for nobody."""
    with (
        serve(answer, codec=CODEC, token=TOKEN, limits=Limits(attempt_seconds=60)) as listener,
        closing(socket.socket()) as late,
        closing(socket.socket()) as other,
    ):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = os.dup(0)
        os.close(spare)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 1, hard))
        try:
            late.settimeout(20)
            late.connect(endpoint(listener))
            late.sendall(GREETING + HELLO)
            assert late.recv(1000).startswith(GREETING)
            late.settimeout(1)
            assert not hung_up(late)
            assert listener.statistics()["strangers"] == 0
            late.settimeout(20)
            other.connect(endpoint(listener))  # now somebody has to go
            assert hung_up(late)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_is_left_over_is_sent_when_there_is_room():
    """A reply larger than all buffers of the system, to a peer that reads late; meanwhile nobody spins."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = ServerPort(listening, Limits(attempt_seconds=60), None)
        with closing(port), closing(socket.create_connection(listening.getsockname())) as client:
            client.sendall(GREETING + framed(b"x"))
            arrived = [event for _ in range(3) for event in port.wait(0.2, True)]
            ((peer, _),) = arrived
            data = os.urandom(2**26)
            port.send(peer, [data])
            assert not list(port.wait(0.2, True))
            got = bytearray()
            reader = threading.Thread(target=lambda: [got.extend(part) for part in iter(lambda: client.recv(2**20), b"")])
            reader.start()
            for _ in range(100_000):
                if not port._streams[peer].backlog:
                    break
                assert {type(event) for _, event in port.wait(5, True)} <= {Flushed}
            port.close()
            reader.join(60)
            assert got == GREETING + framed(data)
