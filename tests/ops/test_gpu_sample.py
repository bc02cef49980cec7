"""Draws on a GPU: those of the reference and of the CPU's kernels, bit for bit."""

from itertools import pairwise

import pytest
import torch

from halohop import ops
from halohop.errors import IdError
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.pieces import Pieces
from tests.support.pretend_gpu import any_pool, home

GENERATOR = torch.Generator().manual_seed(0)
DEGREES = torch.randint(0, 90, (60,), generator=GENERATOR)
DEGREES[::7] = 0


def in_pieces(degrees: torch.Tensor, bounds: list[int]) -> tuple[Pieces, list[int]]:
    """The indptr of lists in pieces, and the position where each piece begins."""
    none = torch.zeros(1, dtype=torch.int64)
    pieces = [torch.cat([none, degrees[begin:end].cumsum(0)]) for begin, end in pairwise(bounds)]
    ends = torch.tensor([int(piece[-1]) for piece in pieces]).cumsum(0).tolist()
    return Pieces(pieces, bounds, extra=1), [0, *ends]


CASES = [
    *((fanout, replace, [0, 20, 20, 60], torch.int64) for fanout in (0, 1, 2, 5, 15, 65, -1) for replace in (False, True)),
    *((fanout, False, [0, 60], torch.int32) for fanout in (10, 64, 80)),
]


@pytest.mark.parametrize(("fanout", "replace", "bounds", "ids"), CASES, ids=str)
def test_draws_are_those_of_the_cpu(fanout, replace, bounds, ids):
    indptr, edge_bounds = in_pieces(DEGREES, bounds)
    num_rows = 100 if fanout < 64 else 25  # the interpreter is slow
    rows = torch.randint(0, 60, (num_rows,), generator=torch.Generator().manual_seed(1)).to(ids)
    raw = rows.long() * 3 + 1
    key = ops.stream_key(seed=1, epoch=2, batch=3, hop=0, relation=("a", "to", "a"))
    options = {"replace": replace, "edge_bounds": edge_bounds}
    expected = ops.sample_neighbors(indptr, rows, raw, fanout, key, **options)
    pool = any_pool()
    lists = DevicePieces.of(indptr, pool, on_device=True)
    there = pool.put(torch.stack([rows, rows], 1))[:, 0]  # rows may have gaps between them
    counts, positions = ops.sample_neighbors(lists, there, pool.put(raw), fanout, key, pool=pool, **options)
    assert torch.equal(home(counts), expected[0])
    assert torch.equal(home(positions), expected[1])
    assert pool.counters.snapshot()["device_waits"] == 1
    pool.check()
    assert torch.equal(home(ops.list_lengths(lists, pool.put(rows), pool=pool)), DEGREES[rows.long()])
    places = pool.empty((len(positions),), torch.int64)
    ops.repeat_positions(counts, 7, places)
    assert torch.equal(home(places), torch.repeat_interleave(torch.arange(num_rows) + 7, expected[0]))


def test_nothing_is_drawn_for_no_rows():
    indptr, _ = in_pieces(DEGREES, [0, 60])
    pool = any_pool()
    none = pool.empty((0,), torch.int64)
    counts, positions = ops.sample_neighbors(DevicePieces.of(indptr, pool, on_device=True), none, none, 5, 1, pool=pool)
    assert (len(counts), len(positions)) == (0, 0)


@pytest.mark.parametrize("row", [60, -1])
def test_a_row_that_is_not_there_draws_nothing_and_is_said(row):
    indptr, _ = in_pieces(DEGREES, [0, 60])
    pool = any_pool()
    rows = pool.put(torch.tensor([3, row]))
    counts, _ = ops.sample_neighbors(DevicePieces.of(indptr, pool, on_device=False), rows, rows, 5, 1, pool=pool)
    assert home(counts).tolist() == [min(int(DEGREES[3]), 5), 0]
    with pytest.raises(IdError, match=f"row {row} is not there"):
        pool.check()
