"""Draws by random numbers of the sources: each list as before, overlapping lists alike."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import eligible as eligible_module
from halohop.ops import reference

KEY = 0x0123456789ABCDEF
TRIALS = 40_000
INTEGERS = st.sampled_from((torch.int32, torch.int64))


def graph(degrees):
    return torch.tensor([0, *itertools.accumulate(degrees)])


@st.composite
def questions(draw):
    """Lists with sources that occur once or often, with all that restricts a draw or nothing."""
    degrees = draw(st.lists(st.one_of(st.integers(0, 4), st.integers(0, 20), st.just(80)), min_size=1, max_size=6))
    rows = torch.tensor(draw(st.lists(st.integers(0, len(degrees) - 1), max_size=12)), dtype=torch.int64)
    count, options = sum(degrees), {}
    num_nodes = draw(st.sampled_from([1, 3, 100]))
    ends = [-(2**31), 2**31 - 1] if draw(st.booleans()) else [-(2**63), 2**63 - 1]
    dtype = torch.int32 if ends[1] < 2**31 else torch.int64
    ids = draw(st.lists(st.one_of(st.integers(-3, num_nodes), st.sampled_from(ends)), min_size=num_nodes, max_size=num_nodes))
    pick = torch.tensor(draw(st.lists(st.integers(0, num_nodes - 1), min_size=count, max_size=count)), dtype=torch.int64)
    ids = torch.tensor(ids, dtype=dtype)
    chosen = {"ids": ids, "via": pick.to(draw(INTEGERS))} if draw(st.booleans()) else {"ids": ids[pick]}
    if draw(st.booleans()):
        shifts = st.lists(st.sampled_from([0, 1 << 40, 7 << 40]), min_size=len(rows), max_size=len(rows))
        chosen["shift"] = torch.tensor(draw(shifts), dtype=torch.int64)
    options["sources"] = ops.Sources(**chosen)
    may = {}
    if draw(st.booleans()):
        times = torch.tensor(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)), dtype=torch.int64)
        if draw(st.booleans()):
            times = torch.cat([part.sort().values for part in times.split(degrees)])
            may["times_sorted"] = True
        latest = torch.tensor(draw(st.lists(st.integers(-1, 4), min_size=len(rows), max_size=len(rows))), dtype=torch.int64)
        may |= {"times": times, "latest": latest}
    if draw(st.booleans()):
        may["excluded"] = torch.tensor([e for e in range(count) if draw(st.integers(0, 3)) == 0], dtype=torch.int64)
    if may:
        options["eligible"] = ops.Eligible(**may)
    if draw(st.booleans()):
        weights = draw(st.lists(st.sampled_from([0.0, 1.0, 1.0, 2.5, 1e-300, 1e300]), min_size=count, max_size=count))
        options["weights"] = torch.tensor(weights, dtype=torch.float64)
    fanout = draw(st.one_of(st.integers(-1, 8), st.sampled_from([30, 64, 65, 2**40])))
    return (graph(degrees), rows, rows * 11, fanout, draw(st.integers(0, 2**64 - 1))), options


@settings(deadline=None, max_examples=40)
@given(questions(), st.sampled_from([1, 7, 1 << 16]))
def test_equals_the_reference(question, block):
    arguments, options = question
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eligible_module, "_BLOCK", block)
        result = ops.sample_neighbors(*arguments, **options)
    expected = reference.sample_neighbors(*arguments, **options)
    assert all(torch.equal(one, other) for one, other in zip(result, expected, strict=True))


def trials(sources, fanout, **options):
    """The draws of TRIALS keys from one list, a row each, as positions in the list; the keys are shifts of the sources."""
    rows = torch.zeros(TRIALS, dtype=torch.int64)
    by = ops.Sources(ids=sources, shift=torch.arange(TRIALS) << 20)
    return ops.sample_neighbors(graph([len(sources)]), rows, rows, fanout, KEY, sources=by, **options)[1].reshape(TRIALS, fanout)


def looks_like(outcomes, probabilities):
    """Chi-square of outcomes 0, 1, ... A fair draw exceeds mean plus five deviations about once in a million times."""
    counts = torch.bincount(outcomes, minlength=len(probabilities)).double()
    expected = torch.tensor(probabilities, dtype=torch.float64) * len(outcomes)
    assert int(counts[expected == 0].sum()) == 0
    counts, expected = counts[expected > 0], expected[expected > 0]
    freedom = len(expected) - 1
    assert ((counts - expected) ** 2 / expected).sum() < freedom + 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("sources", [range(9), [0, 0, 0, 3, 3, 5, 6, 7, 7]], ids=["once", "several times"])
def test_every_pair_of_entries_is_as_likely(sources):
    """Inclusion is fanout / degree for every entry, copies of one source too; and pairs, so that variances are right."""
    count = len(sources)
    drawn = trials(torch.tensor(sources), 2)
    numbers = torch.zeros(count, count, dtype=torch.int64)
    triangle = torch.triu_indices(count, count, offset=1)
    numbers[triangle[0], triangle[1]] = torch.arange(triangle.shape[1])
    pairs = drawn.sort(1).values
    looks_like(numbers[pairs[:, 0], pairs[:, 1]], [1 / triangle.shape[1]] * triangle.shape[1])
    for place in range(2):
        looks_like(drawn[:, place], [1 / count] * count)


@pytest.mark.parametrize(("degree", "fanout"), [(30, 4), (140, 66)])
def test_inclusion_is_fanout_over_degree(degree, fanout):
    drawn = torch.bincount(trials(torch.arange(degree), fanout).flatten(), minlength=degree)
    expected = TRIALS * fanout / degree
    shrink = (1 - fanout / degree) * degree / (degree - 1)
    assert ((drawn - expected) ** 2).sum() / (expected * shrink) < degree - 1 + 5 * (2 * (degree - 1)) ** 0.5


@pytest.mark.parametrize("sources", [range(7), [4, 4, 4, 4, 1, 1, 1]], ids=["once", "several times"])
def test_by_weight_one_after_the_other(sources):
    """The ordered pairs of successive sampling, by enumeration: as without sources."""
    weights = torch.tensor([1.0, 0.0, 4.0, 2.5, 0.5, 0.0, 3.0])
    shares = (weights.double() / weights.double().sum()).tolist()
    drawn = trials(torch.tensor(sources), 2, weights=weights)
    pairs = [0.0] * 49
    for first, second in itertools.permutations(range(7), 2):
        pairs[first * 7 + second] = shares[first] * shares[second] / (1 - shares[first])
    looks_like(drawn[:, 0] * 7 + drawn[:, 1], pairs)


def test_equal_lists_are_drawn_alike_and_shifted_ones_independently():
    sources = torch.arange(8).repeat(2)
    rows = torch.tensor([0, 1]).repeat(TRIALS)
    for apart in (0, 1):
        shift = (torch.arange(2 * TRIALS) // 2 << 20) + torch.tensor([0, apart << 50]).repeat(TRIALS)
        by = ops.Sources(ids=sources, shift=shift)
        _, positions = ops.sample_neighbors(graph([8, 8]), rows, rows, 1, KEY, sources=by)
        first, second = sources[positions].reshape(TRIALS, 2).T
        joint = [1 / 64] * 64 if apart else [1 / 8 if one == other else 0.0 for one in range(8) for other in range(8)]
        looks_like(first * 8 + second, joint)


def test_the_order_of_a_list_and_the_rows_own_ids_do_not_matter():
    sources = torch.randperm(100, generator=torch.Generator().manual_seed(0))
    one = torch.tensor([0])
    for weights in (None, torch.rand(100, generator=torch.Generator().manual_seed(1))):
        drawn = []
        for order in (torch.arange(100), torch.arange(100).flip(0)):
            by = ops.Sources(ids=sources[order])
            chances = None if weights is None else weights[order]
            _, positions = ops.sample_neighbors(
                graph([100]), one, torch.tensor([len(drawn)]), 9, KEY, sources=by, weights=chances
            )
            drawn.append(sources[order][positions].tolist())
        assert drawn[0] == drawn[1]


def test_a_hub_with_many_copies():
    """Longer than a block, thousands of copies of a few sources, beside short rows that share the table."""
    generator = torch.Generator().manual_seed(5)
    degrees = [70_000, 3, 40, 0, 500]
    sources = torch.randint(0, 60, (sum(degrees),), generator=generator, dtype=torch.int32)
    indptr, rows = graph(degrees), torch.tensor([2, 0, 4, 1, 3, 2])
    counts, positions = ops.sample_neighbors(indptr, rows, rows, 12, KEY, sources=ops.Sources(ids=sources))
    assert counts.tolist() == [12, 12, 12, 3, 0, 12]
    for index in (0, 2, 5):
        begin = int(counts[:index].sum())
        row = int(rows[index])
        low, high = indptr[row : row + 2].tolist()
        expected = reference.draw_by_source(sources[low:high].tolist(), None, 12, KEY)
        assert (positions[begin : begin + 12] - low).tolist() == expected
    assert len(positions[12:24].unique()) == 12


@pytest.mark.parametrize("fanout", [1, 2, 5, 20])
def test_however_many_keys_stand_out(fanout):
    """Of 500 lists some have fewer great keys than the fanout, some as many, some more."""
    degrees = [fanout + 1, 30, 60, 200] * 125
    sources = torch.arange(sum(degrees)) * 7
    arguments = graph(degrees), torch.arange(500), torch.arange(500), fanout, KEY
    result = ops.sample_neighbors(*arguments, sources=ops.Sources(ids=sources))
    expected = reference.sample_neighbors(*arguments, sources=ops.Sources(ids=sources))
    assert all(torch.equal(one, other) for one, other in zip(result, expected, strict=True))


LONG = torch.zeros(9, dtype=torch.int64)


@pytest.mark.parametrize(
    ("sources", "options", "error", "message"),
    [
        ({"ids": LONG.float()}, {}, InputError, "ids of sources must be one-dimensional, one of int32, int64; got torch.float32"),
        ({"ids": LONG, "via": LONG.bool()}, {}, InputError, "via must be one-dimensional, one of int32, int64; got torch.bool"),
        ({"ids": LONG, "shift": LONG.int()}, {}, InputError, "shift must be one-dimensional int64"),
        ({"ids": LONG, "shift": LONG}, {}, InputError, "shift has 9 entries, expected 1, one per row"),
        ({"ids": LONG[:8]}, {}, IdError, "row number 0 lies at the positions 0 to 8, but ids of sources has 8 entries"),
        ({"ids": LONG, "via": LONG + 9}, {}, IdError, r"ids of sources: row 9 .* is out of range: there are 9 rows"),
        ({"ids": LONG}, {"replace": True}, InputError, "sources are given together with replace"),
        (
            {"ids": LONG},
            {"eligible": ops.Eligible(times=LONG, last=True)},
            InputError,
            r"sources are given together with eligible\.last",
        ),
    ],
)
def test_wrong_arguments_are_named(sources, options, error, message):
    one = torch.tensor([0])
    with pytest.raises(error, match=message):
        ops.sample_neighbors(graph([9]), one, one, 2, KEY, sources=ops.Sources(**sources), **options)
