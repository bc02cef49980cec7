"""Eligible entries on a GPU: what the CPU draws of them, bit for bit."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import gpu_eligible
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.pieces import Pieces
from tests.ops.test_eligible import questions
from tests.support.pretend_gpu import any_pool, home


def cut(tensor, pool):
    """A column on the device, in two pieces, the second page-locked."""
    half = len(tensor) // 2
    halves = [pool.put(tensor[:half].clone()), pool.page_locked(tensor[half:].clone())]
    return DevicePieces(halves, [0, half, len(tensor)], pool=pool)


def moved(eligible, pool):
    columns = {name: getattr(eligible, name) for name in ("times", "via")}
    rows = {name: getattr(eligible, name) for name in ("latest", "earliest", "excluded")}
    columns = {name: None if one is None else cut(one, pool) for name, one in columns.items()}
    return replace(eligible, **columns, **{name: None if one is None else pool.put(one) for name, one in rows.items()})


def same(indptr, rows, raw, fanout, key, *, eligible, waits=2, **options):
    """What was drawn on the CPU and on the device, which are the same."""
    expected = ops.sample_neighbors(indptr, rows, raw, fanout, key, eligible=eligible, **options)
    pool = any_pool()
    bounds = [0, len(indptr) // 2, len(indptr) - 1]
    begins = [int(indptr[low]) for low in bounds[:-1]]
    pieces = [indptr[low : high + 1] - indptr[low] for low, high in pairwise(bounds)]
    lists = DevicePieces.of(Pieces(pieces, bounds, extra=1), pool, on_device=True)
    options |= {"eligible": moved(eligible, pool), "edge_bounds": begins, "pool": pool}
    counts, positions = ops.sample_neighbors(lists, pool.put(rows), pool.put(raw), fanout, key, **options)
    assert torch.equal(home(counts), expected[0])
    assert torch.equal(home(positions), expected[1])
    assert pool.counters.snapshot().get("device_waits", 0) <= waits
    pool.check()
    return expected


def asked(question):
    (indptr, rows, raw, fanout, key), options = question
    fanout = fanout if fanout < 65 else 40  # the interpreter is slow
    return (indptr, rows, raw, fanout, key), {"eligible": ops.Eligible(), "replace": options["replace"]} | {
        name: value for name, value in options.items() if name == "eligible"
    }


@settings(deadline=None, max_examples=15)
@given(questions())
def test_equals_the_cpu(question):
    arguments, options = asked(question)
    same(*arguments, **options)


@settings(deadline=None, max_examples=10)
@given(questions(), st.sampled_from([torch.int64, torch.int32, torch.float32, torch.float64]), st.data())
def test_a_promise_of_sorted_times_changes_nothing_and_saves_a_wait(question, dtype, data):
    (indptr, rows, *rest), options = asked(question)
    given = options["eligible"]
    times = data.draw(st.lists(st.integers(-3, 3), min_size=int(indptr[-1]), max_size=int(indptr[-1])))
    times = torch.cat([part.sort().values for part in torch.tensor(times, dtype=torch.int64).split(indptr.diff().tolist())])
    via = torch.randperm(len(times), generator=torch.Generator().manual_seed(1)) if given.via is not None else None
    if via is not None:
        times = torch.empty_like(times).scatter_(0, via, times)
    latest = torch.tensor(data.draw(st.lists(st.integers(-4, 4), min_size=len(rows), max_size=len(rows))), dtype=torch.int64)
    earliest = latest - data.draw(st.integers(-1, 4)) if data.draw(st.booleans()) else None
    bounds = {"latest": latest, "earliest": earliest}
    if dtype.is_floating_point:
        bounds = {name: None if bound is None else bound.to(dtype) for name, bound in bounds.items()}
    options["eligible"] = ops.Eligible(
        times=times.to(dtype), via=via, last=given.last, excluded=given.excluded, **bounds, times_sorted=True
    )
    same(indptr, rows, *rest, **options, waits=1)


INDPTR = torch.tensor([0, 6, 6, 10])
ROWS = torch.tensor([2, 0, 1, 0])


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float64], ids=str)
def test_times_of_each_dtype_and_excluded_entries(dtype, last):
    times = torch.tensor([5, 1, 3, 3, 9, 3, 7, 2, 2, 0], dtype=dtype)
    latest = torch.tensor([7, 5, 9, 3], dtype=dtype)
    excluded = torch.tensor([-3, 2, 2, 8, 50])
    for chosen in ({}, {"latest": latest}, {"latest": latest, "earliest": latest - 4, "excluded": excluded}):
        same(INDPTR, ROWS, ROWS, 2, 7, eligible=ops.Eligible(times=times, last=last, **chosen))


@settings(deadline=None, max_examples=10)
@given(questions(), st.integers(1, 12))
def test_rows_whose_lists_are_long_are_listed_some_at_a_time(question, most):
    arguments, options = asked(question)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_eligible, "_AT_ONCE", most)
        same(*arguments, **options, waits=2 + len(arguments[1]))


def test_at_most_so_many_entries_are_listed_at_a_time(monkeypatch):
    monkeypatch.setattr(gpu_eligible, "_AT_ONCE", 7)
    pool = any_pool()
    lengths = pool.put(torch.tensor([0, 3, 4, 1, 0, 9, 2, 0, 7, 0]))
    slices = gpu_eligible.slices(lengths, pool)
    assert [(part.start, part.stop, total) for part, total in slices] == [(0, 3, 7), (3, 5, 1), (5, 6, 9), (6, 8, 2), (8, 10, 7)]


def test_excluded_entries_are_left_out_without_a_listing():
    for excluded in ([], [0], list(range(6)), [3, 3, 3, 9], list(range(-2, 12))):
        for fanout in (1, 3, -1):
            same(
                INDPTR, ROWS, ROWS, fanout, 7, eligible=ops.Eligible(excluded=torch.tensor(excluded, dtype=torch.int64)), waits=1
            )


def test_excluded_entries_that_fall_are_a_fault():
    pool = any_pool()
    lists = DevicePieces.of(Pieces([INDPTR], [0, 3], extra=1), pool, on_device=True)
    row = pool.put(torch.tensor([2]))
    for excluded, words in (([5], None), ([1, 5, 5], None), ([1, 5, 4, 2], "excluded falls to entry 4; give it sorted")):
        some = ops.Eligible(excluded=pool.put(torch.tensor(excluded)))
        ops.sample_neighbors(lists, row, row, 2, 7, eligible=some, pool=pool)
        if words is None:
            pool.check()
        else:
            with pytest.raises(InputError, match=words):
                pool.check()


def test_entries_without_a_time_are_a_fault():
    for promise in (False, True):
        pool = any_pool()
        lists = DevicePieces.of(Pieces([INDPTR], [0, 3], extra=1), pool, on_device=True)
        past = ops.Eligible(times=torch.arange(8), latest=torch.tensor([9]), times_sorted=promise)
        row = pool.put(torch.tensor([2]))
        ops.sample_neighbors(lists, row, row, 2, 7, eligible=moved(past, pool), pool=pool)
        with pytest.raises(IdError, match="is not there"):
            pool.check()


def test_one_time_per_row():
    pool = any_pool()
    lists = DevicePieces.of(Pieces([INDPTR], [0, 3], extra=1), pool, on_device=True)
    past = moved(ops.Eligible(times=torch.arange(10), latest=torch.tensor([9])), pool)
    with pytest.raises(InputError, match="latest has 1 entries, expected 4"):
        ops.sample_neighbors(lists, pool.put(ROWS), pool.put(ROWS), 2, 7, eligible=past, pool=pool)
