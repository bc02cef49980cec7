"""Draws by weight are those of the reference, whatever the weights and however they lie; running sums change none of them."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch

from halohop import ops
from halohop.errors import InputError
from halohop.ops import reference

KEY = 0x0123456789ABCDEF
LENGTHS = [0, 1, 3, 7, 8, 9, 15, 16, 17, 40, 41, 100, 5, 0, 333]
INDPTR = torch.tensor([0, *np.cumsum(LENGTHS)])
COUNT = int(INDPTR[-1])


def some_weights(kind, dtype=torch.float64):
    random = np.random.default_rng(len(kind))
    match kind:
        case "plain":
            weights = random.random(COUNT)
        case "skewed":
            weights = 10.0 ** random.integers(-300, 300, COUNT)
        case "steep":
            weights = 0.1 ** random.permutation(COUNT % 97 + np.arange(COUNT) % 30).astype(float)
        case "rare":
            weights = random.random(COUNT) * (random.random(COUNT) < 0.1)
        case "small":
            weights = random.integers(0, 5, COUNT) * 5e-324
        case "great":
            weights = random.random(COUNT) * 1.7e308
        case "none":
            weights = np.zeros(COUNT)
        case "whole":
            weights = random.integers(0, 4, COUNT)
    return torch.from_numpy(weights).to(dtype)


KINDS = ["plain", "skewed", "steep", "rare", "small", "great", "none", "whole"]
ROWS = torch.tensor([*range(len(LENGTHS)), 10, 14, 11, 14])
RAW = torch.arange(len(ROWS)) * 13 - 5


def both(weights, fanout, **options):
    """Our draw and the reference's."""
    drawn = ops.sample_neighbors(INDPTR, ROWS, RAW, fanout, KEY, weights=weights, **options)
    options.pop("weight_sums", None)
    return drawn, reference.sample_neighbors(INDPTR, ROWS, RAW, fanout, KEY, weights=weights, **options)


def sums_of(weights, indptr=INDPTR):
    sums, rows = ops.sum_weights(indptr, weights), len(indptr) - 1
    return ops.WeightSums(sums=ops.Pieces([sums], [0, len(sums)]), edge_bounds=(0, len(weights)), row_bounds=(0, rows))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replace", [False, True])
def test_draws_are_those_of_the_reference(kind, replace):
    weights = some_weights(kind)
    for fanout in (1, 5, 16, 20, 39, -1):
        for sums in (None, sums_of(weights)):
            (counts, positions), (expected, places) = both(weights, fanout, replace=replace, weight_sums=sums)
            assert torch.equal(counts, expected)
            assert torch.equal(positions, places)


@pytest.mark.parametrize("dtype", ops.WEIGHT_DTYPES)
def test_weights_of_every_dtype(dtype):
    weights = some_weights("whole", dtype)
    for sums in (None, sums_of(weights)):
        (counts, positions), (expected, places) = both(weights, 5, weight_sums=sums)
        assert torch.equal(counts, expected)
        assert torch.equal(positions, places)


@pytest.mark.parametrize("sorted_times", [False, True])
@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("replace", [False, True])
def test_of_lists_that_may_be_drawn_from_in_part(sorted_times, window, replace):
    """Lists that lose entries at the end, at the beginning, in the middle, and those that lose none, are drawn from together."""
    weights, times = some_weights("rare"), torch.cat([torch.arange(length) for length in LENGTHS])
    eligible = ops.Eligible(
        times=times,
        latest=torch.arange(len(ROWS)) * 7 % 60,
        earliest=torch.arange(len(ROWS)) % 9 if window else None,
        times_sorted=sorted_times,
        excluded=torch.tensor([12, 13, 60, 61, 200, 201, 202, 203]),
    )
    for fanout in (2, 5, 18):
        for sums in (None, sums_of(weights)):
            (counts, positions), (expected, places) = both(weights, fanout, replace=replace, eligible=eligible, weight_sums=sums)
            assert torch.equal(counts, expected)
            assert torch.equal(positions, places)


