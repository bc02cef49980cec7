"""Clients that do not read their replies: these are counted until they are sent, and no other client is worse off for it."""

import logging
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager

import pytest
import torch

from halohop.store.requests import LocateReply, LocateRequest
from halohop.transport import Codec, Limits, Token, connect, serve
from halohop.transport.wire import REQUEST, Kind
from tests.support.messages import MESSAGE_TYPES
from tests.support.strangers import Attacker, hung_up, reset, resident_bytes, wait_for

CODEC = Codec(MESSAGE_TYPES)
TOKEN = Token("a token that tests share")
SEALED = Token("a token that tests share", encrypt=True)
BOTH = pytest.mark.parametrize("token", [TOKEN, SEALED], ids=["plain", "sealed"])
MB = 2**20
ROWS = MB // 8 - 100  # of a reply that weighs a megabyte, with its head
SYSTEM = 16 * MB
"""What the system may hold of a connection, in both directions."""


def ask(client: int, size: int = 1) -> LocateRequest:
    return LocateRequest(node_type="node", raw=torch.full((size,), client, dtype=torch.float64))


class Room:
    """A server whose replies weigh a megabyte, and which counts how many it made for each client."""

    def __init__(self, token=TOKEN, **limits):
        self.token, self.made, self._lock = token, Counter(), threading.Lock()
        self._limits = Limits(**{"max_unsent_bytes": 4 * MB, "handler_threads": 4, **limits})

    def _answer(self, request):
        with self._lock:
            self.made[int(request.raw[0])] += 1
        return LocateReply(gid=torch.zeros(ROWS, dtype=torch.float64))

    @contextmanager
    def open(self):
        with ExitStack() as stack:
            self.listener = stack.enter_context(serve(self._answer, codec=CODEC, token=self.token, limits=self._limits))
            self.reader = stack.enter_context(connect(self.listener.address, codec=CODEC, token=self.token))
            yield self

    def attack(self, client, count, size=1):
        """A client that asks so often, and reads nothing."""
        attacker = Attacker(self.listener, self.token)
        frames = CODEC.encode(ask(client, size))
        for number in range(count):
            attacker.send(REQUEST.pack(Kind.REQUEST, number, 600_000), *frames)
        return attacker

    def unsent(self):
        return sum(stream.backlog for stream in list(self.listener._port._streams.values()))

    def held(self):
        return len(self.listener._intake._held)

    def assert_others_are_served(self, count=20):
        futures = [self.reader.submit(ask(0)) for _ in range(count)]
        assert all(len(future.result(timeout=60).gid) == ROWS for future in futures)
        assert self.reader.statistics()["connections"] == 1


@BOTH
def test_a_client_that_does_not_read_fills_no_server_and_others_go_on(token):
    """Not even where its requests alone are as many as the server takes in; and in the end it gets every reply."""
    with Room(token, max_in_flight=8).open() as room:
        room.assert_others_are_served()
        before = resident_bytes()
        with room.attack(1, 150) as attacker:
            assert wait_for(room.held)
            room.assert_others_are_served()
            assert room.unsent() <= (4 + 4) * MB + 10_000  # and one reply of each thread
            assert room.made[1] * MB <= SYSTEM + 8 * MB
            assert resident_bytes() - before < 64 * MB
            seen = set()
            while len(seen) < 150:
                frames = attacker.receive()
                if frames[0][0] == Kind.REPLY:
                    seen.add(bytes(frames[0]))
            assert wait_for(lambda: not room.held())
            assert wait_for(lambda: room.listener.statistics()["in_flight"] == 0)
        room.assert_others_are_served()


def test_nothing_is_read_of_a_client_that_does_not_read():
    """Its requests stay on the wire, and are not kept here."""
    with Room().open() as room:
        before = resident_bytes()
        attacker = room.attack(1, 20)
        assert wait_for(room.held)
        attacker.sock.settimeout(0.5)

        def ask_on():
            frames = CODEC.encode(ask(1, 100_000))
            for number in range(1000):
                attacker.send(REQUEST.pack(Kind.REQUEST, 1000 + number, 600_000), *frames)

        with attacker, pytest.raises(TimeoutError):
            ask_on()
        room.assert_others_are_served()
        assert resident_bytes() - before < 64 * MB


