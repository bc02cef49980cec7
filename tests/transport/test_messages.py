"""Frames: what comes out equals what went in, and nothing that a peer may send does more than raise ProtocolError."""

import random
import struct
import tracemalloc
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halohop.errors import InputError, ProtocolError
from halohop.store.requests import FetchReply, LocateReply, LocateRequest
from halohop.transport.messages import _DTYPES, Codec, Failure, size_of
from tests.support.messages import MESSAGE_TYPES, random_messages, same

CODEC = Codec(MESSAGE_TYPES)


def reply(*tensors: Tensor) -> FetchReply:
    return FetchReply(rows=(tensors,), sparse=({},))


def header(body: object, name: str = "LocateReply") -> bytes:
    return bytes([len(name)]) + name.encode() + msgspec.msgpack.encode(body)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.booleans())
def test_round_trip(seed, read_only):
    for message in random_messages(seed):
        frames = CODEC.encode(message)
        received = [bytes(frame) if read_only else bytearray(frame) for frame in frames]
        assert same(CODEC.decode(received), message)


@pytest.mark.parametrize("dtype", _DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5,), (3, 0, 2), (2, 3, 4)], ids=str)
def test_every_dtype_and_shape(dtype, shape):
    raw = torch.randint(0, 2, (*shape, dtype.itemsize), dtype=torch.uint8)
    values = (raw if raw.numel() else torch.empty(0, dtype=torch.uint8)).view(dtype).reshape(shape)
    (arrived,) = CODEC.decode([bytearray(frame) for frame in CODEC.encode(reply(values))]).rows[0]
    assert arrived.dtype == dtype
    assert arrived.shape == values.shape
    assert arrived.reshape(-1).view(torch.uint8).tolist() == values.reshape(-1).view(torch.uint8).tolist()


def test_layouts_that_are_not_in_one_piece():
    wide = torch.arange(24.0).reshape(4, 6)
    odd = [
        wide.T,
        wide[:, ::2],
        wide[1:1],
        wide[0, 3:4:2],
        torch.tensor(3.0).expand(4),
        torch.complex(wide, wide).conj(),
        wide.clone().requires_grad_(),
    ]
    for tensor, arrived in zip(odd, CODEC.decode(CODEC.encode(reply(*odd))).rows[0], strict=True):
        assert torch.equal(arrived, tensor.detach().resolve_conj())
        assert not arrived.requires_grad


def test_nothing_is_copied_where_it_need_not_be():
    values = torch.arange(10)
    head, buffer = CODEC.encode(LocateReply(gid=values))
    assert np.frombuffer(buffer, np.int64).ctypes.data == values.data_ptr()
    assert CODEC.decode([head, buffer]).gid.data_ptr() == values.data_ptr()


@pytest.mark.parametrize("offset", range(9))
def test_buffers_that_are_not_aligned_are_copied(offset):
    values = torch.arange(7)
    head, buffer = CODEC.encode(LocateReply(gid=values))
    room = bytearray(buffer.nbytes + 16)
    room[offset : offset + buffer.nbytes] = buffer
    gid = CODEC.decode([head, memoryview(room)[offset : offset + buffer.nbytes]]).gid
    assert torch.equal(gid, values)
    assert gid.data_ptr() % 8 == 0
    inside = np.frombuffer(room, np.uint8).ctypes.data <= gid.data_ptr() < np.frombuffer(room, np.uint8).ctypes.data + len(room)
    assert inside == (offset % 8 == 0)


def test_a_received_tensor_may_be_changed_but_never_bytes():
    sent = bytes(8)
    gid = CODEC.decode([CODEC.encode(LocateReply(gid=torch.zeros(1, dtype=torch.int64)))[0], sent]).gid
    gid += 1
    assert gid.tolist() == [1]
    assert sent == bytes(8)


@given(st.integers(0, 2**32), st.data())
def test_damaged_frames(seed, data):
    """Bits flipped, frames cut, lengthened, lost, doubled and swapped: a message, or ProtocolError. Never a crash."""
    chance = random.Random(seed)
    for message in random_messages(seed):
        frames = [bytearray(frame) for frame in CODEC.encode(message)]
        for _ in range(chance.randint(1, 3)):
            index = chance.randrange(len(frames)) if frames else 0
            frame = frames[index] if frames else bytearray()
            what = chance.choice(("flip", "flip", "flip", "cut", "grow", "lose", "double", "swap"))
            if what == "flip" and frame:
                frame[chance.randrange(min(len(frame), 60))] ^= 1 << chance.randrange(8)
            elif what == "cut":
                del frame[chance.randint(0, len(frame)) :]
            elif what == "grow":
                frame += chance.randbytes(chance.randint(1, 20))
            elif what == "lose" and frames:
                del frames[index]
            elif what == "double" and frames:
                frames.insert(index, bytearray(frame))
            elif what == "swap":
                chance.shuffle(frames)
        try:
            decoded = CODEC.decode(frames)
        except ProtocolError:
            continue
        assert type(decoded) in (*MESSAGE_TYPES, Failure)
        CODEC.encode(decoded)  # touches every byte: a tensor that reads out of bounds would show