def test_excluded_entries_of_few_lists():
    """The others are drawn from where they lie."""
    weights = some_weights("plain")
    for sums in (None, sums_of(weights)):
        (counts, positions), (expected, places) = both(
            weights, 5, eligible=ops.Eligible(excluded=torch.tensor([130, 131])), weight_sums=sums
        )
        assert torch.equal(counts, expected)
        assert torch.equal(positions, places)


def test_in_pieces():
    """Each piece counts its rows and entries from 0, some have no list, and one is not here."""
    weights, cut = some_weights("plain", torch.float32), [0, 9, 9, 15]
    whole = ops.sample_neighbors(INDPTR, ROWS, RAW, 5, KEY, weights=weights)
    bounds = [int(INDPTR[row]) for row in cut]
    lists = [INDPTR[low : high + 1] - INDPTR[low] for low, high in pairwise(cut)]
    own = [weights[low:high].clone() for low, high in pairwise(bounds)]
    sums = [ops.sum_weights(indptr, part) for indptr, part in zip(lists, own, strict=True)]
    options = {
        "edge_bounds": bounds[:-1],
        "weights": ops.Pieces(own, bounds),
        "weight_sums": ops.WeightSums(
            sums=ops.Pieces(sums, [0, *np.cumsum([len(part) for part in sums]).tolist()]), edge_bounds=bounds, row_bounds=cut
        ),
    }
    for some in (options, {**options, "weight_sums": None}):
        drawn = ops.sample_neighbors(ops.Pieces(lists, cut, extra=1), ROWS, RAW, 5, KEY, **some)
        assert torch.equal(drawn[0], whole[0])
        assert torch.equal(drawn[1], whole[1])


