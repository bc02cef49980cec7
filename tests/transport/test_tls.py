"""Encryption: the contract, what is on the wire, and peers that do not agree about it."""

import datetime
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from halohop.errors import AuthenticationError, InputError
from halohop.store.requests import LocateReply, LocateRequest
from halohop.testing.worlds import free_address
from halohop.transport import Codec, Limits, Token, connect, serve
from halohop.transport.handshake import ClientHandshake, Terms
from halohop.transport.messages import size_of
from halohop.transport.security import Certificate
from halohop.transport.tls import seal_of
from tests.support.contracts.transport import TransportContract
from tests.support.messages import MESSAGE_TYPES
from tests.support.strangers import SEALED_GREETING, framed, knock, wait_for

CODEC = Codec(MESSAGE_TYPES)
TERMS = Terms(max_message_bytes=1000, messages=CODEC.digest)
PLAIN = Token("a token that tests share")
SEALED = Token("a token that tests share", encrypt=True)
OTHER = Token("another token, that is wrong", encrypt=True)
LIMITS = Limits(call_seconds=20, attempt_seconds=5, connect_seconds=20)


class TestEncrypted(TransportContract):
    token = SEALED


def ask(value: int, size: int = 1) -> LocateRequest:
    return LocateRequest(node_type="plain words", raw=torch.full((size,), value, dtype=torch.float64))


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
    """Encrypted, no sixteen bytes of what is said can be seen, nor a name; in the clear all of it, so the test can see.

    Numbers that need all their bits are sent as they are.
    """
    raw = torch.from_numpy(np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 5000))
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
    assert token.key not in notes["there"] + notes["back"]


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
                channel.submit(ask(1)).result(timeout=60)
            assert time.monotonic() - start < LIMITS.connect_seconds / 2
    assert served == []


@pytest.mark.parametrize(("client", "server"), [(PLAIN, SEALED), (SEALED, PLAIN)])
def test_nothing_is_said_in_the_clear_to_please_the_other_side(client, server):
    """Nor does a proxy change anything, which may swallow the reason why the other side hung up."""
    with (
        serve(answer, codec=CODEC, token=server, limits=LIMITS) as listener,
        recorder(listener.address) as (address, notes),
        connect(address, codec=CODEC, token=client, peer="host 7", limits=LIMITS) as channel,
    ):
        with pytest.raises(AuthenticationError, match=r"LocateRequest: peer 'host 7'.*HALOHOP_ENCRYPT"):
            channel.submit(ask(1)).result(timeout=60)
        assert b"plain words" not in notes["there"]
        assert listener.statistics()["sessions"] == 0


def test_another_token():
    with (
        serve(answer, codec=CODEC, token=SEALED, limits=LIMITS) as listener,
        connect(listener.address, codec=CODEC, token=OTHER, peer="host 7", limits=LIMITS) as channel,
    ):
        for _ in range(2):
            with pytest.raises(AuthenticationError, match=r"LocateRequest: peer 'host 7'.*knows the token"):
                channel.submit(ask(1)).result(timeout=60)
        assert listener.statistics()["sessions"] == 0


def test_a_server_that_comes_back_with_another_token():
    with serve(answer, codec=CODEC, token=SEALED, bind=free_address()) as listener:
        address = listener.address
        channel = connect(address, codec=CODEC, token=SEALED, limits=LIMITS)
        channel.call(ask(1))
    with (
        channel,
        serve(answer, codec=CODEC, token=OTHER, bind=address),
        pytest.raises(AuthenticationError, match="knows the token"),
    ):
        channel.submit(ask(2)).result(timeout=60)


def test_the_largest_message_fits_with_its_seal():
    """Encryption adds to every frame; what may be sent in the clear may be sent encrypted."""
    limits = Limits(max_message_bytes=2**16, call_seconds=20, attempt_seconds=2)

    def reply(request):
        return LocateReply(gid=torch.zeros(int(request.raw[0]), dtype=torch.float64))

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
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with serve(answer, codec=CODEC, token=PLAIN) as listener, pytest.raises(InputError, match=r"halohop\[tls\]"):
        connect(listener.address, codec=CODEC, token=SEALED)
    with pytest.raises(InputError, match=r"halohop\[tls\]"):
        serve(answer, codec=CODEC, token=SEALED)


