"""Whole numbers are sent in as few bits as they take, and arrive as they were."""

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import ProtocolError
from halohop.store.requests import LocateReply
from halohop.transport.integers import FEW
from halohop.transport.messages import Codec

CODEC = Codec([LocateReply])


def sent(values: torch.Tensor) -> tuple[int, torch.Tensor]:
    """The bytes of the numbers on the wire, and what arrives."""
    head, buffer = CODEC.encode(LocateReply(gid=values))
    return memoryview(buffer).nbytes, CODEC.decode([head, bytearray(buffer)]).gid


@given(
    st.sampled_from([torch.int32, torch.int64]),
    st.sampled_from([0, 1, 7, 8, 15, 16, 31, 32, 62]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**32),
)
def test_they_arrive_as_they_were(dtype, bits, base, seed):
    limits = torch.iinfo(dtype)
    span = min((1 << bits) - 1, limits.max - limits.min)
    base = min(max(base, limits.min), limits.max - min(span, limits.max))
    steps = np.random.default_rng(seed).integers(0, span, FEW, dtype=np.uint64, endpoint=True)
    steps[:2] = 0, span
    values = torch.from_numpy((steps.astype(np.int64) + base).astype(str(dtype).removeprefix("torch.")))
    _, arrived = sent(values)
    assert arrived.dtype == dtype
    assert torch.equal(arrived, values)


@pytest.mark.parametrize("base", [0, 1, 1000, 2**40, -5, -(2**62)])
@pytest.mark.parametrize("bits", [0, 1, 7, 8, 17, 32, 56])
def test_as_few_bits_as_the_range_takes(base, bits):
    values = torch.full((FEW,), base)
    values[::2] += (1 << bits) - 1
    num_bytes, arrived = sent(values)
    assert (num_bytes, arrived.tolist()) == (8 + FEW * bits // 8, values.tolist())


def test_ascending_ids_are_sent_as_differences():
    values = torch.arange(2**40, 2**40 + 7 * FEW, 7)
    assert sent(values)[0] == 8 + FEW * 3 // 8
    assert torch.equal(sent(values)[1], values)


@pytest.mark.parametrize("length", [FEW, FEW + 1, FEW + 9])
def test_bools_are_sent_in_a_bit_each(length):
    values = torch.arange(length) % 3 == 0
    num_bytes, arrived = sent(values)
    assert num_bytes == -(-length // 8)
    assert arrived.dtype == torch.bool
    assert torch.equal(arrived, values)


@pytest.mark.parametrize("values", [torch.zeros(2**13, dtype=torch.int64), torch.ones(2**17, dtype=torch.bool)])
def test_what_is_sent_small_may_not_become_large(values):
    head, buffer = CODEC.encode(LocateReply(gid=values))
    frames = [head, bytearray(buffer)]
    assert torch.equal(CODEC.decode(frames, max_bytes=values.nbytes // 8).gid, values)
    with pytest.raises(ProtocolError, match=f"take {values.nbytes} bytes, where"):
        CODEC.decode(frames, max_bytes=values.nbytes // 8 - 1)


@pytest.mark.parametrize(
    "values",
    [
        torch.zeros(FEW - 1, dtype=torch.int64),
        torch.zeros(FEW - 1, dtype=torch.bool),
        torch.zeros(FEW, dtype=torch.int16),
        torch.zeros(FEW),
    ],
)
def test_others_are_sent_as_they_are(values):
    num_bytes, arrived = sent(values)
    assert num_bytes == values.nbytes
    assert torch.equal(arrived, values)


def test_shapes_stay():
    values = torch.arange(3 * FEW).view(FEW, 3)
    assert torch.equal(sent(values)[1], values)
    assert torch.equal(sent(values.T)[1], values.T)


@pytest.mark.parametrize(
    "kind",
    [
        ["int64", 0],
        ["int64", 0, 0, 0],
        ["int64", 3, 0],
        ["int64", -1, 0],
        ["int64", "0", 0],
        ["int64", 0, 1.5],
        ["int64", 0, None],
        ["int64", True, 0],
        ["int16", 0, 0],
        ["float64", 0, 0],
        ["bool", 0, 0],
        [["int64"], 0, 0],
        [],
        None,
    ],
    ids=str,
)
def test_other_dtypes_and_ways_are_refused(kind):
    refuse(kind, bytes(8))


@pytest.mark.parametrize("num_bytes", [0, 7, 9, 16, 64])
def test_another_size_is_refused(num_bytes):
    refuse(["int64", 0, 0], bytes(num_bytes))


@pytest.mark.parametrize(("way", "base", "num_bytes"), [(1, 0, 64), (0, 1, 64), (0, 0, 63), (0, 0, 65)])
def test_bools_packed_otherwise_are_refused(way, base, num_bytes):
    refuse(["bool", way, base], bytes(num_bytes))


def test_a_huge_number_of_packed_numbers_takes_no_memory():
    header = bytes([len("LocateReply")]) + b"LocateReply" + msgspec.msgpack.encode({"gid": [["int64", 0, 0], 2**50]})
    with pytest.raises(ProtocolError, match="LocateReply"):
        CODEC.decode([header, bytes(8)])


def refuse(kind: object, buffer: bytes) -> None:
    header = bytes([len("LocateReply")]) + b"LocateReply" + msgspec.msgpack.encode({"gid": [kind, FEW]})
    with pytest.raises(ProtocolError, match="LocateReply"):
        CODEC.decode([header, buffer])
