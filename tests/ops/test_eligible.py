import itertools
import threading
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import eligible as eligible_module
from halohop.ops import reference

KEY = 0x0123456789ABCDEF
FANOUTS = st.one_of(st.integers(-1, 8), st.sampled_from([64, 65, 1000, 2**40]))
INTEGERS, FLOATS = (torch.int32, torch.int64), (torch.float32, torch.float64)


def graph(degrees):
    return torch.tensor([0, *itertools.accumulate(degrees)])


def same(*arguments, **options):
    counts, positions = ops.sample_neighbors(*arguments, **options)
    expected = reference.sample_neighbors(*arguments, **options)
    assert counts.dtype == positions.dtype == torch.int64
    assert torch.equal(counts, expected[0])
    assert torch.equal(positions, expected[1])
    return counts, positions


def numbers(draw, count, dtype):
    """Small, so that there are ties; and the ends of the range."""
    if dtype.is_floating_point:
        ends = [-float("inf"), float("inf"), float("nan"), -0.0, 0.5]
    else:
        ends = [torch.iinfo(dtype).min, torch.iinfo(dtype).max]
    few = st.one_of(st.integers(-2, 5), st.sampled_from(ends))
    return torch.tensor(draw(st.lists(few, min_size=count, max_size=count)), dtype=dtype)


@st.composite
def weights_of(draw, count):
    dtype = draw(st.sampled_from(FLOATS))
    sizes = [0.0, 0.0, 1.0, 2.0, 1e-40, 1e38] + ([1e-320, 1e-300, 1e300, 1.7e308] if dtype == torch.float64 else [])
    return torch.tensor(draw(st.lists(st.sampled_from(sizes), min_size=count, max_size=count)), dtype=dtype)


@st.composite
def questions(draw):
    """Arguments and options of sample_neighbors, with everything that restricts a draw or nothing."""
    degrees = draw(st.lists(st.one_of(st.integers(0, 3), st.integers(0, 20), st.just(80)), min_size=1, max_size=8))
    rows = torch.tensor(draw(st.lists(st.integers(0, len(degrees) - 1), max_size=15)), dtype=draw(st.sampled_from(INTEGERS)))
    count, options, chosen = sum(degrees), {}, {}
    if draw(st.booleans()):
        kinds = draw(st.sampled_from((INTEGERS, FLOATS)))
        dtype = draw(st.sampled_from(kinds))
        num_nodes = 5
        if draw(st.booleans()):
            ids = draw(st.lists(st.integers(0, num_nodes - 1), min_size=count, max_size=count))
            options["via"] = torch.tensor(ids, dtype=draw(st.sampled_from(INTEGERS)))
        options["times"] = numbers(draw, num_nodes if "via" in options else count, dtype)
        if draw(st.booleans()):
            options["latest"] = numbers(draw, len(rows), draw(st.sampled_from(kinds)))
        if draw(st.booleans()):
            options["earliest"] = numbers(draw, len(rows), draw(st.sampled_from(kinds)))
        options["last"] = draw(st.booleans())
    if draw(st.booleans()):
        some = draw(st.sampled_from([st.booleans(), st.just(True), st.sampled_from([False] * 9 + [True])]))
        mask = draw(st.lists(some, min_size=count, max_size=count))
        positions = [-5] * draw(st.booleans()) + [e for e in range(count) if mask[e]]
        options["excluded"] = torch.tensor(positions, dtype=torch.int64).repeat_interleave(draw(st.sampled_from([1, 3])))
    if not options.get("last") and draw(st.booleans()):
        chosen["weights"] = draw(weights_of(count))
    if options or draw(st.booleans()):
        chosen["eligible"] = ops.Eligible(**options)
    fanout = draw(FANOUTS)
    chosen["replace"] = fanout <= 1000 and draw(st.booleans())
    return (graph(degrees), rows, rows.long() * 10**12 - 7, fanout, draw(st.integers(0, 2**64 - 1))), chosen


@settings(deadline=None, max_examples=50)
@given(questions())
def test_equals_the_reference(question):
    arguments, options = question
    same(*arguments, **options)


@settings(deadline=None, max_examples=50)
@given(questions(), st.integers(1, 30))
def test_lists_are_drawn_from_a_block_at_a_time(question, block):
    """Blocks of any size give the same: rows on both sides of a cut, rows longer than a block."""
    arguments, options = question
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eligible_module, "_BLOCK", block)
        same(*arguments, **options)


