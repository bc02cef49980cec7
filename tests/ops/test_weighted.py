import itertools

import numpy as np
import pytest
import torch

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import reference

KEY = 0x0123456789ABCDEF
TRIALS = 60_000
ONE = torch.tensor([0])


def trials(weights, fanout, *, replace=False, key=KEY, eligible=None):
    """The draws of TRIALS nodes from a list with these weights, a row each, as positions in the list."""
    rows = torch.zeros(TRIALS, dtype=torch.int64)
    indptr = torch.tensor([0, len(weights)])
    options = {"weights": weights, "replace": replace, "eligible": eligible}
    return ops.sample_neighbors(indptr, rows, torch.arange(TRIALS), fanout, key, **options)[1].reshape(TRIALS, fanout)


def looks_like(outcomes, probabilities):
    """Chi-square of outcomes 0, 1, ... A fair draw exceeds mean plus five deviations about once in a million times."""
    counts = torch.bincount(outcomes, minlength=len(probabilities)).double()
    expected = torch.tensor(probabilities, dtype=torch.float64) * len(outcomes)
    assert len(counts) == len(expected)
    assert int(counts[expected == 0].sum()) == 0
    counts, expected = counts[expected > 0], expected[expected > 0]
    assert float(expected.min()) > 5  # else chi-square tells nothing
    freedom = len(expected) - 1
    assert ((counts - expected) ** 2 / expected).sum() < freedom + 5 * (2 * freedom) ** 0.5


WEIGHTS = torch.tensor([1.0, 0.0, 4.0, 2.5, 0.5, 0.0, 3.0])
SHARES = (WEIGHTS.double() / WEIGHTS.double().sum()).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_first_of_several_is_drawn_by_weight(dtype):
    looks_like(trials(WEIGHTS.to(dtype), 3)[:, 0], SHARES)
    looks_like(trials(WEIGHTS.to(dtype), 1)[:, 0], SHARES)


def test_a_mask_is_weights_of_0_and_1():
    """Also where everything is taken: what the mask leaves out is never drawn."""
    mask = torch.tensor([True, False, True, True, False, False, True])
    looks_like(trials(mask, 1)[:, 0], (mask / mask.sum()).tolist())
    for fanout in (2, -1):
        assert torch.equal(trials(mask, fanout), trials(mask.double(), fanout))
    assert trials(mask, -1)[0].tolist() == [0, 2, 3, 6]


def test_ordered_pairs_are_drawn_one_after_the_other():
    """Exact enumeration: first by weight, then by weight among the rest. So also which pairs are drawn at all."""
    count = len(SHARES)
    pairs = [0.0] * count**2
    for first, second in itertools.permutations(range(count), 2):
        pairs[first * count + second] = SHARES[first] * SHARES[second] / (1 - SHARES[first])
    drawn = trials(WEIGHTS, 2)
    looks_like(drawn[:, 0] * count + drawn[:, 1], pairs)


def test_inclusion_of_many():
    """Fanout 3 of 5: inclusion probabilities by enumeration of all orders."""
    entries = [j for j, share in enumerate(SHARES) if share > 0]
    included = torch.zeros(len(SHARES), dtype=torch.float64)
    for order in itertools.permutations(entries, 3):
        left, probability = 1.0, 1.0
        for j in order:
            probability *= SHARES[j] / left
            left -= SHARES[j]
        included[list(order)] += probability
    counts = torch.bincount(trials(WEIGHTS, 3).flatten(), minlength=len(SHARES)).double()
    z = (counts - TRIALS * included) / (TRIALS * included * (1 - included)).clamp(min=1e-9) ** 0.5
    assert z[entries].abs().max() < 5
    assert int(counts[1]) == int(counts[5]) == 0


def test_equal_weights_give_every_pair_alike():
    count = 9
    drawn = trials(torch.full((count,), 1e-40), 2).sort(1).values  # denormal as float32
    triangle = torch.triu_indices(count, count, offset=1)
    numbers = torch.zeros(count, count, dtype=torch.int64)
    numbers[triangle[0], triangle[1]] = torch.arange(triangle.shape[1])
    looks_like(numbers[drawn[:, 0], drawn[:, 1]], [1 / triangle.shape[1]] * triangle.shape[1])


