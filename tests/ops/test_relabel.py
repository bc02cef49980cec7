import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import reference_relabel

NUM_NODES = 60
BOTH = pytest.mark.parametrize("dense_limit", [NUM_NODES, 0], ids=["dense", "hash"])
IDS = st.lists(st.integers(0, NUM_NODES - 1), max_size=80)
BATCHES = st.lists(st.tuples(IDS, st.lists(IDS, max_size=4)), min_size=1, max_size=6)
DTYPES = st.sampled_from([torch.int32, torch.int64])


def check_batch(relabeler, expected, seeds, additions):
    relabeler.start(seeds)
    expected.start(seeds)
    assert relabeler.count == expected.count == len(seeds)
    for ids in additions:
        begin = relabeler.count
        bids = relabeler.add(ids)
        assert bids.dtype == torch.int64
        assert torch.equal(bids, expected.add(ids))
        assert relabeler.count == expected.count
        near = torch.cat([ids.long(), (ids + 1) % relabeler._num_nodes])  # some known, some not
        found = relabeler.find(near)
        assert found.dtype == torch.int64
        assert torch.equal(found, expected.find(near))
        assert relabeler.count == expected.count
        assert torch.equal(relabeler.nodes(begin), expected.nodes(begin))
    assert relabeler.nodes().dtype == torch.int64
    assert torch.equal(relabeler.nodes(), expected.nodes())


@BOTH
@given(batches=BATCHES, dtype=DTYPES, dtype_added=DTYPES)
def test_equals_the_reference_over_many_batches(dense_limit, batches, dtype, dtype_added):
    relabeler, expected = ops.Relabeler(NUM_NODES, dense_limit=dense_limit), reference_relabel.Relabeler(NUM_NODES)
    for seeds, additions in batches:
        added = [torch.tensor(ids, dtype=dtype_added) for ids in additions]
        check_batch(relabeler, expected, torch.tensor(seeds, dtype=dtype), added)


@BOTH
@given(seeds=IDS, added=IDS, asked=IDS, before=IDS, dtype=DTYPES)
def test_looking_up_adds_nothing(dense_limit, seeds, added, asked, before, dtype):
    """Ids that only an earlier batch had, ids of this one, duplicate seeds, and ids never seen."""
    relabeler, expected = ops.Relabeler(NUM_NODES, dense_limit=dense_limit), reference_relabel.Relabeler(NUM_NODES)
    relabeler.start(torch.tensor(before, dtype=dtype))
    for table in (relabeler, expected):
        table.start(torch.tensor(seeds, dtype=torch.int64))
        table.add(torch.tensor(added, dtype=torch.int64))
    ids = torch.tensor(asked, dtype=dtype)
    for _ in range(2):
        assert torch.equal(relabeler.find(ids), expected.find(ids))
    assert torch.equal(relabeler.nodes(), expected.nodes())


@BOTH
def test_large_batches_grow_the_tables(dense_limit):
    """Many times the first size of the hash table, then small batches again, then more seeds than slots."""
    num_nodes = 50_000
    relabeler = ops.Relabeler(num_nodes, dense_limit=num_nodes if dense_limit else 0)
    expected = reference_relabel.Relabeler(num_nodes)
    generator = torch.Generator().manual_seed(0)
    for num_seeds, num_added in ((3, 40_000), (0, 5), (700, 100), (30_000, 30_000), (1, 1), (60_000, 10)):
        seeds, *added = (torch.randint(0, num_nodes, (n,), generator=generator) for n in (num_seeds, num_added, num_added))
        check_batch(relabeler, expected, seeds, added)


def test_hash_table_takes_any_id():
    """Ids beyond 2**32, and ids that all begin their search in the same few slots."""
    num_nodes = 2**62
    relabeler, expected = ops.Relabeler(num_nodes), reference_relabel.Relabeler(num_nodes)
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    crowded = [v for v in ((slot * inverse) % 2**64 for slot in range(4000)) if v < num_nodes]
    assert len(crowded) > 500
    for ids in (crowded, [0, 2**62 - 1, 2**32, 2**32 + 1, 0], crowded[::-1]):
        check_batch(relabeler, expected, torch.tensor(ids[:100]), [torch.tensor(ids), torch.tensor(ids[::2])])


