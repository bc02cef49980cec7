"""Encryption: the contract, what is on the wire, and peers that do not agree about it."""

import contextlib
import socket
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import zmq

from halohop.errors import AuthenticationError, InputError
from halohop.store.requests import LocateReply, LocateRequest
from halohop.testing.contracts import TransportContract
from halohop.testing.messages import MESSAGE_TYPES
from halohop.transport import Codec, Limits, Token, connect, curve, serve, zeromq
from halohop.transport.messages import size_of

CODEC = Codec(MESSAGE_TYPES)
PLAIN = Token("a token that tests share")
SEALED = Token("a token that tests share", encrypt=True)
OTHER = Token("another token, that is wrong", encrypt=True)
LIMITS = Limits(call_seconds=20, attempt_seconds=2, connect_seconds=2)


class TestEncrypted(TransportContract):
    token = SEALED

    @pytest.fixture
    def network(self):
        return zeromq


def ask(value: int, size: int = 1) -> LocateRequest:
    return LocateRequest(node_type="plain words", raw=torch.full((size,), value))


def answer(request: LocateRequest) -> LocateReply:
    return LocateReply(gid=request.raw + 1)


@contextmanager
def recorder(address):
    """A proxy that writes down what passes, in both directions; yields its address and its notes."""
    host, port = address.removeprefix("tcp://").split(":")
    notes = {"there": bytearray(), "back": bytearray()}

    def pump(source, target, note):
        try:
            while data := source.recv(65536):
                note += data
                target.sendall(data)
        except OSError:
            return
        finally:
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    with socket.create_server(("127.0.0.1", 0)) as door:

        def run():
            while True:
                try:
                    near = door.accept()[0]
                except OSError:
                    return
                with near, socket.create_connection((host, int(port))) as far:
                    back = threading.Thread(target=pump, args=(far, near, notes["back"]))
                    back.start()
                    pump(near, far, notes["there"])
                    back.join()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"127.0.0.1:{door.getsockname()[1]}", notes
        finally:
            door.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("token", [PLAIN, SEALED], ids=["plain", "sealed"])
def test_what_is_on_the_wire(token):
    """Encrypted, no sixteen bytes of what is said can be seen, nor a name; in the clear all of it, so the test can see."""
    raw = torch.from_numpy(np.random.default_rng(0).integers(0, 2**62, 5000))
    with (
        serve(lambda request: LocateReply(gid=request.raw * 3), codec=CODEC, token=token, limits=LIMITS) as listener,
        recorder(listener.address) as (address, notes),
        connect(address, codec=CODEC, token=token, limits=LIMITS) as channel,
    ):
        assert torch.equal(channel.call(LocateRequest(node_type="plain words", raw=raw)).gid, raw * 3)
    seen = []
    for note, tensor in ((notes["there"], raw), (notes["back"], raw * 3)):
        assert len(note) > tensor.nbytes  # it did pass here
        data = tensor.numpy().tobytes()
        seen += [data[at : at + 16] in note for at in range(0, len(data), 160)]
        seen += [word in note for word in (b"Locate",)]
    seen.append(b"plain words" in notes["there"])
    assert all(seen) if token is PLAIN else not any(seen)
    secrets = (token.key, curve._server_key(token), zmq.curve_public(curve._server_key(token)))
    for secret in (*secrets, *(zmq.utils.z85.decode(key) for key in secrets[1:])):
        assert secret not in notes["there"] + notes["back"]


@pytest.mark.parametrize(("client", "server"), [(PLAIN, SEALED), (SEALED, PLAIN), (None, SEALED), (SEALED, None)])
def test_one_that_encrypts_and_one_that_does_not(client, server):
    """Named, and at once."""
    served = []
    with (
        serve(served.append, codec=CODEC, token=server, limits=LIMITS) as listener,
        connect(listener.address, codec=CODEC, token=client, peer="host 7", limits=LIMITS) as channel,
    ):
        for _ in range(2):
            start = time.monotonic()
            with pytest.raises(AuthenticationError, match=r"LocateRequest: peer 'host 7'.*HALOHOP_ENCRYPT"):
                channel.submit(ask(1)).result(timeout=10)
            assert time.monotonic() - start < LIMITS.connect_seconds
    assert served == []


