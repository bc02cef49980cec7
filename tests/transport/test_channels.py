"""Channels in trouble: callbacks, interrupts, forks, few descriptors, peers that are busy for long. Over TCP, sealed or not."""

import os
import random
import resource
import signal
import socket
import sys
import threading
import time
from contextlib import closing, contextmanager

import pytest
import torch

from halohop.errors import InputError
from halohop.store.requests import LocateReply, LocateRequest
from halohop.testing.worlds import free_address
from halohop.transport import Codec, Limits, Token, connect, serve
from halohop.transport.client_port import ClientPort
from halohop.transport.server import PortListener
from halohop.transport.stream import Stream
from halohop.transport.wire import REQUEST, Kind, Lost
from tests.support.forked import run_script
from tests.support.messages import MESSAGE_TYPES
from tests.support.strangers import SEALED_GREETING, Attacker, endpoint, wait_for

CODEC = Codec(MESSAGE_TYPES)
TOKEN = Token("a token that tests share")
SEALED = Token("a token that tests share", encrypt=True)
LIMITS = Limits()
BOTH = pytest.mark.parametrize("token", [TOKEN, SEALED], ids=["plain", "sealed"])


def ask(value: int, size: int = 1) -> LocateRequest:
    return LocateRequest(node_type="node", raw=torch.full((size,), value, dtype=torch.float64))


def answer(request: LocateRequest) -> LocateReply:
    return LocateReply(gid=request.raw[:1] + 1)


@contextmanager
def pair(handler=answer, token=TOKEN, limits=LIMITS, server_limits=LIMITS):
    with (
        serve(handler, codec=CODEC, token=token, limits=server_limits) as listener,
        connect(listener.address, codec=CODEC, token=token, limits=limits) as channel,
    ):
        yield channel, listener


def busy_seconds(seconds: float = 1) -> float:
    """What this process computes meanwhile."""
    before = time.process_time()
    threading.Event().wait(seconds)
    return time.process_time() - before


# ---- callbacks


def occupy(channel, listener, go: threading.Event, seconds: float) -> None:
    """Has the channel's own thread wait in a callback. To be asked first, of a listener whose handler waits for `go`."""
    inside = threading.Event()

    def stay(_):
        inside.set()
        threading.Event().wait(seconds)

    future = channel.submit(ask(0))
    assert wait_for(lambda: listener.statistics()["in_flight"] == 1)
    future.add_done_callback(stay)
    go.set()
    assert inside.wait(60)


def test_many_replies_at_once_whose_callbacks_ask_again():
    """However many there are, no callback is called from within another: the stack would end."""
    count, done, go = 250, threading.Semaphore(0), threading.Event()
    depths = []

    def handler(request):
        assert go.wait(60)
        return answer(request)

    def again(_):
        depths.append(len(traceback_of_this_thread()))
        channel.submit(ask(5)).add_done_callback(lambda _: done.release())

    with pair(handler) as (channel, listener):
        occupy(channel, listener, go, 2)
        for value in range(count):
            channel.submit(ask(value)).add_done_callback(again)
        assert all(done.acquire(timeout=60) for _ in range(count))
    assert max(depths) < 50


def traceback_of_this_thread() -> list[str]:
    names, frame = [], sys._getframe()
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def test_a_callback_that_takes_long_is_no_silence_of_the_peer():
    """What arrived meanwhile is read before anybody is taken for lost."""
    limits = Limits(heartbeat_seconds=0.2)
    go, released = threading.Event(), threading.Event()

    def handler(request):
        assert (go if int(request.raw[0]) == 0 else released).wait(60)
        return answer(request)

    with pair(handler, limits=limits, server_limits=limits) as (channel, listener):
        occupy(channel, listener, go, 3)
        late = channel.submit(ask(1))
        assert not wait_for(late.done, 3.5)
        released.set()
        assert late.result(timeout=60).gid.tolist() == [2]
        assert channel.statistics()["connections"] == 1


class Interrupted(BaseException):
    """What an alarm raises, as Ctrl-C would."""


@BOTH
def test_interrupts_in_the_midst_of_sending(token, monkeypatch):
    """As in a notebook. Over one connection nothing is sent twice, or in part: the peer would read nonsense."""
    chance, interrupts, arrived = random.Random(0), 0, []
    on_message = PortListener._on_message

    def note(listener, peer, client, frames):
        arrived.append((peer, bytes(frames[0][:9])))
        on_message(listener, peer, client, frames)

    def interrupt(*_):
        raise Interrupted

    monkeypatch.setattr(PortListener, "_on_message", note)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pair(token=token, limits=Limits(call_seconds=20)) as (channel, _):
            channel.call(ask(1))
            large = ask(3, size=300_000)
            for value in range(60):
                try:
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0002, 0.004))
                    channel.submit(large)
                    threading.Event().wait(1)
                except Interrupted:
                    interrupts += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                assert channel.submit(ask(value)).result(timeout=60).gid.tolist() == [value + 1]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupts == 60
    assert len(set(arrived)) == len(arrived)