def test_dense_base_never_overflows():
    """After 2**32 bids the table is cleared: without that, entries of old batches would come alive."""
    relabeler, expected = ops.Relabeler(NUM_NODES), reference_relabel.Relabeler(NUM_NODES)
    seeds, ids = torch.tensor([5, 7, 5]), torch.tensor([9, 5, 1, 0])
    check_batch(relabeler, expected, seeds, [ids])
    relabeler._table._base = 2**32 - 200
    for _ in range(100):
        check_batch(relabeler, expected, seeds, [ids, ids + 20])
    assert relabeler._table._base < 2**31


@BOTH
@pytest.mark.parametrize("bad", [-1, NUM_NODES, 2**31 - 1])
def test_ids_out_of_range_are_named_and_the_next_batch_is_right(dense_limit, bad):
    relabeler, expected = ops.Relabeler(NUM_NODES, dense_limit=dense_limit), reference_relabel.Relabeler(NUM_NODES)
    for dtype in (torch.int32, torch.int64):
        ids = torch.tensor([3, 8, bad, 4], dtype=dtype)
        with pytest.raises(IdError, match=f"seed {bad} is no node: ids go from 0 to {NUM_NODES - 1}"):
            relabeler.start(ids)
        check_batch(relabeler, expected, torch.tensor([8, 3]), [torch.tensor([4, 3])])
        with pytest.raises(IdError, match=f"id {bad} is no node"):
            relabeler.find(ids)
        with pytest.raises(IdError, match=f"id {bad} is no node"):
            relabeler.add(ids)
        check_batch(relabeler, expected, torch.tensor([9]), [torch.tensor([8, 4, 3])])


@BOTH
def test_a_first_batch_with_many_seeds(dense_limit):
    """More seeds than a new hash table has slots: a search in a full table would never end."""
    relabeler = ops.Relabeler(5000, dense_limit=5000 if dense_limit else 0)
    check_batch(relabeler, reference_relabel.Relabeler(5000), torch.arange(5000), [torch.arange(0, 5000, 7)])


@BOTH
def test_nodes_is_a_copy(dense_limit):
    relabeler = ops.Relabeler(NUM_NODES, dense_limit=dense_limit)
    relabeler.start(torch.tensor([1, 2]))
    before = relabeler.nodes()
    relabeler.start(torch.tensor([3, 4]))
    assert before.tolist() == [1, 2]


def test_wrong_arguments_are_named():
    with pytest.raises(InputError, match="num_nodes=-1"):
        ops.Relabeler(-1)
    relabeler = ops.Relabeler(0)
    relabeler.start(torch.tensor([], dtype=torch.int64))
    assert relabeler.nodes().tolist() == []
    with pytest.raises(InputError, match="seeds must be one-dimensional int64 or int32"):
        relabeler.start(torch.tensor([[1]]))
    with pytest.raises(InputError, match="ids lies on meta"):
        relabeler.add(torch.tensor([1], device="meta"))


@BOTH
def test_threads_with_a_relabeler_each(dense_limit):
    num_nodes = 3000
    generator = torch.Generator().manual_seed(0)
    batches = [torch.randint(0, num_nodes, (2000,), generator=generator) for _ in range(20)]
    expected = reference_relabel.Relabeler(num_nodes)
    results = []
    for ids in batches:
        expected.start(ids[:100])
        results.append(expected.add(ids))
    wrong = []

    def work():
        relabeler = ops.Relabeler(num_nodes, dense_limit=num_nodes if dense_limit else 0)
        for index, ids in enumerate(batches):
            relabeler.start(ids[:100])
            if not torch.equal(relabeler.add(ids), results[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
