"""Rows on disk of which some are in memory, too."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import HotRows, Pieces
from halohop.telemetry import Counters


@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=5),
    st.sampled_from([(), (1,), (3,), (2, 5), (0,)]),
    st.sampled_from([torch.float32, torch.bfloat16, torch.int8, torch.int64]),
    st.randoms(use_true_random=False),
)
def test_rows_are_those_of_the_source(sizes, shape, dtype, random):
    bounds = [0]
    for size in sizes:
        bounds.append(bounds[-1] + size)
    whole = torch.randint(-100, 100, (bounds[-1], *shape)).to(dtype)
    source = Pieces([whole[low:high].clone() for low, high in pairwise(bounds)], bounds)
    hot = sorted(random.sample(range(len(whole)), random.randint(0, len(whole))))
    counters = Counters()
    kept = HotRows(source, torch.tensor(hot, dtype=torch.int64), counters)
    rows = torch.tensor([random.randrange(len(whole)) for _ in range(200)] if len(whole) else [], dtype=torch.int64)
    assert torch.equal(kept.take(rows), whole[rows])
    assert counters.snapshot()["hot_rows"] == sum(row in set(hot) for row in rows.tolist())
    padded = torch.where(torch.arange(len(rows)) % 50 < 20, -1, rows)
    assert torch.equal(kept.take(padded, padded=True), ops.gather_known(source, padded))


def test_hot_rows_are_read_from_memory_alone():
    """What the source holds where a row is hot is not looked at again."""
    numbers = torch.arange(40).view(10, 4)
    kept = HotRows(Pieces([numbers], [0, 10]), torch.tensor([2, 7]), Counters())
    numbers.zero_()
    assert kept.take(torch.tensor([7, 3, 2])).tolist() == [[28, 29, 30, 31], [0, 0, 0, 0], [8, 9, 10, 11]]


def test_rows_that_are_not_there():
    source = Pieces([torch.arange(4), None], [0, 4, 6])
    kept = HotRows(source, torch.tensor([1]), Counters())
    with pytest.raises(IdError, match="row 6 at position 1 is out of range: there are 6 rows"):
        kept.take(torch.tensor([1, 6]))
    with pytest.raises(IdError, match="row 5 at position 0 is in a piece that is not here"):
        kept.take(torch.tensor([5]))
    with pytest.raises(IdError, match="row -1 at position 0 is out of range"):
        kept.take(torch.tensor([-1, 1]))
    with pytest.raises(InputError, match="ascend"):
        HotRows(source, torch.tensor([1, 0]), Counters())