# ---- processes


FORKS = """
import logging, os, sys, time, torch, warnings
from halohop.store.requests import LocateReply, LocateRequest
from tests.support.messages import MESSAGE_TYPES
from tests.support.strangers import wait_for
from halohop.testing.worlds import free_address
from halohop.transport import Codec, Limits, Token, connect, serve

codec, token = Codec(MESSAGE_TYPES), Token("a token that tests share", encrypt=sys.argv[1] == "sealed")
limits = Limits(call_seconds=20)
logging.disable()  # of connections that are lost on purpose
warnings.filterwarnings("ignore", category=DeprecationWarning)  # of forks beside threads
request = LocateRequest(node_type="node", raw=torch.tensor([1]))

def answer(request):
    return LocateReply(gid=request.raw + 1)

def fork(work):
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    return child

# A child that closes what it has from its parent ends nothing there, and wakes nobody for ever.
with serve(answer, codec=codec, token=token) as listener, connect(listener.address, codec=codec, token=token) as channel:
    channel.call(request)
    for work in (channel.close, listener.close):
        assert os.waitpid(fork(work), 0)[1] == 0
        before = time.process_time()
        assert not wait_for(lambda: False, 1)
        assert time.process_time() - before < 0.3, "somebody spins"
    channel.call(request)
    assert channel.statistics()["connections"] == 1

# What a parent closes is closed, though a child has it, too.
listener = serve(answer, codec=codec, token=token, bind=free_address())
channel, other = (connect(listener.address, codec=codec, token=token, limits=limits) for _ in range(2))
channel.call(request)
other.call(request)
child = fork(lambda: time.sleep(60))
channel.close()
assert wait_for(lambda: len(listener._clients) == 1), "the listener does not see that a client left"
listener.close()
with serve(answer, codec=codec, token=token, bind=listener.address):
    assert other.call(request).gid.tolist() == [2]
other.close()
os.kill(child, 9)
os.waitpid(child, 0)
print("done")
"""


@pytest.mark.parametrize("kind", ["plain", "sealed"])
def test_forked_processes(kind):
    process = run_script(FORKS, kind)
    assert (process.returncode, process.stdout, process.stderr) == (0, "done\n", "")


def test_a_process_without_descriptors_connects_when_it_has_one_again():
    with serve(answer, codec=CODEC, token=TOKEN, bind=free_address()) as first:
        address = first.address
        channel = connect(address, codec=CODEC, token=TOKEN, limits=Limits(call_seconds=30))
        channel.call(ask(1))
    with channel, serve(answer, codec=CODEC, token=TOKEN, bind=address):
        assert wait_for(lambda: channel._session is None)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = os.dup(0)
        os.close(spare)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
        try:
            future = channel.submit(ask(2))
            assert wait_for(lambda: "Too many open files" in channel._dialling.why([address]))
            assert not future.done()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert future.result(timeout=60).gid.tolist() == [3]


# ---- servers


def test_servers_that_ask_each_other_and_are_full():
    """Each holds as many requests that wait for the other as it may hold of others: it still hears what the other asks."""
    limits = Limits(call_seconds=20, max_in_flight=2, max_in_flight_bytes=100)
    peers = {}

    def server(number):
        def handler(request):
            if isinstance(request, LocateRequest):
                return peers[1 - number].call(LocateReply(gid=request.raw))
            return LocateReply(gid=request.gid + 1)

        return serve(handler, codec=CODEC, token=TOKEN, limits=limits, waiting=[LocateRequest])

    def channel(listener):
        return closing(connect(listener.address, codec=CODEC, token=TOKEN, limits=Limits(call_seconds=20)))

    with server(0) as first, server(1) as second, channel(first) as to_first, channel(second) as to_second:
        peers = {0: to_first, 1: to_second}
        with channel(first) as one, channel(second) as two:
            futures = [asked.submit(ask(value)) for value in range(20) for asked in (one, two)]
            assert [int(future.result(timeout=60).gid) for future in futures[::2]] == list(range(1, 21))
            assert [int(future.result(timeout=60).gid) for future in futures[1::2]] == list(range(1, 21))


@BOTH
def test_a_server_that_leaves_requests_on_the_wire_for_long_is_not_taken_for_gone(token):
    """For longer than a silence may last: it says that it is there, and nothing is asked twice."""
    limits = Limits(heartbeat_seconds=0.3, max_in_flight=1, handler_threads=1)
    served = []

    def handler(request):
        served.append(int(request.raw[0]))
        if len(served) == 1:
            threading.Event().wait(6)
        return answer(request)

    with pair(handler, token, limits=Limits(heartbeat_seconds=0.3), server_limits=limits) as (channel, _):
        futures = [channel.submit(ask(value, size=1_000_000)) for value in range(10)]
        assert [int(future.result(timeout=60).gid) for future in futures] == list(range(1, 11))
        assert channel.statistics()["connections"] == 1
    assert served == list(range(10))


