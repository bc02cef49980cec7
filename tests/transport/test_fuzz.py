"""Thousands of attacks on a live server, which goes on serving its clients, and keeps nothing of them."""

import contextlib
import gc
import random
import ssl
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch

from halohop.store.requests import LocateRequest
from halohop.transport import Codec, Limits, Token, connect, serve
from halohop.transport.handshake import ClientHandshake, Step, Terms, _step, step_of
from halohop.transport.wire import REPLY, REQUEST, Kind
from tests.support.messages import MESSAGE_TYPES, random_messages, same
from tests.support.strangers import GREETING, SEALED_GREETING, Attacker, framed, hung_up, knock, resident_bytes, wait_for

CODEC = Codec(MESSAGE_TYPES)
TERMS = Terms(max_message_bytes=1000, messages=CODEC.digest)
TOKEN = Token("a token that tests share")
LIMITS = Limits(call_seconds=30, attempt_seconds=5, max_message_bytes=2**24)
HELLO = framed(ClientHandshake(TOKEN, TERMS).hello())
ROOM = 64 * 2**20
"""How much memory may grow by: what allocators keep. One message that stays would be as large."""


def echo(request):
    return request


def footprint() -> tuple[int, int]:
    """Descriptors and threads of this process."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))


def has_grown(before: tuple[int, int]) -> bool:
    """Whether there are more of them. Fewer there may be: what another test has left may end at any time."""
    return any(now > then for now, then in zip(footprint(), before, strict=True))


class Bystander:
    """A real client that calls all the time, and notes how long it ever had to wait."""

    def __init__(self, listener, token=TOKEN):
        self.channel = connect(listener.address, codec=CODEC, token=token, limits=LIMITS)
        self.calls, self.slowest, self.failure = 0, 0.0, None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            while not self._stop.wait(0.005):
                start = time.monotonic()
                message = LocateRequest(node_type="node", raw=torch.full((1 + self.calls % 999,), self.calls))
                assert same(self.channel.call(message), message)
                self.slowest = max(self.slowest, time.monotonic() - start)
                self.calls += 1
        except BaseException as error:
            self.failure = error

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.channel.close()

    def assert_undisturbed(self):
        assert wait_for(lambda: self.calls > 10 or self.failure)
        assert self.failure is None
        assert self.slowest < LIMITS.call_seconds / 2
        counted = self.channel.statistics()
        assert (counted["connections"], counted["retries"]) == (1, 0)


def mutated(chance, frame):
    """A frame with something wrong somewhere; now and then nothing is."""
    data = bytearray(frame)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        match chance.randrange(6):
            case 0 if data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            case 1:
                del data[chance.randint(0, len(data)) :]
            case 2:
                at = chance.randint(0, len(data))
                data[at:at] = chance.randbytes(chance.choice((1, 4, 100)))
            case 3 if data:
                at = chance.randrange(len(data))
                data[at : at + 8] = chance.choice((b"\xff" * 8, bytes(8), struct.pack(">Q", 2**63), b"\xdf\xff\xff\xff\xff"))
            case 4 if data:
                at = chance.randrange(len(data))
                del data[at : at + chance.randint(1, 9)]
            case 5 if data:
                at = chance.randrange(len(data))
                data[at : at + 1] = data[at:]
    return bytes(data[:200_000])


def mutated_message(chance, frames):
    """A message with frames that are wrong, missing, doubled, swapped, or too many."""
    frames = [bytes(frame) for frame in frames]
    match chance.randrange(8):
        case 0:
            frames = frames[: chance.randrange(len(frames) + 1)]
        case 1:
            frames += [chance.randbytes(chance.choice((0, 1, 1000)))] * chance.choice((1, 3, 300))
        case 2:
            chance.shuffle(frames)
        case _:
            at = chance.randrange(len(frames))
            frames[at] = mutated(chance, frames[at])
    return frames


def bombs():
    """Headers that are small and claim, or hold, far too much."""
    name = bytes([len("LocateRequest")]) + b"LocateRequest"
    yield [name + b"\x91" * 50_000]  # lists in lists
    yield [name + b"\x81\xa1x" * 50_000]  # maps in maps
    for size in (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"):
        yield [name + size]  # four thousand million entries to come
    for shape in ([2**62], [2**31, 2**31], [-1], [0, 2**70], [1] * 100, [2**63 - 1, 2], [1.5], ["1"], [[1]], [None], [True]):
        body = {"node_type": "node", "raw": ["int64", *shape]}
        try:
            yield [name + msgspec.msgpack.encode(body), b"12345678"]
        except OverflowError:
            continue
    for dtype in ("object", "int4", "", "complex256", 7, None, "float32\0"):
        yield [name + msgspec.msgpack.encode({"node_type": "node", "raw": [dtype, 1]}), b"12345678"]
    yield [name + msgspec.msgpack.encode({"node_type": "node", "raw": ["int64", 1]})]  # bytes that never come
    yield [b"\xff"]
    yield [b"\x0dLocateRequest"]
    yield [b""]
    yield []


@pytest.mark.parametrize("attacks", [100, pytest.param(5000, marks=pytest.mark.full)])
def test_frames_of_strangers(attacks):
    """Messages of those who do not know the token: garbage, handshakes with faults, requests with tags that are guessed."""
    chance = random.Random(1)
    served = []

    def handler(request):
        served.append(request)
        return request

    with serve(handler, codec=CODEC, token=TOKEN, limits=LIMITS) as listener:
        request = CODEC.encode(LocateRequest(node_type="stranger", raw=torch.arange(100)))
        with Bystander(listener) as bystander:
            assert wait_for(lambda: bystander.calls > 10)  # allocators have warmed up
            before, memory = footprint(), resident_bytes()
            for number in range(attacks):
                handshake = ClientHandshake(
                    TOKEN if number % 2 else None, replace(TERMS, max_message_bytes=chance.randrange(2**64))
                )
                proof = _step(Step.PROOF) + chance.randbytes(56)
                message = [REQUEST.pack(Kind.REQUEST, chance.randrange(2**64), 2**64 - 1), *request]
                choices = (
                    [chance.randbytes(chance.choice((0, 1, 7, 39, 47, 33, 300)))],
                    [mutated(chance, handshake.hello())],
                    [handshake.hello(), b""],
                    [proof],
                    [mutated(chance, proof)],
                    message,
                    mutated_message(chance, message),
                    [b""] * 100,
                )
                with Attacker(listener) as attacker, contextlib.suppress(ConnectionError):  # hung up on before it was done: right
                    if number % 3 == 0:
                        attacker.send(handshake.hello())
                    attacker.send(*chance.choice(choices))
            assert wait_for(lambda: not listener._port._strangers)
            bystander.assert_undisturbed()
            assert resident_bytes() - memory < ROOM
            assert wait_for(lambda: not has_grown(before))
        assert all(request.node_type != "stranger" for request in served)
        assert listener.statistics()["sessions"] == 1
        assert listener.statistics()["failures"] == 0  # nothing of theirs was even decoded
        assert listener.statistics()["strangers"] == attacks
        assert not listener._handshakes


@pytest.mark.parametrize("encrypt", [False, True])
def test_bytes_of_strangers(encrypt):
    """500 connections that break the rules of framing, or of TLS, or stop somewhere in them."""
    chance = random.Random(2)
    token = Token(TOKEN.key, encrypt=encrypt)
    greeting = SEALED_GREETING if encrypt else GREETING
    good = greeting + (client_hello() if encrypt else framed(ClientHandshake(TOKEN, TERMS).hello()))
    with serve(echo, codec=CODEC, token=token, limits=LIMITS) as listener:
        with Bystander(listener, token) as bystander:
            assert wait_for(lambda: bystander.calls > 10)
            before, memory = footprint(), resident_bytes()
            for number in range(500):
                huge = greeting + struct.pack(">IQ", chance.choice((0, 1, 2, 2**32 - 1)), chance.randrange(2**64))
                say = chance.choice((chance.randbytes(200), good[: number % len(good)], mutated(chance, good), huge + bytes(500)))
                try:
                    with knock(listener, say=say):
                        continue
                except OSError:
                    continue  # it hung up on us before we were done: right
            bystander.assert_undisturbed()
            assert wait_for(lambda: not listener._port._strangers)
            assert resident_bytes() - memory < ROOM
            assert wait_for(lambda: not has_grown(before))
        assert listener.statistics()["sessions"] == 1


def test_messages_of_a_peer_that_went_mad():
    """750 requests with a good tag and a bad rest: each is answered, with a failure or what it happened to ask for."""
    chance = random.Random(3)
    with serve(echo, codec=CODEC, token=TOKEN, limits=LIMITS) as listener:
        messages = [CODEC.encode(message) for seed in range(5) for message in random_messages(seed)]
        with Bystander(listener) as bystander:
            assert wait_for(lambda: bystander.calls > 10)
            before, memory = footprint(), resident_bytes()
            attacker = Attacker(listener, TOKEN)
            bad = list(bombs())
            for start in range(0, 750, 50):
                numbers = range(start, start + 50)
                for number in numbers:
                    body = mutated_message(chance, chance.choice(messages)) if number >= len(bad) else bad[number]
                    attacker.send(REQUEST.pack(Kind.REQUEST, number, 60_000), *(body or [b""]))
                assert {answered(attacker) for _ in numbers} == set(numbers)
            attacker.close()
            for _ in range(100):  # and the request's own head
                with Attacker(listener, TOKEN) as attacker, contextlib.suppress(ConnectionError):
                    head = REQUEST.pack(Kind.REQUEST, 2**64 - 1, 0)
                    attacker.send(mutated(chance, head), *chance.choice(messages))
            bystander.assert_undisturbed()
            assert resident_bytes() - memory < ROOM
            assert wait_for(lambda: not has_grown(before))
        assert listener.statistics()["failures"] > 250
        assert wait_for(lambda: listener.statistics()["in_flight"] == 0)


def answered(attacker) -> int:
    """The number of the request that the next reply is about; the reply can be read."""
    frames = attacker.receive()
    while frames[0][0] == Kind.ALIVE:
        frames = attacker.receive()
    kind, number = REPLY.unpack(frames[0])
    assert kind == Kind.REPLY
    CODEC.decode(frames[1:])
    return number


def client_hello() -> bytes:
    """How TLS begins."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("known", [False, True])
