"""TCP: the contract, and what only a network has: strangers, sockets, processes that die."""

import gc
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import torch

from halohop.errors import AuthenticationError, InputError, PeerLostError, ProtocolError, TransportError
from halohop.store.requests import LocateReply, LocateRequest
from halohop.testing.worlds import free_address
from halohop.transport import Codec, Limits, Token, connect, serve
from halohop.transport.handshake import ClientHandshake, Step, Terms, _step, step_of
from halohop.transport.wire import REQUEST, Kind
from tests.support.contracts.transport import TransportContract
from tests.support.forked import Forked
from tests.support.messages import MESSAGE_TYPES
from tests.support.strangers import GREETING, Attacker, endpoint, framed, hung_up, knock, reset, wait_for

ROOT = Path(__file__).parents[2]
"""Where children find `tests.support`."""

CODEC = Codec(MESSAGE_TYPES)
TERMS = Terms(max_message_bytes=1000, messages=CODEC.digest)
TOKEN = Token("a token that tests share")
LIMITS = Limits(call_seconds=20, attempt_seconds=2, connect_seconds=5)

OURS = """
import atexit, threading
atexit.register(lambda: print(*[thread.name for thread in threading.enumerate() if thread.name.startswith("halohop")]))
"""
"""Prints which threads of halohop are left when the process ends, after all that others have registered for its end."""

SERVER = f"""{OURS}
import sys, torch
from halohop.store.requests import LocateReply
from tests.support.forked import Forked
from tests.support.messages import MESSAGE_TYPES
from halohop.transport import Codec, Token, serve

listening, released = threading.Event(), threading.Event()

def handler(request):
    if int(request.raw[0]) < 0:
        listening.wait(60)  # so that the address is the first line
        print("busy", flush=True)
        released.wait(60)
    return LocateReply(gid=request.raw + 1)

listener = serve(handler, codec=Codec(MESSAGE_TYPES), token=Token("a token that tests share"), bind=sys.argv[1])
print(listener.address, flush=True)
listening.set()
for line in sys.stdin:
    released.set()
if sys.argv[2] == "tidy":
    listener.close()
"""


class TestTcp(TransportContract):
    """Without encryption."""


def ask(value: int, size: int = 1) -> LocateRequest:
    return LocateRequest(node_type="node", raw=torch.full((size,), value, dtype=torch.float64))


def answer(request: LocateRequest) -> LocateReply:
    return LocateReply(gid=request.raw + 1)


@contextmanager
def pair(limits=LIMITS, handler=answer, server_limits=LIMITS):
    with (
        serve(handler, codec=CODEC, token=TOKEN, limits=server_limits) as listener,
        connect(listener.address, codec=CODEC, token=TOKEN, peer="host 7", limits=limits) as channel,
    ):
        yield channel, listener


@contextmanager
def server_process(bind="127.0.0.1:0"):
    with closing(Forked("-c", [SERVER, bind, "tidy"], os.environ, stdin=True)) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
            process.wait(60)


@contextmanager
def server_process_of_its_own(ending):
    command = [sys.executable, "-c", SERVER, "127.0.0.1:0", ending]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


# ---- addresses


def test_addresses_with_and_without_scheme_and_by_name():
    with serve(answer, codec=CODEC, token=TOKEN, bind="localhost:0") as listener:
        port = endpoint(listener)[1]
        for address in (f"127.0.0.1:{port}", f"tcp://127.0.0.1:{port}", f"localhost:{port}"):
            with connect(address, codec=CODEC, token=TOKEN) as channel:
                assert channel.call(ask(1)).gid.tolist() == [2]


def test_a_port_in_use_is_named():
    with serve(answer, codec=CODEC) as listener:
        host, port = endpoint(listener)
        with pytest.raises(TransportError, match=rf"{host}:{port}: Address already in use; .* 0 for a free one"):
            serve(answer, codec=CODEC, bind=listener.address)


def test_an_interface_of_somebody_else():
    with pytest.raises(TransportError, match=r"192\.0\.2\.1:0: .* address of this host"):
        serve(answer, codec=CODEC, token=TOKEN, bind="192.0.2.1:0")


@pytest.mark.parametrize("bind", ["0.0.0.0:0", "*:0", "tcp://192.0.2.1:0"])
def test_others_are_let_in_only_with_a_token(bind):
    with pytest.raises(InputError, match="HALOHOP_TOKEN"):
        serve(answer, codec=CODEC, bind=bind)


