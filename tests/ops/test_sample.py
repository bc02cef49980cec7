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
from halohop.ops import cpu_sample, reference

KEY = 0x0123456789ABCDEF


def graph(degrees):
    return torch.tensor([0, *itertools.accumulate(degrees)])


def same(degrees, rows, raw, fanout, key, replace):
    arguments = (graph(degrees), rows, raw, fanout, key)
    counts, positions = ops.sample_neighbors(*arguments, replace=replace)
    expected = reference.sample_neighbors(*arguments, replace=replace)
    assert counts.dtype == positions.dtype == torch.int64
    assert torch.equal(counts, expected[0])
    assert torch.equal(positions, expected[1])


DTYPES = st.sampled_from([torch.int32, torch.int64])


@st.composite
def questions(draw):
    degrees = draw(st.lists(st.one_of(st.integers(0, 3), st.integers(0, 40), st.integers(60, 300)), min_size=1, max_size=30))
    rows = draw(st.lists(st.integers(0, len(degrees) - 1), max_size=200))
    raw_dtype = draw(DTYPES)
    bits = 31 if raw_dtype == torch.int32 else 63
    offset = draw(st.sampled_from([0, -(2**bits), 2**bits - 1 - 30, -5]))
    rows_tensor = torch.tensor(rows, dtype=draw(DTYPES))
    raw = torch.tensor([offset + row for row in rows], dtype=raw_dtype)
    fanout = draw(st.one_of(st.integers(-1, 20), st.sampled_from([63, 64, 65, 66, 128, 1000, 2**32, 2**40])))
    return degrees, rows_tensor, raw, fanout, draw(st.integers(0, 2**64 - 1))


@settings(deadline=None, max_examples=100)
@given(questions())
def test_equals_the_reference_without_replacement(question):
    same(*question, replace=False)


@settings(deadline=None, max_examples=100)
@given(questions().filter(lambda question: question[3] <= 1000))
def test_equals_the_reference_with_replacement(question):
    same(*question, replace=True)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanout", [-1, 0, 1, 2, 15, 63, 64, 65, 300])
@pytest.mark.parametrize("num_rows", [1, 63, 64, 65, 130])
def test_blocks_are_filled_and_flushed(num_rows, fanout, replace):
    """Rows are drawn 64 at a time: one fewer, one more and two blocks."""
    rows = torch.arange(num_rows) % 7
    same([70, 16, 0, 1, 65, 301, 15], rows, rows * 1_000_003, fanout, KEY, replace)


@pytest.mark.parametrize("fanout", [5, 64, 500])
@pytest.mark.parametrize("replace", [False, True])
def test_long_lists(fanout, replace):
    """Degrees above 2**16 and 2**31: positions are 64-bit, products do not overflow."""
    degrees = [2**16 + 1, 2**31 + 5, 2**32 - 1]
    rows = torch.tensor([0, 1, 2, 1])
    same(degrees, rows, torch.tensor([5, 6, 7, 8]), fanout, KEY, replace)


def test_a_fanout_of_thousands_is_drawn_in_sane_time():
    counts, positions = ops.sample_neighbors(graph([10**6]), torch.tensor([0]), torch.tensor([1]), 400_000, KEY)
    assert counts.tolist() == [400_000]
    assert len(torch.unique(positions)) == 400_000


def test_both_draw_kernels_agree():
    """FEW may be set by speed alone only if the kernels below and above it give the same."""
    starts, degrees = np.array([0, 50, 57], np.int64), np.array([50, 7, 90], np.int64)
    raw = np.array([3, 1, -4], np.int64)
    for fanout in (1, 2, 7, 33, 49):
        common = (starts, degrees, raw, np.uint64(KEY), np.uint64(fanout))
        few, many = (np.empty(int(np.minimum(degrees, fanout).sum()), np.int64) for _ in range(2))
        cpu_sample.draw_few(*common, few)
        cpu_sample.draw_many(*common, many, np.zeros(128, np.uint64))
        assert np.array_equal(few, many)


