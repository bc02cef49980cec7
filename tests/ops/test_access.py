"""Access probabilities: as the reference computes them, and as draws turn out."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import reference_access


@given(
    counts=st.lists(st.integers(0, 6), max_size=5),
    fanout=st.integers(-1, 7),
    replace=st.booleans(),
    weighted=st.booleans(),
    data=st.data(),
)
def test_shares_equal_the_reference(counts, fanout, replace, weighted, data):
    total = sum(counts)
    weights = None
    if weighted:
        weights = torch.tensor(data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 7.0]), min_size=total, max_size=total)))
    lengths = torch.tensor(counts, dtype=torch.int64)
    found, expected = (door.draw_shares(lengths, fanout, replace=replace, weights=weights) for door in (ops, reference_access))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_absence_equals_the_reference(dtype):
    counts, neighbors = torch.tensor([2, 0, 3]), torch.tensor([0, 2, 2, 2, 1], dtype=dtype)
    reach, shares = torch.tensor([0.5, 1.0, 1.0]).double(), torch.tensor([0.1, 0.2, 0.3, 0.4, 1.0]).double()
    outs = [torch.zeros(4, dtype=torch.float64) for _ in range(2)]
    for door, out in zip((ops, reference_access), outs, strict=True):
        door.add_absence(counts, neighbors, reach, shares, out)
    torch.testing.assert_close(*outs)
    assert outs[0].exp().tolist()[3] == 1
    assert outs[0].exp().tolist()[1] == 0


@pytest.mark.parametrize(("replace", "within"), [(True, 0.01), (False, 0.03)])
def test_weighted_shares_are_the_frequencies_of_draws(replace, within):
    weights, rounds = torch.tensor([8.0, 4.0, 2.0, 1.0, 1.0, 0.0, 1.0, 3.0]), 20_000
    rows = torch.zeros(rounds, dtype=torch.int64)
    counts, positions = ops.sample_neighbors(
        torch.tensor([0, 8]), rows, torch.arange(rounds), 3, 5, replace=replace, weights=weights
    )
    drawn = torch.zeros(rounds, 8, dtype=torch.bool)
    drawn[torch.repeat_interleave(counts), positions] = True
    expected = ops.draw_shares(torch.tensor([8]), 3, replace=replace, weights=weights)
    torch.testing.assert_close(drawn.double().mean(0), expected, rtol=0, atol=within)


def test_what_cannot_be_is_refused():
    one, two = torch.ones(1, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    with pytest.raises(InputError, match="fanout=-2"):
        ops.draw_shares(torch.tensor([1]), -2)
    with pytest.raises(InputError, match="negative or not finite"):
        ops.draw_shares(torch.tensor([1]), 1, weights=torch.tensor([-1.0]))
    with pytest.raises(InputError, match=r"weights of shape \(2,\)"):
        ops.draw_shares(torch.tensor([1]), 1, weights=two)
    with pytest.raises(IdError, match="holds 5, but there are 2 nodes"):
        ops.add_absence(torch.tensor([1]), torch.tensor([5]), one, one, two)
    with pytest.raises(InputError, match="2 shares"):
        ops.add_absence(torch.tensor([1]), torch.tensor([0]), one, two, two)
    with pytest.raises(InputError, match=r"torch\.float32"):
        ops.add_absence(torch.tensor([1]), torch.tensor([0]), one.float(), one, two)