def test_all_interfaces():
    with (
        serve(answer, codec=CODEC, token=TOKEN, bind="*:0") as listener,
        connect(f"127.0.0.1:{endpoint(listener)[1]}", codec=CODEC, token=TOKEN) as channel,
    ):
        assert channel.call(ask(1)).gid.tolist() == [2]


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":5", "host:x", "host:70000", "ipc:///tmp/x:1", "::1:5", "host:-1", "host:٣"]
)
def test_what_is_no_address(address):
    for use in (lambda: connect(address, codec=CODEC), lambda: serve(answer, codec=CODEC, bind=address)):
        with pytest.raises(InputError, match="host:port"):
            use()


def test_a_port_to_connect_to_is_needed():
    with pytest.raises(InputError, match="names no port"):
        connect("localhost:0", codec=CODEC)


def test_a_host_that_nobody_knows():
    limits = Limits(connect_seconds=0.5)
    with (
        connect("no-such-host.invalid:5", codec=CODEC, peer="host 9", limits=limits) as channel,
        pytest.raises(PeerLostError, match="host 9"),
    ):
        channel.call(ask(1))


# ---- strangers


def test_strangers_do_not_disturb():
    """Raw bytes, random frames, endless parts, chosen identities and half handshakes, while a real client works."""
    stop = threading.Event()
    failures: list[BaseException] = []
    served = []

    def handler(request):
        served.append(int(request.raw[0]))
        return answer(request)

    with pair(handler=handler) as (channel, listener):

        def guarded(attack):
            try:
                chance = random.Random(attack.__name__)
                while not stop.is_set():
                    attack(chance)
            except BaseException as error:
                failures.append(error)

        def raw_bytes(chance):
            say = chance.choice((b"", GREETING)) + chance.randbytes(chance.randint(0, 5000))
            try:
                with knock(listener, say=say) as sock:
                    sock.settimeout(0.05)
                    sock.recv(100)
            except OSError:
                return  # it hung up on us, or said nothing: both right

        def random_frames(chance):
            hello = ClientHandshake(TOKEN, TERMS).hello()
            hellos = ([hello], [hello, hello], [hello[:-1]], [hello + b"x"], [hello[:6] + b"\x03" + hello])
            try:
                with Attacker(listener) as attacker:
                    for _ in range(20):
                        sizes = [chance.choice((0, 1, 8, 17, 39, 47, 100_000)) for _ in range(chance.choice((1, 2, 300)))]
                        request = [REQUEST.pack(Kind.REQUEST, 1, 1000), *CODEC.encode(ask(-1))]
                        attacker.send(
                            *chance.choice((chance.choice(hellos), request, [chance.randbytes(size) for size in sizes]))
                        )
            except OSError:
                return

        threads = [threading.Thread(target=guarded, args=(attack,)) for attack in (raw_bytes, random_frames)]
        for thread in threads:
            thread.start()
        try:
            for value in range(100):
                assert channel.call(ask(value, size=1 + 10 * value)).gid.tolist() == [value + 1] * (1 + 10 * value)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert failures == []
        assert channel.statistics()["connections"] == 1
        assert listener.statistics()["sessions"] == 1
        assert listener.statistics()["strangers"] > 0
        assert -1 not in served
        assert listener.statistics()["failures"] == 0  # nothing of theirs was even decoded


@pytest.mark.parametrize("known", [False, True])
def test_who_speaks_out_of_turn_is_hung_up_on(known):
    """Requests of strangers, and what is no request of peers. Nobody else is concerned."""
    served = []
    request = [REQUEST.pack(Kind.REQUEST, 1, 1000), *CODEC.encode(ask(1))]
    bad = [[b""], [b"x"], [request[0]], [request[0][:-1], *request[1:]], [b"\x81" + request[0][1:], *request[1:]]]
    with pair(handler=lambda request: served.append(request) or answer(request)) as (channel, listener):
        for message in bad if known else [request, *bad]:
            with Attacker(listener, TOKEN if known else None) as attacker:
                attacker.send(*message)
                assert hung_up(attacker.sock)
        assert served == []
        assert wait_for(lambda: listener.statistics()["sessions" if known else "strangers"] == len(bad) + 1)
        assert channel.call(ask(1)).gid.tolist() == [2]
        assert channel.statistics()["connections"] == 1


def test_one_hello_per_connection():
    with serve(answer, codec=CODEC, token=TOKEN, limits=LIMITS) as listener, Attacker(listener) as attacker:
        attacker.send(ClientHandshake(TOKEN, TERMS).hello())
        attacker.receive()
        attacker.send(ClientHandshake(TOKEN, TERMS).hello())
        assert hung_up(attacker.sock)