def test_requests_of_clients_that_left_are_not_answered():
    released, served = threading.Event(), []

    def handler(request):
        served.append(int(request.raw[0]))
        assert released.wait(60)
        return answer(request)

    with pair(handler, server_limits=Limits(handler_threads=1)) as (channel, listener):
        future = channel.submit(ask(7))
        assert wait_for(lambda: served == [7])
        with Attacker(listener, TOKEN) as leaver:
            for number in range(5):
                leaver.send(REQUEST.pack(Kind.REQUEST, number, 60_000), *CODEC.encode(ask(8)))
            assert wait_for(lambda: listener.statistics()["in_flight"] == 6)
        assert wait_for(lambda: len(listener._clients) == 1)
        released.set()
        assert future.result(timeout=60).gid.tolist() == [8]
        assert channel.call(ask(9)).gid.tolist() == [10]
        assert wait_for(lambda: listener.statistics()["in_flight"] == 0)
        assert (served, listener.statistics()["expired"]) == ([7, 9], 5)


# ---- connections


def test_who_waits_for_an_encrypted_connection_does_not_spin():
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        connect(f"127.0.0.1:{silent.getsockname()[1]}", codec=CODEC, token=SEALED) as channel,
    ):
        channel.submit(ask(1))
        with silent.accept()[0] as sock:
            sock.sendall(SEALED_GREETING)
            assert busy_seconds() < 0.3


def test_a_connection_with_itself_is_none(monkeypatch):
    """On one host, to a port that nobody listens at, the system may connect a socket that it gives this very port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = server.getsockname()
    connecting = socket.socket.connect_ex

    def connect_with_itself(sock, target):
        sock.bind(target)
        return connecting(sock, target)

    port = ClientPort([f"{address[0]}:{address[1]}"], Limits(), None)
    with monkeypatch.context() as patch, closing(port):
        patch.setattr(Stream, "connected", lambda stream: True)
        patch.setattr(socket.socket, "connect_ex", connect_with_itself)
        port.open()
        port.send([b"hello"])
        assert [event for _ in range(5) for event in port.wait(0.2)] == [[b"hello"]]  # such a thing exists
        port.drop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    port = ClientPort([f"{address[0]}:{address[1]}"], Limits(), None)
    with closing(port):
        monkeypatch.setattr(socket.socket, "connect_ex", connect_with_itself)
        port.open()
        port.send([b"hello"])
        (lost,) = port.wait(60)
        assert isinstance(lost, Lost)
        with socket.create_server(address):  # its place is free at once
            port.drop()


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "a\0b", "."])
def test_what_can_be_no_name_of_a_host(host):
    for use in (lambda: connect(f"{host}:5", codec=CODEC), lambda: serve(answer, codec=CODEC, token=TOKEN, bind=f"{host}:0")):
        with pytest.raises(InputError, match="host:port"):
            use()


@pytest.mark.parametrize("seconds", [1e5, 1e8])
def test_heartbeats_that_hardly_ever_come(seconds):
    limits = Limits(heartbeat_seconds=seconds, call_seconds=seconds)
    with pair(limits=limits, server_limits=limits) as (channel, _):
        assert channel.submit(ask(1)).result(timeout=60).gid.tolist() == [2]


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
def test_times_that_never_come(seconds):
    with pytest.raises(InputError, match="call_seconds"):
        Limits(call_seconds=seconds)


def test_a_line_that_garbles_bytes():
    """Encryption notices it. What was under way is asked again, and the peer is not taken for a stranger."""
    chance, garbled = random.Random(0), []
    with (
        serve(lambda request: LocateReply(gid=request.raw + 1), codec=CODEC, token=SEALED) as listener,
        garbling(listener, chance, garbled) as address,
        connect(address, codec=CODEC, token=SEALED, limits=Limits(call_seconds=60)) as channel,
    ):
        for value in range(30):
            assert channel.submit(ask(value, size=10_000)).result(timeout=60).gid.tolist() == [value + 1] * 10_000
        assert channel.statistics()["connections"] > 3
    assert set(garbled) == {"there", "back"}


@contextmanager
def garbling(listener, chance, garbled):
    """A proxy that alters a byte now and then, in both directions; yields its address."""

    def pump(source, target, way):
        passed = 0
        try:
            while data := bytearray(source.recv(65536)):
                passed += len(data)
                if passed > 100_000 and chance.random() < 0.1:
                    data[chance.randrange(len(data))] ^= 1
                    garbled.append(way)
                target.sendall(data)
        except OSError:
            pass
        for sock in (source, target):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def run():
            while True:
                try:
                    near = proxy.accept()[0]
                except OSError:
                    return
                with near, socket.create_connection(endpoint(listener)) as far:
                    back = threading.Thread(target=pump, args=(far, near, "back"))
                    back.start()
                    pump(near, far, "there")
                    back.join()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"127.0.0.1:{proxy.getsockname()[1]}"
        finally:
            proxy.shutdown(socket.SHUT_RDWR)
            thread.join()