@settings(deadline=None, max_examples=50)
@given(questions(), st.sampled_from([torch.int64, torch.int32, torch.float64]), st.data())
def test_a_promise_of_sorted_times_changes_nothing(question, dtype, data):
    (indptr, rows, *rest), options = question
    given = options.get("eligible", ops.Eligible())
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
    with_times = {"times": times.to(dtype), "via": via, "last": given.last, "excluded": given.excluded, **bounds}
    both = [
        same(indptr, rows, *rest, **(options | {"eligible": ops.Eligible(**with_times, times_sorted=promise)}))
        for promise in (False, True)
    ]
    assert all(torch.equal(one, other) for one, other in zip(*both, strict=True))


def test_sorted_times_of_one_that_is_no_number_are_never_drawn():
    """Such a list counts as sorted."""
    times, indptr, rows = torch.tensor([float("nan"), 1.0, 2.0]), torch.tensor([0, 1, 3]), torch.tensor([0, 1])
    for bounds in ({"last": True}, {"latest": torch.full((2,), float("inf"))}):
        counts, positions = ops.sample_neighbors(
            indptr, rows, rows, 1, 7, eligible=ops.Eligible(times=times, times_sorted=True, **bounds)
        )
        assert counts.tolist() == [0, 1]
        assert positions.tolist() == [2] or "latest" in bounds


def cut(tensor, bounds):
    return ops.Pieces([tensor[low:high].clone() for low, high in itertools.pairwise(bounds)], bounds)


@settings(deadline=None, max_examples=40)
@given(questions(), st.data())
def test_equal_for_any_division_into_pieces(question, data):
    """The lists in three parts, one perhaps empty, and what belongs to entries and nodes divided likewise, or anywhere else."""
    (indptr, rows, *rest), options = question
    expected = ops.sample_neighbors(indptr, rows, *rest, **options)
    num_rows = len(indptr) - 1
    row_bounds = [0, *sorted(data.draw(st.lists(st.integers(0, num_rows), min_size=2, max_size=2))), num_rows]
    edge_bounds = indptr[row_bounds].tolist()
    lists = [indptr[low : high + 1] - indptr[low] for low, high in itertools.pairwise(row_bounds)]
    if data.draw(st.booleans()):
        edge_bounds_of_values = edge_bounds
    else:
        anywhere = st.lists(st.integers(0, edge_bounds[-1]), min_size=2, max_size=2)
        edge_bounds_of_values = [0, *sorted(data.draw(anywhere)), edge_bounds[-1]]
    if "weights" in options:
        options["weights"] = cut(options["weights"], edge_bounds_of_values)
    if "eligible" in options:
        given = options["eligible"]
        times, via = given.times, given.via
        if via is not None:
            via, times = cut(via, edge_bounds_of_values), cut(times, [0, 2, 2, 5])
        elif times is not None:
            times = cut(times, edge_bounds_of_values)
        options["eligible"] = ops.Eligible(
            times=times, via=via, latest=given.latest, earliest=given.earliest, last=given.last, excluded=given.excluded
        )
    pieces = ops.Pieces(lists, row_bounds, extra=1)
    result = ops.sample_neighbors(pieces, rows, *rest, edge_bounds=edge_bounds, pool=ops.Pool(), **options)
    assert all(torch.equal(one, other) for one, other in zip(result, expected, strict=True))


def test_the_other_arguments_decide_as_before_where_nothing_is_forbidden():
    """Asking for restrictions that restrict nothing gives the uniform draws, bit for bit."""
    indptr, rows = graph([70, 3, 0, 300]), torch.arange(4)
    nothing = [
        ops.Eligible(),
        ops.Eligible(times=torch.zeros(373)),
        ops.Eligible(times=torch.zeros(373), latest=torch.zeros(4)),
        ops.Eligible(times=torch.zeros(373), latest=torch.zeros(4), times_sorted=True),
        ops.Eligible(excluded=torch.tensor([], dtype=torch.int64)),
        ops.Eligible(excluded=torch.tensor([-1, 373, 1000])),
    ]
    for fanout, replace, eligible in itertools.product((-1, 0, 1, 10, 64, 65), (False, True), nothing):
        expected = ops.sample_neighbors(indptr, rows, rows, fanout, KEY, replace=replace)
        result = ops.sample_neighbors(indptr, rows, rows, fanout, KEY, replace=replace, eligible=eligible)
        assert all(torch.equal(one, other) for one, other in zip(result, expected, strict=True))