def test_all_together_are_bounded_as_well():
    """Each of them is within its own limit. A client that reads is served even then."""
    limits = {"max_unsent_bytes": 1000 * MB, "max_unsent_bytes_in_all": 8 * MB}
    with Room(**limits).open() as room, ExitStack() as stack:
        for client in range(1, 4):
            stack.enter_context(room.attack(client, 60))
        assert wait_for(lambda: room.held() == 3)
        room.assert_others_are_served()
        assert room.unsent() <= (8 + 3 * 4) * MB  # and, of each, one reply of each thread
        assert max(room.made[client] for client in range(1, 4)) * MB <= SYSTEM + 20 * MB


def test_a_client_that_is_gone_holds_back_no_other():
    """Neither its requests that are here already, nor those that are still on the wire."""
    limits = {"max_unsent_bytes": 1000 * MB, "max_unsent_bytes_in_all": 32 * MB}
    with Room(**limits).open() as room, room.attack(1, 80) as gone:
        assert wait_for(lambda: room.held() == 1)
        with room.attack(2, 30) as silent:
            assert wait_for(lambda: room.held() == 2)
            silent.send(REQUEST.pack(Kind.REQUEST, 30, 600_000), *CODEC.encode(ask(3)))
            reset(gone.sock)
            assert wait_for(lambda: room.made[2] == 30)
            assert wait_for(lambda: room.made[3] == 1)
        assert wait_for(lambda: not room.held())  # what is read of the one may be seen before the other is missed


def test_requests_on_the_wire_are_read_when_a_client_that_is_gone_makes_room():
    """Also where no request of the others waits in the server, whose answer would look at them again."""
    limits = {"max_unsent_bytes": 1000 * MB, "max_unsent_bytes_in_all": 32 * MB, "heartbeat_seconds": 1000.0}
    with Room(**limits).open() as room, room.attack(1, 80) as gone:
        assert wait_for(lambda: room.held() == 1)
        with room.attack(2, 0) as silent:
            for number in range(64):  # until what the system holds of its replies is full
                silent.send(REQUEST.pack(Kind.REQUEST, number, 600_000), *CODEC.encode(ask(2)))
                assert wait_for(lambda number=number: room.made[2] == number + 1)
                if wait_for(lambda: room.held() == 2, seconds=0.1):
                    break
            silent.send(REQUEST.pack(Kind.REQUEST, 64, 600_000), *CODEC.encode(ask(3)))
            reset(gone.sock)
            assert wait_for(lambda: room.made[3] == 1)


def test_a_client_that_takes_nothing_for_long_is_disconnected_and_one_that_takes_a_little_is_not(caplog):
    with Room(heartbeat_seconds=0.2).open() as room, caplog.at_level(logging.WARNING):
        with room.attack(1, 100) as silent, room.attack(2, 100) as slow:
            assert wait_for(lambda: room.held() == 2)
            stop = threading.Event()

            def read_slowly():
                while not stop.wait(0.02):
                    slow.sock.recv(100_000)

            reader = threading.Thread(target=read_slowly)
            reader.start()
            try:
                assert wait_for(lambda: "has read no reply for 2 s" in caplog.text)  # before anything is read of it
                assert hung_up(silent.sock)
                assert wait_for(lambda: len(room.listener._clients) == 2)
                room.assert_others_are_served()
            finally:
                stop.set()
                reader.join()
            assert slow.sock.recv(1000)
        assert caplog.text.count("has read no reply") == 1
        assert wait_for(lambda: len(room.listener._clients) == 1)
        assert wait_for(lambda: room.listener.statistics()["in_flight"] == 0)  # what the others asked is forgotten
        assert not room.held()
