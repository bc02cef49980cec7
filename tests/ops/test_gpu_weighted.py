"""Draws by weight on a GPU: those of the CPU's kernels, bit for bit."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import InputError
from halohop.ops import gpu_eligible
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.pieces import Pieces
from tests.ops import test_gpu_eligible, test_weight_sums
from tests.ops.test_eligible import questions
from tests.ops.test_weight_sums import INDPTR, KEY, KINDS, some_weights
from tests.support.pretend_gpu import any_pool, home

ROWS = torch.tensor([0, 10, 1, 4, 8, 9, 10])
"""Of lists with 0 to 41 entries; the interpreter is slow."""

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of sums that leave float64


def drawn_there(weights, fanout, *, indptr=INDPTR, rows=ROWS, raw=ROWS, key=KEY, cut=(9, 9), kept=True, pool=None, **options):
    """What is drawn on the device, where lists are in pieces.

    Args:
        cut: where they are cut.
        kept: whether running sums are known beforehand.
    """
    pool, cuts = pool or any_pool(), [0, *cut, len(indptr) - 1]
    bounds = [int(indptr[row]) for row in cuts]
    parts = [indptr[low : high + 1] - indptr[low] for low, high in pairwise(cuts)]
    lists = DevicePieces.of(Pieces(parts, cuts, extra=1), pool, on_device=True)
    options["weights"] = test_gpu_eligible.cut(weights, pool)
    if kept:
        own = [weights[low:high].clone() for low, high in pairwise(bounds)]
        sums = [ops.sum_weights(part, weight, refuse=False) for part, weight in zip(parts, own, strict=True)]
        pieces = Pieces(sums, [0, *np.cumsum([len(each) for each in sums]).tolist()])
        options["weights"] = DevicePieces.of(Pieces(own, bounds), pool, on_device=False)
        on_device = DevicePieces.of(pieces, pool, on_device=True)
        options["weight_sums"] = ops.WeightSums(sums=on_device, edge_bounds=bounds, row_bounds=cuts)
    if "eligible" in options:
        options["eligible"] = test_gpu_eligible.moved(options["eligible"], pool)
    options |= {"edge_bounds": bounds[:-1], "pool": pool}
    counts, positions = ops.sample_neighbors(lists, pool.put(rows), pool.put(raw), fanout, key, **options)
    pool.check()
    return home(counts), home(positions)


def same(weights, fanout, *, indptr=INDPTR, rows=ROWS, raw=None, key=KEY, cut=(9, 9), kept=True, waits=None, **options):
    """What is drawn here and on the device, which are the same; `waits`: how often the host waits."""
    raw = rows * 13 - 5 if raw is None else raw
    expected = ops.sample_neighbors(indptr, rows, raw, fanout, key, weights=weights, **options)
    pool = any_pool()
    lists = {"indptr": indptr, "rows": rows, "raw": raw, "key": key, "cut": cut, "kept": kept, "pool": pool}
    counts, positions = drawn_there(weights, fanout, **lists, **options)
    assert torch.equal(counts, expected[0])
    assert torch.equal(positions, expected[1])
    assert waits is None or pool.counters.snapshot()["device_waits"] == waits + 1  # and for faults
    return expected


@pytest.mark.parametrize(("kind", "replace"), [*((kind, False) for kind in KINDS), ("small", True), ("great", True)])
def test_draws_are_those_of_the_cpu(kind, replace):
    for fanout in (1, 4) if not replace else (2,):
        same(some_weights(kind), fanout, replace=replace)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_draws_of_long_lists_are_those_of_the_cpu(kind):
    for fanout, kept in ((16, True), (39, False)):
        same(some_weights(kind), fanout, rows=test_weight_sums.ROWS, kept=kept)


@pytest.mark.parametrize(
    ("fanout", "replace"), [*((fanout, False) for fanout in (0, 2, 15, 40, -1)), (15, True), (40, True), (-1, True)]
)
def test_fanouts(fanout, replace):
    """The host waits once, and above 32 for the room of the entries, too."""
    waits = 1 + (not 0 <= fanout <= 32) if replace or fanout in (0, 2, -1) else None  # others may take rounds
    counts, _ = same(some_weights("plain"), fanout, rows=ROWS[1:].int(), replace=replace, waits=waits)
    assert counts.any() == (fanout != 0)


@pytest.mark.parametrize("dtype", ops.WEIGHT_DTYPES)
def test_weights_of_every_dtype(dtype):
    weights = some_weights("whole", torch.float64).mul(7).to(dtype)
    for kept in (True, False):
        same(weights, 3, rows=torch.tensor([11, 8, 10, 2]), kept=kept, replace=kept)


def test_what_is_drawn_is_drawn_again_in_rounds():
    """Of weights that fall by a tenth each, draws find the greatest again and again; the host waits once for each round."""
    weights = 10.0 ** -torch.arange(int(INDPTR[-1]), dtype=torch.float64).remainder(40)
    counts, _ = same(weights, 12, rows=torch.tensor([9, 11]))
    assert counts.tolist() == [12, 12]


@st.composite
def weighted_questions(draw):
    (indptr, rows, raw, fanout, key), options = draw(questions())
    weight = st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.5, 1e-300, 1e300, 5e-324])
    weights = draw(st.lists(weight, min_size=int(indptr[-1]), max_size=int(indptr[-1])))
    options = {name: value for name, value in options.items() if name in ("replace", "eligible")}
    if "eligible" in options and options["eligible"].last:
        del options["eligible"]
    fanout = fanout if fanout < 20 else 20
    return (indptr, rows, raw, fanout, key), options, torch.tensor(weights, dtype=torch.float64)


@settings(deadline=None, max_examples=8)
@given(weighted_questions(), st.booleans(), st.sampled_from([1, 12, 1 << 22]))
def test_equals_the_cpu_whatever_may_be_drawn(question, kept, at_once):
    """Times and excluded entries, lists that occur twice, and none."""
    (indptr, rows, raw, fanout, key), options, weights = question
    kept = kept and "eligible" not in options
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_eligible, "_AT_ONCE", at_once)
        cut = ((len(indptr) - 1) // 2,)
        same(weights, fanout, indptr=indptr, rows=rows, raw=raw, key=key, cut=cut, kept=kept, **options)


@pytest.mark.parametrize(("wrong", "kept"), [(-1.0, True), (float("inf"), True), (-1e-300, False), (float("nan"), False)])
def test_impossible_weights_are_named_where_they_are_looked_at(wrong, kept):
    """The first of the first list that has one; by its position, in any of the pieces."""
    weights = some_weights("plain")
    bad = [int(INDPTR[10]) + 7, int(INDPTR[10]) + 30, int(INDPTR[4])]
    weights[bad] = wrong
    same(weights, 3, rows=torch.tensor([5, 3]), kept=kept)
    rows = torch.tensor([1, 10, 4])
    for fanout, replace in ((3, False), (2, True), (-1, False)):
        with pytest.raises(InputError) as here:
            ops.sample_neighbors(INDPTR, rows, rows, fanout, KEY, weights=weights, replace=replace)
        assert f"at position {bad[0]}" in str(here.value)
        with pytest.raises(ops.WeightError) as there:
            drawn_there(weights, fanout, rows=rows, raw=rows, kept=kept, replace=replace)
        assert str(there.value) == str(here.value)
    same(weights, 3, rows=rows, kept=False, eligible=ops.Eligible(excluded=torch.tensor(sorted(bad))))


def test_wrong_dtypes_are_named():
    pool = any_pool()
    row = pool.put(torch.tensor([1]))
    lists = DevicePieces.of(Pieces([INDPTR], [0, len(INDPTR) - 1], extra=1), pool, on_device=True)
    weights = pool.put(torch.ones(int(INDPTR[-1]), dtype=torch.complex64))
    with pytest.raises(InputError, match=r"weights must be one-dimensional, one of float32, .*; got torch.complex64"):
        ops.sample_neighbors(lists, row, row, 2, KEY, weights=weights, pool=pool)