def test_many_rows_of_many_lengths():
    """Several blocks, with the restrictions of a link task on a temporal graph."""
    generator = torch.Generator().manual_seed(3)
    degrees = torch.randint(0, 120, (3000,), generator=generator)
    indptr = graph(degrees.tolist())
    count = int(indptr[-1])
    assert count > 2 * eligible_module._BLOCK
    times = torch.randint(0, 1000, (count,), generator=generator)
    latest = torch.randint(-100, 1100, (3000,), generator=generator)
    excluded = torch.randperm(count, generator=generator)[:3000].sort().values
    rows = torch.randperm(3000, generator=generator)
    eligible = ops.Eligible(times=times, latest=latest, excluded=excluded)
    owner, forbidden = torch.arange(3000).repeat_interleave(degrees), torch.zeros(count, dtype=torch.bool)
    forbidden[excluded] = True
    limit_of = torch.empty(3000, dtype=torch.int64).scatter_(0, rows, latest)
    may = (times <= limit_of[owner]) & ~forbidden
    possible = torch.zeros(3000, dtype=torch.int64).index_add_(0, owner, may.long())
    for last, fanout in itertools.product((False, True), (-1, 7, 64, 65)):
        counts, positions = ops.sample_neighbors(
            indptr, rows, rows, fanout, KEY, eligible=ops.Eligible(times=times, latest=latest, excluded=excluded, last=last)
        )
        assert bool(may[positions].all())
        assert torch.equal(owner[positions], rows.repeat_interleave(counts))
        assert torch.equal(counts, possible[rows] if fanout < 0 else possible[rows].clamp(max=fanout))
        assert len(torch.unique(positions)) == len(positions)
    assert torch.equal(ops.sample_neighbors(indptr, rows, rows, -1, KEY, eligible=eligible)[0], possible[rows])