def test_a_request_that_is_repeated_while_it_is_answered_is_answered_once():
    released, served = threading.Event(), []

    def handler(request):
        served.append(request)
        assert released.wait(60)
        return answer(request)

    with serve(handler, codec=CODEC, token=TOKEN) as listener, Attacker(listener, TOKEN) as attacker:
        for _ in range(3):
            attacker.send(REQUEST.pack(Kind.REQUEST, 7, 9000), *CODEC.encode(ask(4)))
        attacker.send(REQUEST.pack(Kind.REQUEST, 8, 9000), *CODEC.encode(ask(5)))
        assert wait_for(lambda: len(served) == 2)
        released.set()
        assert sorted(CODEC.decode(attacker.receive()[1:]).gid.tolist() for _ in range(2)) == [[5], [6]]


def test_handshakes_that_are_never_finished_are_forgotten():
    limits = Limits(attempt_seconds=0.2)
    with pair(server_limits=limits) as (channel, listener), Attacker(listener) as attacker:
        attacker.send(ClientHandshake(TOKEN, TERMS).hello())
        attacker.receive()
        assert hung_up(attacker.sock)
        assert wait_for(lambda: not listener._handshakes)
        assert channel.call(ask(1)).gid.tolist() == [2]


def test_another_protocol_version():
    with serve(answer, codec=CODEC, token=TOKEN, limits=LIMITS) as listener, Attacker(listener) as attacker:
        hello = bytearray(ClientHandshake(TOKEN, TERMS).hello())
        hello[5] = 9
        attacker.send(hello)
        client = ClientHandshake(TOKEN, TERMS)
        reply = bytearray(attacker.receive()[0])
        assert step_of(bytes(reply)) is Step.REFUSED
        reply[5] = 9
        with pytest.raises(ProtocolError, match="version 9"):
            client.step(bytes(reply))


def test_a_client_of_something_that_is_no_halohop():
    """A web server, say: named, and within the deadline for connecting."""
    limits = Limits(attempt_seconds=0.3, connect_seconds=0.6)
    with socket.create_server(("127.0.0.1", 0)) as web:

        def run():
            try:
                while True:
                    with web.accept()[0] as sock:
                        sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(100))
            except OSError:
                return

        thread = threading.Thread(target=run)
        thread.start()
        try:
            with (
                connect(f"127.0.0.1:{web.getsockname()[1]}", codec=CODEC, peer="host 7", limits=limits) as channel,
                pytest.raises(PeerLostError, match=r"host 7.*could not be reached"),
            ):
                channel.call(ask(1))
        finally:
            web.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_an_impostor_that_takes_over_the_port():
    """It speaks our protocol, says WELCOME, but cannot prove that it knows the token: no request is sent to it."""
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as impostor:
        impostor.settimeout(5)
        with connect(f"127.0.0.1:{impostor.getsockname()[1]}", codec=CODEC, token=TOKEN, limits=LIMITS) as channel:
            future = channel.submit(ask(1))
            with impostor.accept()[0] as sock:
                sock.sendall(GREETING + framed(_step(Step.CHALLENGE) + bytes(32)))
                sock.sendall(framed(_step(Step.WELCOME) + bytes(56)))
                with pytest.raises(AuthenticationError, match="could not prove"):
                    future.result(timeout=60)
                while data := sock.recv(1000):
                    heard += data
    hello = framed(ClientHandshake(TOKEN, TERMS).hello())
    assert heard.startswith(GREETING + hello[:18])
    assert len(heard) == len(GREETING) + len(hello) + len(framed(bytes(63)))  # and a proof, but no request


# ---- peers that come and go


def test_a_killed_process_is_named_at_the_deadline():
    with (
        server_process() as (process, address),
        connect(address, codec=CODEC, token=TOKEN, peer="host 7", limits=LIMITS) as channel,
    ):
        assert channel.call(ask(1)).gid.tolist() == [2]
        future = channel.submit(ask(-1), seconds=2)
        assert process.stdout.readline() == "busy\n"
        process.kill()
        start = time.monotonic()
        with pytest.raises(PeerLostError, match=r"LocateRequest: peer 'host 7' at .* went away") as caught:
            future.result(timeout=60)
        assert time.monotonic() - start < LIMITS.call_seconds / 2
        assert address in str(caught.value)
        assert process.wait(60) == -signal.SIGKILL


