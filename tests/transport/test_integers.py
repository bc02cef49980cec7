"""Whole numbers are sent in as few bytes as their range takes, and arrive as they were."""

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
@pytest.mark.parametrize(
    ("span", "bytes_each"), [(0, 1), (255, 1), (256, 2), (2**16 - 1, 2), (2**16, 4), (2**32 - 1, 4), (2**32, 8)]
)
def test_as_few_bytes_as_the_range_takes(base, span, bytes_each):
    values = torch.full((FEW,), base)
    values[7] += span
    num_bytes, arrived = sent(values)
    assert (num_bytes, arrived.tolist()) == (FEW * bytes_each, values.tolist())


@pytest.mark.parametrize(
    "values", [torch.zeros(FEW - 1, dtype=torch.int64), torch.zeros(FEW, dtype=torch.int16), torch.zeros(FEW)]
)
def test_others_are_sent_as_they_are(values):
    num_bytes, arrived = sent(values)
    assert num_bytes == values.nbytes
    assert torch.equal(arrived, values)


def test_shapes_stay():
    values = torch.arange(3 * FEW).view(FEW, 3)
    assert torch.equal(sent(values)[1], values)
    assert torch.equal(sent(values.T)[1], values.T)


@pytest.mark.parametrize("base", [2**63 - 255, -(2**63) - 1, 2**80, 1.5, "1", None, True])
def test_a_base_that_no_sum_may_have_is_refused(base):
    refuse(["int64", "uint8", base], bytes(FEW))


@pytest.mark.parametrize(
    "kind",
    [
        ["int64", "uint8"],
        ["int64", "uint8", 0, 0],
        ["int64", "int32", 0],
        ["int64", "float32", 0],
        ["int64", "uint64", 0],
        ["int32", "uint32", 0],
        ["float64", "uint8", 0],
        ["int64", ["uint8"], 0],
        ["int64", "uint16", 0],
        [],
        None,
    ],
    ids=str,
)
def test_other_dtypes_and_sizes_are_refused(kind):
    refuse(kind, bytes(FEW))


def refuse(kind: object, buffer: bytes) -> None:
    header = bytes([len("LocateReply")]) + b"LocateReply"
    try:
        header += msgspec.msgpack.encode({"gid": [kind, FEW]})
    except OverflowError:  # no message can hold it
        return
    with pytest.raises(ProtocolError, match="LocateReply"):
        CODEC.decode([header, buffer])