@given(st.lists(st.binary(max_size=80), max_size=4), st.sampled_from([kind.__name__ for kind in MESSAGE_TYPES]))
def test_garbage(frames, name):
    for head in ([], [bytes([len(name)]) + name.encode()]):
        with pytest.raises(ProtocolError):
            CODEC.decode(head + frames if not head else [head[0] + (frames[0] if frames else b""), *frames[1:]])


@pytest.mark.parametrize(
    "spec",
    [
        ["int64", 2],
        ["int64", 0],
        ["int64", -1],
        ["int64", 2**62],
        ["int64", 2**63, 2**63],
        ["int64", -1, -1],
        ["int64", 1.0],
        ["int64", True],
        ["int64", "1"],
        ["int64", [1]],
        ["int63", 1],
        ["qint8", 8],
        ["float64", 1, 2],
        ["bool", 8],
        [["int64"], 1],
        ["uint8", *[1] * 70, 8],
        [],
        {},
        None,
        7,
        "int64",
        b"int64",
    ],
    ids=str,
)
def test_lies_about_tensors(spec):
    with pytest.raises(ProtocolError):
        CODEC.decode([header({"gid": spec}), b"\x02" * 8])


@pytest.mark.parametrize("shape", [[0, 2**62], [2**62, 2**62, 0], [2**64 - 1, 0]], ids=str)
def test_empty_tensors_of_absurd_shape(shape):
    with pytest.raises(ProtocolError):
        CODEC.decode([header({"gid": ["int64", *shape]}), b""])


@pytest.mark.parametrize("body", [{}, {"gid": None}, [["int64", 1]], {"gid": ["int64", 1], 3: 4}, {"GID": ["int64", 1]}], ids=str)
def test_wrong_fields(body):
    with pytest.raises(ProtocolError, match="malformed LocateReply"):
        CODEC.decode([header(body), bytes(8)])


@pytest.mark.parametrize(
    "mark", [b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9"], ids=["array", "map", "text", "binary", "extension"]
)
def test_announced_sizes_are_not_believed(mark):
    """A header of a few bytes that announces four billion items must not make room for them."""
    bodies = [mark + struct.pack(">I", 2**32 - 1) + b"\x01"]
    bodies += [msgspec.msgpack.encode({"rows": 0})[:-1] + body for body in bodies]
    bodies += [msgspec.msgpack.encode({"gid": 0})[:-1] + body for body in bodies]
    tracemalloc.start()
    try:
        for name in ("FetchReply", "LocateReply", "Failure"):
            for body in bodies:
                with pytest.raises(ProtocolError):
                    CODEC.decode([bytes([len(name)]) + name.encode() + body, bytes(8)])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_rows_without_their_sparse_columns_are_no_reply():
    with pytest.raises(ProtocolError):
        CODEC.decode([header({"rows": []}, "FetchReply")])


def test_nesting_without_end():
    with pytest.raises(ProtocolError):
        CODEC.decode([b"\x0aFetchReply\x81\xa4rows" + b"\x91" * 200_000, b""])


def test_an_unknown_type_names_the_known_ones():
    with pytest.raises(ProtocolError, match="LocateRequest"):
        CODEC.decode([b"\x03Foo\x80"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    ids: Tensor
    more: tuple[Tensor | None, ...] = ()
    table: str | tuple[str, str, str] = "node"

    def __post_init__(self) -> None:
        if len(self.ids) != 1:
            raise ZeroDivisionError("a check of the message's own")


def test_a_message_that_checks_itself():
    codec = Codec([Checked])
    message = Checked(ids=torch.ones(1), more=(None, torch.zeros(2)), table=("a", "b", "c"))
    frames = codec.encode(message)
    assert same(codec.decode(frames), message)
    with pytest.raises(ProtocolError, match="of the message's own"):
        codec.decode([header({"ids": ["uint8", 2]}, "Checked"), bytes(2)])


def test_types_that_cannot_be_messages():
    @dataclass(frozen=True, slots=True, kw_only=True)
    class LocateReply:
        pass

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Confused:
        value: str | bytes | Tensor | Failure | LocateRequest

    with pytest.raises(InputError, match="two message types are called 'LocateReply'"):
        Codec([*MESSAGE_TYPES, LocateReply])
    with pytest.raises(InputError, match="int is not a dataclass"):
        Codec([int])
    with pytest.raises(InputError, match="Confused"):
        Codec([Confused])
    with pytest.raises(InputError, match="known: "):
        CODEC.encode(LocateReply())


@pytest.mark.parametrize(
    "value", [object(), {1, 2} - {1, 2, 3} or np.int64(3), 2**70, torch.eye(2).to_sparse()], ids=lambda v: type(v).__name__
)
def test_values_that_cannot_be_sent(value):
    with pytest.raises(InputError, match="Checked"):
        Codec([Checked]).encode(Checked(ids=torch.ones(1), table=value))


def test_size_of():
    assert size_of([b"abc", memoryview(torch.zeros(3, dtype=torch.int64).numpy()), bytearray(2)]) == 29