def test_a_killed_process_that_is_replaced():
    bind, limits = free_address(), Limits(call_seconds=200, attempt_seconds=2)  # a new process may take long on a busy machine
    with server_process(bind) as (first, address), connect(address, codec=CODEC, token=TOKEN, limits=limits) as channel:
        futures = [channel.submit(ask(-1)), *(channel.submit(ask(value)) for value in range(20))]
        assert first.stdout.readline() == "busy\n"
        first.kill()
        assert first.wait(60) == -signal.SIGKILL
        with server_process(bind) as (second, _):
            assert second.stdout.readline() == "busy\n"
            second.stdin.write("go on\n")
            assert [int(future.result(timeout=100).gid) for future in futures] == list(range(21))
            second.stdin.close()
            assert second.wait(60) == 0


def test_a_process_that_stops_for_a_while():
    limits = Limits(call_seconds=20, attempt_seconds=0.3)
    with server_process() as (process, address), connect(address, codec=CODEC, token=TOKEN, limits=limits) as channel:
        channel.call(ask(1))
        process.stop()
        futures = [channel.submit(ask(value, size=100_000)) for value in range(5)]
        with pytest.raises(TimeoutError):
            futures[0].result(timeout=1)
        process.send_signal(signal.SIGCONT)
        assert [int(future.result(timeout=60).gid[-1]) for future in futures] == [1, 2, 3, 4, 5]


def test_a_silent_peer_is_noticed_by_its_heartbeats():
    limits = Limits(call_seconds=20, attempt_seconds=20, heartbeat_seconds=0.05)
    with server_process() as (process, address), connect(address, codec=CODEC, token=TOKEN, limits=limits) as channel:
        channel.call(ask(1))
        process.stop()
        future = channel.submit(ask(2))
        assert wait_for(lambda: channel._session is None)
        process.send_signal(signal.SIGCONT)
        assert future.result(timeout=60).gid.tolist() == [3]


@pytest.mark.parametrize("ending", ["tidy", "forgetful"])
@pytest.mark.full
def test_a_process_ends_when_it_is_done(ending):
    """Also one that forgets to close: no thread of ours keeps it, and none is left, which torch would answer with an abort."""
    with server_process_of_its_own(ending) as (process, address):
        script = f"""{OURS}
from tests.support.forked import Forked
from tests.support.messages import MESSAGE_TYPES
from halohop.store.requests import LocateRequest
from halohop.transport import Codec, Token, connect
import torch
channel = connect({address!r}, codec=Codec(MESSAGE_TYPES), token=Token("a token that tests share"))
print(channel.call(LocateRequest(node_type="node", raw=torch.zeros(50000, dtype=torch.int64))).gid.sum())
"""
        command = [sys.executable, "-W", "error", "-c", script]
        client = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
        assert (client.returncode, client.stdout, client.stderr) == (0, "tensor(50000)\n\n", "")
        process.stdin.close()
        assert process.stdout.read() == "\n"
        assert process.wait(timeout=60) == 0


def test_a_connection_that_is_cut_again_and_again():
    """A proxy cuts the line after some bytes; every call still gets its answer, and none a wrong one."""
    with serve(answer, codec=CODEC, token=TOKEN, limits=LIMITS) as listener, socket.create_server(("127.0.0.1", 0)) as proxy:
        chance = random.Random(0)
        cuts = []

        def pump(source, target, left):
            try:
                while left > 0 and (data := source.recv(65536)):
                    target.sendall(data)
                    left -= len(data)
            except OSError:
                left = 0
            cuts.append(left <= 0)
            for sock in (source, target):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

        def run():
            while True:
                try:
                    near = proxy.accept()[0]
                except OSError:
                    return
                with near, socket.create_connection(endpoint(listener)) as far:
                    left = chance.randint(20_000, 800_000)
                    threads = [threading.Thread(target=pump, args=(*ends, left)) for ends in ((near, far), (far, near))]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            limits = Limits(call_seconds=20, max_in_flight=4)  # so that answers come between the requests that use up the line
            with connect(f"127.0.0.1:{proxy.getsockname()[1]}", codec=CODEC, token=TOKEN, limits=limits) as channel:
                futures = [channel.submit(ask(value, size=1 + value * 97 % 9000)) for value in range(100)]
                for value, future in enumerate(futures):
                    assert future.result(timeout=60).gid.tolist() == [value + 1] * (1 + value * 97 % 9000)
                assert channel.statistics()["connections"] > 2
        finally:
            proxy.shutdown(socket.SHUT_RDWR)
            thread.join()
        assert any(cuts)