def test_sums_take_a_byte_for_each_entry():
    weights = some_weights("plain")
    sums = ops.sum_weights(INDPTR, weights)
    assert len(sums) == COUNT // 8 + len(LENGTHS)
    for row, (begin, end) in enumerate(pairwise(INDPTR.tolist())):
        total = weights[begin:end].sum()
        assert begin == end or torch.allclose(sums[begin // 8 + row + (end - begin + 7) // 8 - 1], total)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("at", [0, 100, COUNT - 1])
def test_sums_of_impossible_weights(bad, at):
    weights = some_weights("plain")
    weights[at] = bad
    with pytest.raises(InputError, match=f"weight {bad:g} at position {at}: a weight is a finite number, 0 or more"):
        ops.sum_weights(INDPTR, weights)


@pytest.mark.parametrize(
    ("indptr", "message"), [([0, 2, 1, 3], "indptr falls at row 1"), ([0, 2], "weights has 3 entries"), ([], "indptr is of none")]
)
def test_lists_that_cannot_be_are_refused(indptr, message):
    with pytest.raises(InputError, match=message):
        ops.sum_weights(torch.tensor(indptr, dtype=torch.int64), torch.ones(3))


def test_sums_of_a_run_of_rows_are_a_part_of_all():
    weights = some_weights("plain")
    whole = ops.sum_weights(INDPTR, weights)
    for low, high in ((0, 3), (3, 9), (9, 15)):
        begin, end = int(INDPTR[low]), int(INDPTR[high])
        part = ops.sum_weights(INDPTR[low : high + 1], weights[begin:end])
        assert torch.equal(part, whole[begin // 8 + low : end // 8 + high])


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_lists_with_a_wrong_weight_are_marked_where_it_is_not_refused(wrong):
    weights = some_weights("plain")
    bad = [int(INDPTR[6]) + 8, int(INDPTR[6]) + 9, int(INDPTR[14])]
    weights[bad] = wrong
    right = weights.clone()
    right[bad] = 0.0
    with pytest.raises(InputError, match=f"at position {bad[0]}"):
        ops.sum_weights(INDPTR, weights)
    marked, sums = ops.sum_weights(INDPTR, weights, refuse=False), ops.sum_weights(INDPTR, right)
    begins, ends = INDPTR[:-1] // 8 + torch.arange(len(LENGTHS)), (torch.tensor(LENGTHS) + 7) // 8
    for row, (begin, count) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        own, expected = marked[begin : begin + count], sums[begin : begin + count]
        assert own[-1:].isnan().all() if row in (6, 14) else torch.equal(own, expected)


def inclusion(weights, fanout):
    """How probable each entry is among the first `fanout` that are drawn one after the other, exactly, by all sets."""
    weights, chances = list(map(Fraction, weights)), {frozenset(): Fraction(1)}
    for _ in range(min(fanout, sum(weight > 0 for weight in weights))):
        after = {}
        for drawn, chance in chances.items():
            left = [j for j, weight in enumerate(weights) if weight > 0 and j not in drawn]
            total = sum(weights[j] for j in left)
            for j in left:
                key = drawn | {j}
                after[key] = after.get(key, 0) + chance * weights[j] / total
        chances = after
    return [float(sum(chance for drawn, chance in chances.items() if j in drawn)) for j in range(len(weights))]


@pytest.mark.parametrize(
    "weights",
    [
        [1e12, 1e-12, 3e-12, 0.0, 2e-12, 1e-12, 5e-12, 1e-12, 4e-12, 1e-12],
        [1.0, 5.0, 2.0, 50.0, 1000.0, 3.0, 0.5, 0.25, 4.0, 700.0, 1.0],
        [5e-324, 1e-323, 5e-324, 3e-323, 5e-324, 5e-324, 2e-323, 0.0, 5e-324],
        [1e308, 1e308, 5e307, 1e300, 3e300, 2e300, 1e308, 7e307, 2e307],
        [1.0, 1e-30, 3e-30, 1e-60, 2e-60, 3e-60, 4e-60, 1e-60, 1e-60, 1e-60],
    ],
)
def test_law_of_heavily_skewed_weights(weights):
    """Each entry is included as often as the exact law says, in 50,000 draws with and without running sums."""
    trials, fanout = 50_000, 4
    indptr, column = torch.tensor([0, len(weights)]), torch.tensor(weights, dtype=torch.float64)
    sums = sums_of(column, indptr)
    rows, raw = torch.zeros(trials, dtype=torch.int64), torch.arange(trials)
    expected = torch.tensor(inclusion(weights, fanout), dtype=torch.float64)
    for known in (None, sums):
        _, drawn = ops.sample_neighbors(indptr, rows, raw, fanout, KEY, weights=column, weight_sums=known)
        shares = torch.bincount(drawn, minlength=len(weights)).double() / trials
        noise = (expected * (1 - expected) / trials).clamp(min=1e-12) ** 0.5
        assert ((shares - expected).abs() < 5 * noise + 1e-9).all()
        assert int((drawn.view(trials, fanout).sort(1).values.diff(dim=1) == 0).sum()) == 0


def test_fewer_weights_than_the_fanout_are_all_drawn():
    weights = torch.zeros(1000, dtype=torch.float64)
    weights[[3, 500, 999]] = torch.tensor([1e12, 1e-12, 5e-324], dtype=torch.float64)
    indptr, one = torch.tensor([0, 1000]), torch.tensor([0])
    for fanout in (3, 4, 999, 1000):
        counts, drawn = ops.sample_neighbors(indptr, one, one, fanout, KEY, weights=weights)
        assert counts.tolist() == [3]
        assert sorted(drawn.tolist()) == [3, 500, 999]


def test_a_huge_list_is_drawn_from_by_its_sums():
    """Weights that grow with their place: quarters of the list are hit as their weights say."""
    count = 2_000_000
    weights = torch.arange(count, dtype=torch.float32)
    indptr, rows = torch.tensor([0, count]), torch.zeros(2000, dtype=torch.int64)
    sums = sums_of(weights, indptr)
    _, drawn = ops.sample_neighbors(indptr, rows, torch.arange(2000), 25, KEY, weights=weights, weight_sums=sums)
    shares = torch.bincount(drawn * 4 // count, minlength=4) / len(drawn)
    assert torch.allclose(shares, torch.tensor([1.0, 3.0, 5.0, 7.0]) / 16, atol=0.01)