def heard_through(context, listener) -> bytes:
    """What a listener answers to a greeting, over a connection that is encrypted in some way."""
    with knock(listener, say=SEALED_GREETING) as sock:
        assert sock.recv(8) == SEALED_GREETING
        try:
            with context.wrap_socket(sock) as sealed:  # the listener's part is over before it has seen the other's
                sealed.sendall(framed(ClientHandshake(SEALED, TERMS).hello()))
                return sealed.recv(1000)
        except OSError:
            return b""


def test_strangers_get_no_word_in():
    """Neither without encryption, nor with a certificate from elsewhere, nor with none."""
    served = []
    with serve(served.append, codec=CODEC, token=SEALED, limits=LIMITS) as listener:
        assert heard_through(seal_of(SEALED, server=False), listener)
        for context in (seal_of(OTHER, server=False), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            assert not heard_through(context, listener)
        assert wait_for(lambda: listener.statistics()["strangers"] == 3)
        assert listener.statistics()["sessions"] == 0
    assert served == []


def test_only_the_best_version_is_spoken():
    with serve(answer, codec=CODEC, token=SEALED, limits=LIMITS) as listener, knock(listener, say=SEALED_GREETING) as sock:
        assert sock.recv(8) == SEALED_GREETING
        context = seal_of(SEALED, server=False)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(sock)


# ---- key pairs


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("keys"))


def test_key_pairs(authority):
    """Each host with its own; a shared secret is not needed, and one that is given counts as well."""
    both = [Token("", certificate=authority.issue(name)) for name in ("host 1", "host 2")]
    with (
        serve(answer, codec=CODEC, token=both[0], limits=LIMITS) as listener,
        connect(listener.address, codec=CODEC, token=both[1], limits=LIMITS) as channel,
    ):
        assert channel.call(ask(1)).gid.tolist() == [2]
    secret = Token(PLAIN.key, certificate=authority.issue("host 1"))
    with (
        serve(answer, codec=CODEC, token=secret, limits=LIMITS) as listener,
        connect(listener.address, codec=CODEC, token=both[1], limits=LIMITS) as channel,
        pytest.raises(AuthenticationError, match="HALOHOP_TOKEN"),
    ):
        channel.call(ask(1))


@pytest.mark.parametrize("at_fault", ["client", "server"])
def test_a_key_pair_of_another_authority(authority, at_fault, tmp_path):
    ours = Token("", certificate=authority.issue("host 1"))
    foreign = Authority(tmp_path).issue("host 2")
    certificate = Certificate(chain=foreign.chain, key=foreign.key, authority=authority.file)
    theirs = Token("", certificate=certificate)
    server, client = (ours, theirs) if at_fault == "client" else (theirs, ours)
    served = []
    with (
        serve(served.append, codec=CODEC, token=server, limits=LIMITS) as listener,
        connect(listener.address, codec=CODEC, token=client, peer="host 7", limits=LIMITS) as channel,
        pytest.raises(AuthenticationError, match=r"peer 'host 7'.*same authority"),
    ):
        channel.submit(ask(1)).result(timeout=60)
    assert served == []


@pytest.mark.parametrize("part", ["chain", "key", "authority"])
@pytest.mark.parametrize("fault", ["absent", "nonsense"])
def test_files_that_cannot_be_used(authority, tmp_path, part, fault):
    certificate = replace(authority.issue("host 1"), **{part: tmp_path / "x.pem"})
    if fault == "nonsense":
        (tmp_path / "x.pem").write_text("nonsense")
    with pytest.raises(InputError, match=r"x\.pem.*PEM"):
        serve(answer, codec=CODEC, token=Token("", certificate=certificate))


class Authority:
    """Issues certificates, as a user's own authority would."""

    def __init__(self, folder):
        self._folder = folder
        self._key = Ed25519PrivateKey.generate()
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
        self.file = folder / "authority.pem"
        self.file.write_bytes(self._signed(self._name, self._key.public_key(), ca=True))

    def issue(self, host: str) -> Certificate:
        key = Ed25519PrivateKey.generate()
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
        chain, file = self._folder / f"{host}.pem", self._folder / f"{host}.key"
        chain.write_bytes(self._signed(name, key.public_key(), ca=False))
        file.touch(mode=0o600)
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return Certificate(chain=chain, key=file, authority=self.file)

    def _signed(self, name, public, *, ca: bool) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder(self._name, name, public, x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(self._key, None)
            .public_bytes(Encoding.PEM)
        )