def test_draws_do_not_depend_on_company_or_place():
    """The same node in another order, another company and another part of indptr gives the same positions in its list."""
    degrees = [100, 3, 50, 80, 20]
    indptr, rows = graph(degrees), torch.arange(5)
    for replace in (False, True):
        counts, positions = ops.sample_neighbors(indptr, rows, rows, 10, KEY, replace=replace)
        pieces = dict(enumerate(positions.split(counts.tolist())))
        for order in ([4, 3, 2, 1, 0], [2], [0, 0, 3]):
            some = torch.tensor(order)
            counts, positions = ops.sample_neighbors(indptr, some, some, 10, KEY, replace=replace)
            assert all(torch.equal(p, pieces[v]) for v, p in zip(order, positions.split(counts.tolist()), strict=True))
        alone = ops.sample_neighbors(graph([50]), torch.tensor([0]), torch.tensor([2]), 10, KEY, replace=replace)[1]
        assert torch.equal(alone + 103, pieces[2])


def test_gaps_and_read_only_memory():
    array = np.array([0, 9, 30], np.int64)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch wants writable memory
        indptr = torch.from_numpy(array)
    rows = torch.tensor([0, 9, 1, 9])[::2]
    expected = reference.sample_neighbors(indptr, rows, rows, 5, KEY)
    assert torch.equal(ops.sample_neighbors(indptr, rows, rows, 5, KEY)[1], expected[1])


def chi_square_limit(freedom):
    """Mean plus five standard deviations: a fair draw exceeds it about once in a million times."""
    return freedom + 5 * (2 * freedom) ** 0.5


TRIALS = 60_000


def trials(degree, fanout, replace, key=KEY):
    """The draws of TRIALS nodes, one row each, as positions 0..degree-1."""
    rows = torch.zeros(TRIALS, dtype=torch.int64)
    _, positions = ops.sample_neighbors(graph([degree]), rows, torch.arange(TRIALS), fanout, key, replace=replace)
    return positions.reshape(TRIALS, fanout)


@pytest.mark.parametrize(("degree", "fanout"), [(2, 1), (10, 3), (16, 15), (40, 10), (100, 5), (70, 66)])
def test_every_neighbour_is_equally_likely(degree, fanout):
    counts = torch.bincount(trials(degree, fanout, False).flatten(), minlength=degree).double()
    expected = TRIALS * fanout / degree
    # Inclusion counts have variance expected * (1 - fanout / degree), and correlation -1 / (degree - 1).
    statistic = ((counts - expected) ** 2).sum() / (expected * (1 - fanout / degree)) * (degree - 1) / degree
    assert statistic < chi_square_limit(degree - 1)


@pytest.mark.parametrize(("degree", "fanout"), [(10, 3), (9, 8), (20, 5), (80, 65)])
def test_every_pair_is_equally_likely(degree, fanout):
    drawn = torch.zeros(TRIALS, degree)
    drawn.scatter_(1, trials(degree, fanout, False), 1.0)
    together = (drawn.T @ drawn)[torch.triu_indices(degree, degree, offset=1).unbind()].double()
    probability = fanout * (fanout - 1) / (degree * (degree - 1))
    z = (together - TRIALS * probability) / (TRIALS * probability * (1 - probability)) ** 0.5
    assert z.abs().max() < 5.5


@pytest.mark.parametrize(("degree", "fanout"), [(2, 4), (7, 2), (50, 10), (3, 70)])
def test_draws_with_replacement_are_uniform_and_independent(degree, fanout):
    drawn = trials(degree, fanout, True)
    for number in (0, 1, fanout - 1):
        counts = torch.bincount(drawn[:, number], minlength=degree).double()
        statistic = ((counts - TRIALS / degree) ** 2).sum() / (TRIALS / degree)
        assert statistic < chi_square_limit(degree - 1)
    pairs = torch.bincount(drawn[:, 0] * degree + drawn[:, 1], minlength=degree**2).double()
    statistic = ((pairs - TRIALS / degree**2) ** 2).sum() / (TRIALS / degree**2)
    assert statistic < chi_square_limit(degree**2 - 1)


UNMIXED_STEP = pow(0xD1342543DE82EF95, -1, 2**64) - 2**64 * (pow(0xD1342543DE82EF95, -1, 2**64) >> 63)
"""Raw ids in this step cancel the kernel's own: the streams of successive nodes begin at successive numbers."""