@pytest.mark.parametrize(("degree", "fanout"), [(30, 1), (30, 4), (140, 66)])
@pytest.mark.parametrize("replace", [False, True])
def test_entries_of_the_past_are_equally_likely(degree, fanout, replace):
    """Also: the excluded one is never there, and the fanout is refilled from the others."""
    trials = 40_000
    times = torch.randperm(degree, generator=torch.Generator().manual_seed(4))
    allowed = times <= degree // 2
    excluded = int(torch.nonzero(allowed)[3])
    allowed[excluded] = False
    rows = torch.zeros(trials, dtype=torch.int64)
    eligible = ops.Eligible(times=times, latest=torch.full((trials,), degree // 2), excluded=torch.tensor([excluded]))
    counts, positions = ops.sample_neighbors(
        graph([degree]), rows, torch.arange(trials), fanout, KEY, replace=replace, eligible=eligible
    )
    assert counts.unique().tolist() == [fanout]
    drawn = torch.bincount(positions, minlength=degree)
    assert int(drawn[~allowed].sum()) == 0
    choices = int(allowed.sum())
    expected = trials * fanout / choices
    shrink = 1 if replace else (1 - fanout / choices) * choices / (choices - 1)
    statistic = ((drawn[allowed] - expected) ** 2).sum() / (expected * shrink)
    assert statistic < choices - 1 + 5 * (2 * (choices - 1)) ** 0.5


def test_nothing_is_drawn_where_all_lies_in_the_future():
    rows = torch.tensor([0, 1, 2])
    for promise, last, replace in itertools.product((False, True), repeat=3):
        eligible = ops.Eligible(times=torch.tensor([5] * 9), latest=torch.full((3,), 4), last=last, times_sorted=promise)
        counts, positions = ops.sample_neighbors(graph([4, 0, 5]), rows, rows, 3, KEY, replace=replace, eligible=eligible)
        assert counts.tolist() == [0, 0, 0]
        assert len(positions) == 0


def test_most_recent_by_hand():
    """Of equally old ones the later stored; in the order of time only where some are left out."""
    times = torch.tensor([3.0, 1.0, 3.0, 2.0, 3.0, 9.0])
    one = torch.tensor([0])

    def drawn(fanout, **options):
        eligible = ops.Eligible(times=times, last=True, **options)
        return ops.sample_neighbors(graph([6]), one, one, fanout, KEY, replace=True, eligible=eligible)[1].tolist()

    until = {"latest": torch.tensor([3.0])}
    assert drawn(2, **until) == [2, 4]
    assert drawn(4, **until) == [3, 0, 2, 4]
    assert drawn(5, **until) == [0, 1, 2, 3, 4]
    assert drawn(-1, **until) == [0, 1, 2, 3, 4]
    assert drawn(2) == [4, 5]
    assert drawn(2, excluded=torch.tensor([4, 5])) == [0, 2]


def test_nanoseconds_are_not_rounded():
    """Two int64 times that float64 cannot tell apart."""
    now, one = 2**60, torch.tensor([0])
    eligible = ops.Eligible(times=torch.tensor([now + 1, now]), latest=torch.tensor([now]))
    assert ops.sample_neighbors(graph([2]), one, one, -1, KEY, eligible=eligible)[1].tolist() == [1]


def test_gaps_and_read_only_memory():
    array = np.arange(40) % 7
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch wants writable memory
        times = torch.from_numpy(array)[::2]
    indptr, rows = graph([15, 5]), torch.tensor([0, 9, 1, 9])[::2]
    for last in (False, True):
        eligible = ops.Eligible(
            times=times,
            via=torch.arange(40, dtype=torch.int32).flip(0)[1::2] // 2,
            latest=torch.tensor([3, 0, 5, 0])[::2],
            last=last,
            excluded=torch.tensor([3, 5, 7, 9])[::2],
        )
        same(indptr, rows, rows, 4, KEY, eligible=eligible)
    same(indptr, rows, rows, 4, KEY, weights=torch.arange(40.0)[::2])


def test_threads_draw_what_one_thread_draws():
    indptr = graph([i % 90 for i in range(2000)])
    rows, times = torch.arange(2000).repeat(3), torch.arange(int(indptr[-1])) * 7 % 1000
    pool = ops.Pool()
    options = [
        {"eligible": ops.Eligible(times=times, latest=rows % 1000)},
        {"eligible": ops.Eligible(times=times, latest=rows % 1000, last=True)},
        {"weights": times.double(), "replace": True},
        {"weights": times.double()},
    ]
    expected = [ops.sample_neighbors(indptr, rows, rows, 5, KEY, **given)[1] for given in options]
    wrong = []

    def work():
        for option, positions in zip(options * 3, expected * 3, strict=True):
            if not torch.equal(ops.sample_neighbors(indptr, rows, rows, 5, KEY, pool=pool, **option)[1], positions):
                wrong.append(option)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


LONG = torch.zeros(9, dtype=torch.int64)


@pytest.mark.parametrize(
    ("eligible", "message"),
    [
        ({"via": LONG}, "via is given, but no times"),
        ({"latest": LONG}, "latest is given, but no times"),
        ({"earliest": LONG}, "earliest is given, but no times"),
        ({"last": True}, "last is given, but no times"),
        ({"times": LONG.bool()}, "times must be one-dimensional, one of int32, int64, float32, float64; got torch.bool"),
        ({"times": LONG[None]}, "times must be one-dimensional"),
        ({"times": LONG[0]}, "times must be one-dimensional"),
        ({"times": LONG.to("meta")}, "times lies on meta"),
        ({"times": LONG, "via": LONG.float()}, "via must be one-dimensional, one of int32, int64; got torch.float32"),
        ({"times": LONG, "latest": LONG.float()}, "latest must be one-dimensional, one of int32, int64; got torch.float32"),
        ({"times": LONG.float(), "latest": LONG}, "latest must be one-dimensional, one of float32, float64; got torch.int64"),
        ({"times": LONG, "latest": LONG}, "latest has 9 entries, expected 1, one per row"),
        ({"times": LONG, "earliest": LONG.float()}, "earliest must be one-dimensional, one of int32, int64; got torch.float32"),
        ({"times": LONG, "earliest": LONG}, "earliest has 9 entries, expected 1, one per row"),
        ({"excluded": LONG.int()}, "excluded must be one-dimensional int64"),
        ({"excluded": torch.tensor([1, 4, 2])}, r"excluded falls after entry 1 \(4\)"),
    ],
)
def test_wrong_arguments_are_named(eligible, message):
    one = torch.tensor([0])
    with pytest.raises(InputError, match=message):
        ops.sample_neighbors(graph([9]), one, one, 2, KEY, eligible=ops.Eligible(**eligible))


@pytest.mark.parametrize("promise", [False, True])
def test_entries_without_a_time_are_named(promise):
    row, latest = torch.tensor([1]), torch.tensor([0])

    def draw(times, via=None, indptr=None):
        eligible = ops.Eligible(times=times, via=via, latest=latest, times_sorted=promise)
        ops.sample_neighbors(graph([4, 5]) if indptr is None else indptr, row, row, 2, KEY, eligible=eligible)

    with pytest.raises(IdError, match="row number 0 lies at the positions 4 to 8, but times has 8 entries"):
        draw(LONG[:8])
    with pytest.raises(IdError, match="row number 0 lies at the positions 4 to 8, but via has 8 entries"):
        draw(LONG, via=LONG[:8])
    with pytest.raises(IdError, match="times has 9 entries"):
        draw(LONG, indptr=torch.tensor([0, 2**62, 2**62 + 2**32 - 1]))
    with pytest.raises(IdError, match="times has 9 entries"):
        draw(LONG, indptr=torch.tensor([0, -3, 2]))
    with pytest.raises(IdError, match=r"times: row -1 .* is out of range: there are 9 rows"):
        draw(LONG, via=LONG - 1)
    with pytest.raises(IdError, match=r"times: row 9 .* is out of range: there are 9 rows"):
        draw(LONG, via=LONG + 9)
    with pytest.raises(IdError, match=r"times: row .* is in a piece that is not here"):
        draw(ops.Pieces([LONG[:4], None], [0, 4, 9]))
