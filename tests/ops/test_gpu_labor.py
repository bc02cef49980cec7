"""Draws by random numbers of the sources on a GPU: what the CPU draws, bit for bit."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError
from halohop.ops import gpu_eligible
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.pieces import Pieces
from tests.ops.test_gpu_eligible import cut, moved
from tests.ops.test_labor import questions
from tests.support.pretend_gpu import any_pool, home


def drawn_there(indptr, rows, raw, fanout, key, *, sources, eligible=None, weights=None):
    """What the device draws, of lists in two pieces; and how often the host waited."""
    pool = any_pool()
    bounds = [0, len(indptr) // 2, len(indptr) - 1]
    pieces = [indptr[low : high + 1] - indptr[low] for low, high in pairwise(bounds)]
    lists = DevicePieces.of(Pieces(pieces, bounds, extra=1), pool, on_device=True)
    there = replace(
        sources,
        ids=cut(sources.ids, pool),
        via=None if sources.via is None else cut(sources.via, pool),
        shift=None if sources.shift is None else pool.put(sources.shift),
    )
    counts, positions = ops.sample_neighbors(
        lists,
        pool.put(rows),
        pool.put(raw),
        fanout,
        key,
        sources=there,
        eligible=None if eligible is None else moved(eligible, pool),
        weights=None if weights is None else cut(weights, pool),
        edge_bounds=[int(indptr[low]) for low in bounds[:-1]],
        pool=pool,
    )
    pool.check()
    return home(counts), home(positions)


@settings(deadline=None, max_examples=25)
@given(questions(), st.sampled_from([1, 30, 1 << 22]))
def test_equals_the_cpu(question, at_once):
    arguments, options = question
    expected = ops.sample_neighbors(*arguments, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_eligible, "_AT_ONCE", at_once)
        found = drawn_there(*arguments, **options)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_lists_that_overlap_are_drawn_from_alike():
    """And a source that a list holds several times has a number for each."""
    indptr, rows = torch.tensor([0, 5, 10]), torch.tensor([0, 1])
    sources = ops.Sources(ids=torch.tensor([7, 8, 7, 9, 7, 9, 7, 8, 7, 7]))
    _, positions = drawn_there(indptr, rows, rows, 3, 5, sources=sources)
    assert torch.equal(sources.ids[positions[:3]], sources.ids[positions[3:]])
    assert len(set(positions.tolist())) == 6


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_impossible_weights_are_named(wrong):
    indptr, rows = torch.tensor([0, 3, 9]), torch.tensor([1])
    sources, weights = ops.Sources(ids=torch.arange(9) % 5), torch.tensor([wrong, 1, 1, 1, 1, wrong, 1, wrong, 0])
    for fanout in (2, 20):
        with pytest.raises(ops.WeightError, match=f"weight {wrong:g} at position 5"):
            drawn_there(indptr, rows, rows, fanout, 5, sources=sources, weights=weights)
    first = torch.tensor([0])
    possible = ops.Eligible(excluded=torch.tensor([0]))
    assert drawn_there(indptr, first, first, 2, 5, sources=sources, weights=weights, eligible=possible)[1].tolist() == [1, 2]


def test_a_source_that_is_not_there_is_told():
    indptr, rows = torch.tensor([0, 3, 6]), torch.tensor([0, 1])
    sources = ops.Sources(ids=torch.arange(4), via=torch.tensor([0, 1, 2, 3, 99, 1]))
    with pytest.raises(IdError, match="99"):
        drawn_there(indptr, rows, rows, 2, 5, sources=sources)
