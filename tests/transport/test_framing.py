"""Messages in a stream of bytes: whatever the pieces, they arrive as they were sent; what is too large is refused by its head."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import ProtocolError
from halohop.ops.pool import Pool
from halohop.transport.framing import Assembler, packed

MESSAGES = st.lists(st.lists(st.sampled_from([0, 1, 7, 300, 40_000, 70_000]), min_size=1, max_size=5), max_size=4)


def assembler(max_bytes=2**20, max_frames=10) -> Assembler:
    return Assembler(max_bytes=max_bytes, max_frames=max_frames, pool=Pool())


def fill(data: bytes, size: int) -> bytes:
    return (data * (size // len(data) + 1))[:size]


@given(MESSAGES, st.lists(st.integers(1, 100_000), min_size=1, max_size=10))
def test_messages_arrive_as_they_were_sent(sizes, pieces):
    """In pieces of any sizes, by way of a common buffer or straight into the frame's own memory."""
    messages = [[fill(bytes([65 + i, 97 + j, 10]), size) for j, size in enumerate(frames)] for i, frames in enumerate(sizes)]
    data = memoryview(b"".join(b"".join(packed(message)) for message in messages))
    receiver, got, turn = assembler(), [], 0
    while len(data):
        count = pieces[turn % len(pieces)]
        turn += 1
        room = receiver.room()
        if room is None:
            count = min(count, len(data))
            receiver.feed(data[:count])
        else:
            count = min(count, len(room), len(data))
            room[:count] = data[:count]
            receiver.filled(count)
        data = data[count:]
        got += receiver.take()
    assert [[bytes(frame) for frame in message] for message in got] == messages
    assert not receiver.complete


def test_frames_are_writable_and_nobody_elses():
    receiver, message = assembler(), b"".join(packed([b"abc", bytes(100_000)]))
    receiver.feed(memoryview(message * 2))
    first, second = receiver.take()
    for frame in first:
        assert not frame.readonly
        frame[:] = b"z" * len(frame)
    assert [bytes(frame) for frame in second] == [b"abc", bytes(100_000)]


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">I", 0),
        struct.pack(">I", 11),
        struct.pack(">I", 2**32 - 1),
        struct.pack(">IQ", 1, 101),
        struct.pack(">IQ", 1, 2**64 - 1),
        struct.pack(">IQQ", 2, 51, 50),
        struct.pack(">IQQ", 2, 2**63, 2**63),
    ],
)
def test_what_is_too_large_is_refused_by_its_head(head):
    with pytest.raises(ProtocolError, match="allowed"):
        assembler(max_bytes=100).feed(memoryview(head))
    receiver = assembler(max_bytes=100)
    receiver.feed(memoryview(head[:3]))
    with pytest.raises(ProtocolError, match="allowed"):
        receiver.feed(memoryview(head[3:]))


def test_the_largest_fits():
    receiver = assembler(max_bytes=100, max_frames=2)
    receiver.feed(memoryview(b"".join(packed([bytes(60), bytes(40)]))))
    assert [len(frame) for frame in receiver.take()[0]] == [60, 40]


def test_memory_of_large_frames_is_used_again():
    pool = Pool()
    receiver = Assembler(max_bytes=2**30, max_frames=10, pool=pool)
    message = memoryview(b"".join(packed([bytes(10**6)])))
    for _ in range(5):
        receiver.feed(message)
        del receiver.take()[0]
    assert pool.statistics()["made"] == 1