def test_a_proof_is_good_for_one_nonce(known):
    """What was recorded of a handshake opens no other, on the same connection or on the next."""
    with serve(echo, codec=CODEC, token=TOKEN, limits=LIMITS) as listener:
        handshake = ClientHandshake(TOKEN, TERMS)
        with Attacker(listener) as first, Attacker(listener) as second:
            first.send(handshake.hello())
            proof = handshake.step(bytes(first.receive()[0]))
            first.send(proof)
            assert step_of(bytes(first.receive()[0])) is Step.WELCOME
            if known:
                first.send(proof)
                assert hung_up(first.sock)
            else:
                second.send(handshake.hello())
                second.receive()
                second.send(proof)
                assert step_of(bytes(second.receive()[0])) is Step.REFUSED
                second.send(REQUEST.pack(Kind.REQUEST, 1, 1000), b"x")
                assert hung_up(second.sock)
        assert listener.statistics()["sessions"] == 1


def test_a_flood_of_strangers_keeps_no_peer_out():
    """Connections and messages as fast as three threads can: those who are in stay in, and those who come get in."""
    limits = Limits(attempt_seconds=5, max_strangers=32)
    stop = threading.Event()
    with serve(echo, codec=CODEC, token=TOKEN, limits=limits) as listener, Bystander(listener) as bystander:
        count = [0, 0, 0]

        def flood(number):
            kept = []
            while not stop.is_set():
                try:
                    kept.append(knock(listener, say=(b"", GREETING + HELLO, GREETING + framed(b"x") * 5000)[number]))
                    count[number] += 1
                except OSError:
                    continue  # it hung up on us
                finally:
                    if len(kept) > 50:
                        kept.pop(0).close()
            for sock in kept:
                sock.close()

        threads = [threading.Thread(target=flood, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        try:
            for value in range(5):
                with connect(listener.address, codec=CODEC, token=TOKEN, limits=Limits(connect_seconds=50)) as late:
                    message = LocateRequest(node_type="node", raw=torch.tensor([value]))
                    assert same(late.call(message), message)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert all(number > 20 for number in count)
        bystander.assert_undisturbed()