@pytest.mark.parametrize(("token", "sealed"), [(PLAIN, False), (SEALED, True), (None, False)])
def test_asking_whether_a_server_encrypts(token, sealed):
    with serve(answer, codec=CODEC, token=token) as listener:
        assert curve.encrypts(listener.address) is sealed
    assert curve.encrypts(listener.address) is None


@pytest.mark.parametrize("gap", [0.2, 60])
def test_asking_one_that_takes_its_time(gap):
    """A byte now and then does not prolong the second that there is."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as door:

        def run():
            with door.accept()[0] as near, contextlib.suppress(OSError):
                while not stop.wait(gap):
                    near.sendall(b"x")

        thread = threading.Thread(target=run)
        thread.start()
        try:
            start = time.monotonic()
            assert curve.encrypts(f"tcp://127.0.0.1:{door.getsockname()[1]}") is None
            assert time.monotonic() - start < 4
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize(("client", "server"), [(PLAIN, SEALED), (SEALED, PLAIN)])
def test_nothing_is_said_in_the_clear_to_please_the_other_side(client, server):
    """Nor does a proxy change anything, which may swallow the reason why the other side hung up."""
    with (
        serve(answer, codec=CODEC, token=server, limits=LIMITS) as listener,
        recorder(listener.address) as (address, notes),
        connect(address, codec=CODEC, token=client, peer="host 7", limits=LIMITS) as channel,
    ):
        with pytest.raises(AuthenticationError, match=r"LocateRequest: peer 'host 7'.*HALOHOP_ENCRYPT"):
            channel.submit(ask(1)).result(timeout=10)
        assert b"plain words" not in notes["there"]
        assert listener.statistics()["sessions"] == 0


def test_another_token():
    with (
        serve(answer, codec=CODEC, token=SEALED, limits=LIMITS) as listener,
        connect(listener.address, codec=CODEC, token=OTHER, peer="host 7", limits=LIMITS) as channel,
    ):
        for _ in range(2):
            with pytest.raises(AuthenticationError, match=r"LocateRequest: peer 'host 7'.*another token"):
                channel.submit(ask(1)).result(timeout=10)
        assert listener.statistics()["sessions"] == listener.statistics()["strangers"] == 0  # they never got to say a word


def test_a_server_that_comes_back_with_another_token():
    limits = Limits(call_seconds=1, attempt_seconds=0.5)
    with serve(answer, codec=CODEC, token=SEALED) as listener:
        address = listener.address
        channel = connect(address, codec=CODEC, token=SEALED, limits=limits)
        channel.call(ask(1))
    with (
        channel,
        serve(answer, codec=CODEC, token=OTHER, bind=address),
        pytest.raises(AuthenticationError, match="another token"),
    ):
        channel.submit(ask(2)).result(timeout=10)


def test_the_largest_message_fits_with_its_seal():
    """Encryption adds to every frame; what may be sent in the clear may be sent encrypted."""
    limits = Limits(max_message_bytes=2**16, call_seconds=20, attempt_seconds=2)

    def reply(request):
        return LocateReply(gid=torch.zeros(int(request.raw[0]), dtype=torch.int64))

    sizes = range(8100, 8200)
    fits = [size for size in sizes if size_of(CODEC.encode(reply(ask(size)))) <= 2**16]
    with (
        serve(reply, codec=CODEC, token=SEALED, limits=limits) as listener,
        connect(listener.address, codec=CODEC, token=SEALED, limits=limits) as channel,
    ):
        assert sizes[0] < fits[-1] < sizes[-1]
        assert len(channel.call(ask(fits[-1])).gid) == fits[-1]
        assert channel.statistics()["connections"] == 1


def test_without_the_library(monkeypatch):
    monkeypatch.setattr(zmq, "has", lambda feature: False)
    with serve(answer, codec=CODEC, token=PLAIN) as listener, pytest.raises(InputError, match="built without encryption"):
        connect(listener.address, codec=CODEC, token=SEALED)
    with pytest.raises(InputError, match="built without encryption"):
        serve(answer, codec=CODEC, token=SEALED)


def test_keys_depend_on_the_token_alone():
    assert curve._server_key(SEALED) == curve._server_key(PLAIN) != curve._server_key(OTHER)
    assert len(curve._server_key(SEALED)) == 40