@pytest.mark.parametrize("raw_step", [1, 2, 2**20, 2**32, UNMIXED_STEP])
def test_neighbouring_nodes_and_keys_draw_independently(raw_step):
    """Raw ids in arithmetic progressions, and the keys of successive batches."""
    degree = 8
    raw = torch.arange(TRIALS) * raw_step
    rows = torch.zeros(TRIALS, dtype=torch.int64)
    keys = [ops.stream_key(seed=0, epoch=0, batch=batch, hop=0, relation=("n", "to", "n")) for batch in (0, 1)]
    one, other = (ops.sample_neighbors(graph([degree]), rows, raw, 1, key)[1] for key in keys)
    for a, b in ((one, other), (one[:-1], one[1:])):
        pairs = torch.bincount(a * degree + b, minlength=degree**2).double()
        statistic = ((pairs - len(a) / degree**2) ** 2).sum() / (len(a) / degree**2)
        assert statistic < chi_square_limit(degree**2 - 1)


def test_threads_draw_what_one_thread_draws():
    indptr = graph([i % 90 for i in range(2000)])
    rows = torch.arange(2000).repeat(5)
    expected = {fanout: ops.sample_neighbors(indptr, rows, rows, fanout, KEY)[1] for fanout in (5, 15, 70, -1)}
    wrong = []

    def work():
        for _ in range(5):
            for fanout, positions in expected.items():
                if not torch.equal(ops.sample_neighbors(indptr, rows, rows, fanout, KEY)[1], positions):
                    wrong.append(fanout)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("bad", [-1, 3, 2**31 - 1, -(2**31)])
def test_rows_out_of_range_are_named(bad, dtype):
    rows = torch.tensor([0, 2, bad, 1], dtype=dtype)
    with pytest.raises(IdError, match=f"rows holds {bad}, which is out of range: there are 3 rows"):
        ops.sample_neighbors(graph([4, 4, 4, 4])[:-1], rows, rows, 2, KEY)  # one entry more lies in memory


def test_lists_of_impossible_length_are_refused():
    rows = torch.tensor([0])
    with pytest.raises(InputError, match="row 0 has 4294967296 neighbours"):
        ops.sample_neighbors(torch.tensor([0, 2**32]), rows, rows, 2, KEY)
    with pytest.raises(InputError, match="row 0 has -1 neighbours"):
        ops.sample_neighbors(torch.tensor([5, 4]), rows, rows, 2, KEY)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fanout": -2}, "fanout=-2"),
        ({"indptr": torch.tensor([], dtype=torch.int64)}, "indptr is empty"),
        ({"indptr": torch.tensor([0, 1], dtype=torch.int32)}, "indptr must be one-dimensional int64"),
        ({"rows": torch.tensor([0.0])}, "rows must be one-dimensional int64 or int32"),
        ({"rows": torch.tensor([[0]])}, "rows must be one-dimensional"),
        ({"raw": torch.tensor([0, 1])}, "raw has 2 entries, expected 1"),
        ({"rows": torch.empty(1, dtype=torch.int64, device="meta")}, "rows lies on meta"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    arguments = {"indptr": graph([3]), "rows": torch.tensor([0]), "raw": torch.tensor([0]), "fanout": 2, "key": KEY}
    with pytest.raises(InputError, match=message):
        ops.sample_neighbors(**(arguments | change))


def test_nothing_asked_nothing_drawn():
    nothing = torch.tensor([], dtype=torch.int64)
    for replace in (False, True):
        counts, positions = ops.sample_neighbors(torch.tensor([0]), nothing, nothing, 70, KEY, replace=replace)
        assert counts.dtype == positions.dtype == torch.int64
        assert len(counts) == len(positions) == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_list_lengths(dtype):
    indptr, rows = torch.tensor([0, 0, 3, 4]), torch.tensor([2, 0, 1, 2], dtype=dtype)
    assert torch.equal(ops.list_lengths(indptr, rows), reference.list_lengths(indptr, rows))
    pieces = ops.Pieces([torch.tensor([0, 0, 3]), torch.tensor([0, 1])], [0, 2, 3], extra=1)
    assert torch.equal(ops.list_lengths(pieces, rows), reference.list_lengths(indptr, rows))
    assert ops.list_lengths(indptr, rows[:0]).shape == (0,)
    with pytest.raises(IdError, match="3"):
        ops.list_lengths(indptr, torch.tensor([3]))