def test_with_replacement_by_weight_and_independently():
    drawn = trials(WEIGHTS, 4, replace=True)
    for number in (0, 1, 3):
        looks_like(drawn[:, number], SHARES)
    count = len(SHARES)
    looks_like(drawn[:, 0] * count + drawn[:, 1], [a * b for a, b in itertools.product(SHARES, repeat=2)])


def test_excluded_and_future_entries_leave_their_share_to_the_others():
    rows_latest = torch.full((TRIALS,), 5)
    eligible = ops.Eligible(times=torch.tensor([5, 0, 1, 6, 2, 0, 3]), latest=rows_latest, excluded=torch.tensor([6]))
    left = [share if j in (0, 2, 4) else 0.0 for j, share in enumerate(SHARES)]
    shares = [share / sum(left) for share in left]
    looks_like(trials(WEIGHTS, 1, eligible=eligible)[:, 0], shares)
    looks_like(trials(WEIGHTS, 2, replace=True, eligible=eligible)[:, 1], shares)


@pytest.mark.parametrize("scale", [1e-323, 1e-310, 1e-300, 1.0, 1e300, 1e307])
@pytest.mark.parametrize("replace", [False, True])
def test_size_of_the_weights_does_not_matter(scale, replace):
    """Neither do keys of tiny weights overflow, nor sums of huge ones; a draw by weight has no unit."""
    small = torch.tensor([1.0, 2.0, 3.0, 4.0, 0.0, 10.0], dtype=torch.float64)
    shares = (small / small.sum()).tolist()
    looks_like(trials(small * scale, 2, replace=replace)[:, 0], shares)


def test_weights_of_all_sizes_together():
    """The ratio of two weights may leave the range of float64: never a weight of zero, nor a position outside the list."""
    sizes = [0.0, 5e-324, 1e-300, 1e-200, 1.0, 1e200, 1e308, 0.0]
    for order in (sizes, sizes[::-1], sizes[3:] + sizes[:3]):
        weights = torch.tensor(order, dtype=torch.float64)
        greatest = order.index(1e308)
        for fanout in (1, 2, 5):
            drawn = trials(weights, fanout)
            assert bool((drawn[:, 0] == greatest).all())
            assert bool((weights[drawn] > 0).all())
            assert bool((trials(weights, fanout, replace=True) == greatest).all())


def test_a_draw_at_the_very_end_of_the_sum():
    """u * total rounds up to almost the total, and entries of no weight follow: ten million draws, all of weight."""
    weights = torch.tensor([1.0, 1e-9, 0.0, 3e-17, 0.0], dtype=torch.float64)
    rows = torch.zeros(100, dtype=torch.int64)
    counts, positions = ops.sample_neighbors(
        torch.tensor([0, 5]), rows, torch.arange(100), 100_000, KEY, replace=True, weights=weights
    )
    assert counts.tolist() == [100_000] * 100
    assert set(positions.bincount().nonzero().flatten().tolist()) <= {0, 1, 3}


def test_all_weights_zero_draws_nothing():
    for replace in (False, True):
        counts, positions = ops.sample_neighbors(
            torch.tensor([0, 3, 5]), torch.tensor([0, 1]), torch.tensor([0, 1]), 2, KEY, replace=replace,
            weights=torch.tensor([0.0, -0.0, 0.0, 0.0, 7.0]),
        )  # fmt: skip
        assert counts.tolist() == [0, 2 if replace else 1]
        assert set(positions.tolist()) == {4}


def test_a_weighted_draw_depends_on_nothing_but_the_list():
    """Zero weights, other rows and the place in indptr change nothing."""
    weights = torch.rand(30, generator=torch.Generator().manual_seed(1)) + 0.01
    alone = ops.sample_neighbors(torch.tensor([0, 30]), ONE, torch.tensor([77]), 5, KEY, weights=weights)[1]
    gaps = torch.cat([torch.ones(13), torch.stack([weights, torch.zeros(30)], 1).flatten()])
    rows, raw = torch.tensor([0, 1, 0]), torch.tensor([1, 77, 3])
    _, positions = ops.sample_neighbors(torch.tensor([0, 13, 73]), rows, raw, 5, KEY, weights=gaps)
    assert torch.equal(positions[5:10], 13 + 2 * alone)


