import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from halohop.errors import PeerLostError, ProtocolError
from halohop.launch.jobs.host.channel import Channel
from halohop.launch.jobs.host.messages import KINDS, MARK, Beat, Begin, Brought, Copied, Order, Output, Program
from halohop.store.checksums import FileRecord

Pair = tuple[Channel, Channel, int]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Both ends of a connection in one direction, and the descriptor that its sender writes to."""
    read_end, write_end = os.pipe()
    yield Channel(read_end, -1, name="the other"), Channel(-1, write_end, name="the other"), write_end
    os.close(read_end)
    os.close(write_end)


def test_messages_come_as_they_were_sent(pair: Pair) -> None:
    receiver, sender, _ = pair
    record = FileRecord(dtype="float32", shape=(2, 3), bytes=24, checksums=("0badcafe",))
    sent = [
        Order(
            programs=(Program(name="server-0", argv=("-m", "x"), env={"A": "ü"}),),
            folder="/tmp",
            ports=(5510,),
            copied=(Copied(folder="/c", files={"part-0000/a.npy": record}, small={"stamp": b"\0\xff"}, manifest=b"{}"),),
        ),
        Output(name="server-0", data=bytes(range(256))),
        Brought(),
    ]
    for message in sent:
        sender.send(message)
        sender.send(Beat())  # not shown to who receives
    assert [receiver.receive(1) for _ in sent] == sent


def test_every_kind_has_a_place_of_its_own() -> None:
    assert len(set(KINDS)) == len(KINDS)
    assert Beat in KINDS


def test_what_a_shell_prints_before_the_mark_is_no_message(pair: Pair) -> None:
    receiver, sender, write_end = pair
    os.write(write_end, b"Welcome to graph7\nlast login: today\n" + MARK)
    sender.send(Begin(name="a"))
    receiver.find_mark(1)
    assert receiver.receive(1) == Begin(name="a")


def test_without_a_mark_an_error_shows_what_came(pair: Pair) -> None:
    receiver, _, write_end = pair
    os.write(write_end, b"This account is currently not available.\n")
    with pytest.raises(PeerLostError, match="the other did not start; it printed: This account is currently not available"):
        receiver.find_mark(0.01)


def test_silence_and_a_closed_pipe_are_losses(pair: Pair) -> None:
    receiver, sender, write_end = pair
    with pytest.raises(PeerLostError, match=r"the other said nothing for 0\.01 s"):
        receiver.receive(0.01)
    os.write(write_end, b"\0")  # the begin of a message, whose rest does not come
    with pytest.raises(PeerLostError, match="nothing"):
        receiver.receive(0.01)
    assert sender.close()
    with pytest.raises(PeerLostError, match="is closed"):
        sender.send(Beat())


@pytest.mark.parametrize("data", [b"\xff\0\0\0\0", b"\0\xff\xff\xff\xff", bytes([KINDS.index(Begin), 0, 0, 0, 1]) + b"\xc1"])
def test_what_is_no_message_is_refused(pair: Pair, data: bytes) -> None:
    receiver, _, write_end = pair
    os.write(write_end, data)
    with pytest.raises(ProtocolError, match="the other sent"):
        receiver.receive(1)


def test_a_message_that_drips_is_late(pair: Pair) -> None:
    """Each byte comes in time, the whole does not."""
    receiver, _, write_end = pair
    over = threading.Event()

    def drip() -> None:
        os.write(write_end, bytes([KINDS.index(Output), 0, 0, 1, 0]))
        while not over.wait(0.01):
            os.write(write_end, b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with pytest.raises(PeerLostError, match="the other took too long"):
            receiver.receive(5, latest=time.monotonic() + 0.2)
    finally:
        over.set()
        thread.join()


def test_a_side_that_must_end_says_so_once_and_at_once(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halohop.launch.jobs.host.channel.BEAT_S", 60)
    receiver, sender, _ = pair
    state = [Beat(work=1)]
    sender.beat(lambda: state[-1])
    state.append(Beat(work=1, must_end=True))
    sender.hurry()
    assert receiver.receive(20) == state[-1]
    sender.hurry()
    sender.send(Brought())
    assert receiver.receive(20) == Brought()
    sender.close()


@pytest.mark.parametrize(("message", "advances"), [(Beat(), False), (Beat(work=3), True), (Brought(), True)])
def test_the_other_side_advances_by_what_it_sends_and_by_its_work(pair: Pair, message: Beat | Brought, advances: bool) -> None:
    receiver, sender, _ = pair
    receiver.advanced = receiver.heard = 0.0
    sender.send(message)
    with suppress(PeerLostError):
        receiver.receive(0)
    assert receiver.heard > 0
    assert (receiver.advanced > 0) == advances