# ---- house-keeping


def test_requests_that_nobody_waits_for_are_not_answered():
    released, seen = threading.Event(), []

    def handler(request):
        seen.append(int(request.raw[0]))
        assert released.wait(60)
        return answer(request)

    limits = Limits(handler_threads=1)
    with pair(limits=Limits(call_seconds=0.3), handler=handler, server_limits=limits) as (channel, listener):
        assert wait_for(lambda: channel.is_connected)
        futures = [channel.submit(ask(value)) for value in range(5)]
        assert wait_for(lambda: listener.statistics()["in_flight"] == 5)
        for future in futures:
            with pytest.raises(TimeoutError):
                future.result(timeout=60)
        threading.Event().wait(0.3)  # the listener's clock started when it had read them
        released.set()
        assert wait_for(lambda: listener.statistics()["expired"] == 4)
        assert seen == [0]


def test_a_busy_listener_leaves_the_rest_on_the_wire():
    released = threading.Event()

    def handler(request):
        assert released.wait(60)
        return answer(request)

    limits = Limits(max_in_flight=3, handler_threads=2)
    with pair(handler=handler, server_limits=limits) as (channel, listener):
        futures = [channel.submit(ask(value, size=20_000)) for value in range(100)]
        assert wait_for(lambda: listener.statistics()["in_flight"] >= 3)
        threading.Event().wait(0.2)
        assert listener.statistics()["in_flight"] <= 8  # and what had arrived with the third
        released.set()
        assert [int(future.result(timeout=60).gid[0]) for future in futures] == list(range(1, 101))


def test_clients_that_left_are_forgotten():
    """At once, however they left."""
    with pair() as (channel, listener):
        channel.call(ask(1))
        for number in range(6):
            attacker = Attacker(listener, TOKEN)
            assert wait_for(lambda: len(listener._clients) == 2)
            reset(attacker.sock) if number % 2 else attacker.close()
            assert wait_for(lambda: len(listener._clients) == 1)
        assert channel.call(ask(2)).gid.tolist() == [3]
        assert channel.statistics()["connections"] == 1


def test_nothing_is_left_after_close():
    def descriptors():
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))

    def no_more(before):  # a thread that has been joined is seen for a moment
        return all(now <= then for now, then in zip(descriptors(), before, strict=True))

    def use():
        with pair() as (channel, listener):
            channel.call(ask(1, size=100_000))
            with Attacker(listener) as attacker:
                attacker.send(b"hello")
        with (
            connect(listener.address, codec=CODEC, limits=Limits(connect_seconds=0.1)) as channel,
            pytest.raises(PeerLostError),
        ):
            channel.call(ask(1))
        with pytest.raises(InputError):
            serve(answer, codec=CODEC, bind="0.0.0.0:0")
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(TransportError):
            serve(answer, codec=CODEC, bind=f"127.0.0.1:{taken.getsockname()[1]}")

    use()
    before = descriptors()
    for _ in range(5):
        use()
    assert wait_for(lambda: no_more(before))


def test_no_thread_is_busy_while_nothing_happens():
    with pair() as (channel, _):
        channel.call(ask(1))
        before = time.process_time()
        threading.Event().wait(1)
        assert time.process_time() - before < 0.1


def test_large_tensors_survive_being_dropped_by_the_sender():
    """Zero-copy sending must keep the memory alive until the system has taken it."""

    def handler(request):
        return LocateReply(gid=torch.full((300_000,), request.raw[0]))

    with pair(handler=handler) as (channel, _):
        futures = [channel.submit(ask(value, size=50_000)) for value in range(30)]
        for value, future in enumerate(futures):
            gid = future.result(timeout=60).gid
            assert int(gid.min()) == int(gid.max()) == value
            del gid


@pytest.mark.parametrize("token", [None, TOKEN])
def test_who_lies_about_sizes_is_cut_off(token):
    """A frame that announces 2**60 bytes is not waited for, let alone made room for; nor are 2**32 frames."""
    with pair() as (channel, listener):
        for head in (b"\0\0\0\1" + (2**60).to_bytes(8), b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\2" + b"\xff" * 16):
            with Attacker(listener, token) as attacker:
                attacker.sock.sendall(head + b"x" * 100)
                assert hung_up(attacker.sock)
        assert channel.call(ask(1)).gid.tolist() == [2]