@pytest.mark.parametrize(
    ("degree", "fanout"), [(300, 299), (5000, 64), (5000, 65), (2500, 1250), pytest.param(200_000, 10, marks=pytest.mark.full)]
)
def test_long_lists_and_large_fanouts(degree, fanout):
    generator = torch.Generator().manual_seed(degree + fanout)
    weights = torch.rand(degree, generator=generator) ** 4
    arguments = (torch.tensor([0, degree]), ONE, torch.tensor([5]), fanout, KEY)
    for replace in (False, True):
        if replace and degree * fanout > 10**7:
            continue  # the reference would take minutes
        result = ops.sample_neighbors(*arguments, weights=weights, replace=replace)
        assert torch.equal(result[1], reference.sample_neighbors(*arguments, weights=weights, replace=replace)[1])


def test_a_fanout_of_thousands_is_drawn_in_sane_time():
    """By a heap: a search through all that are chosen so far would take minutes."""
    degree = 10**6
    weights = torch.rand(degree, generator=torch.Generator().manual_seed(0))
    counts, positions = ops.sample_neighbors(torch.tensor([0, degree]), ONE, ONE, 400_000, KEY, weights=weights)
    assert counts.tolist() == [400_000]
    assert len(torch.unique(positions)) == 400_000
    times = torch.arange(degree) * 7919 % degree
    eligible = ops.Eligible(times=times, last=True)
    _, positions = ops.sample_neighbors(torch.tensor([0, degree]), ONE, ONE, 400_000, KEY, eligible=eligible)
    assert torch.equal(times[positions], torch.arange(600_000, degree))


@pytest.mark.parametrize("bad", [-1.0, -1e-300, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("replace", [False, True])
def test_impossible_weights_are_named_where_they_are_looked_at(bad, replace):
    weights = torch.ones(9, dtype=torch.float64)
    weights[5] = bad
    indptr = torch.tensor([0, 2, 7, 9])

    def draw(rows, **options):
        rows = torch.tensor(rows)
        return ops.sample_neighbors(indptr, rows, rows, 2, KEY, replace=replace, weights=weights, **options)[0]

    assert draw([0, 2]).tolist() == [2, 2]
    assert draw([1], eligible=ops.Eligible(excluded=torch.tensor([5]))).tolist() == [2]
    with pytest.raises(InputError, match=f"weight {bad:g} at position 5: a weight is a finite number, 0 or more"):
        draw([0, 1, 2])


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (torch.tensor([1, -2, 1]), InputError, "weight -2 at position 1"),
        (torch.ones(3, dtype=torch.complex64), InputError, "weights must be one-dimensional, one of float32, float64, float16"),
        (torch.ones(3, 1), InputError, r"got torch.float32 with rows of shape \(1,\)"),
        (torch.ones(3, device="meta"), InputError, "weights lies on meta"),
        (torch.ones(2), IdError, "row number 0 lies at the positions 0 to 2, but weights has 2 entries"),
        (ops.Pieces([torch.ones(2), None], [0, 2, 3]), IdError, "weights: row 2 .* is in a piece that is not here"),
    ],
)
def test_wrong_weights_are_named(weights, error, message):
    with pytest.raises(error, match=message):
        ops.sample_neighbors(torch.tensor([0, 3]), ONE, ONE, 2, KEY, weights=weights)


def test_the_most_recent_are_no_matter_of_chance():
    eligible = ops.Eligible(times=torch.zeros(3), last=True)
    with pytest.raises(InputError, match=r"weights and eligible\.last are both given"):
        ops.sample_neighbors(torch.tensor([0, 3]), ONE, ONE, 2, KEY, weights=torch.ones(3), eligible=eligible)


def test_successive_keys_and_nodes_draw_independently():
    count = 8
    weights = torch.from_numpy(np.full(count, 0.3))
    keys = [ops.stream_key(seed=0, epoch=0, batch=batch, hop=0, relation=("n", "to", "n")) for batch in (0, 1)]
    one, other = (trials(weights, 1, key=key)[:, 0] for key in keys)
    for a, b in ((one, other), (one[:-1], one[1:])):
        looks_like(a * count + b, [1 / count**2] * count**2)
