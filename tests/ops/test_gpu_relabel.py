"""Nodes numbered on a GPU: as the CPU numbers them. In Triton's interpreter, on a GPU that is pretended."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import reference_relabel
from halohop.ops.gpu_relabel import DeviceRelabeler
from halohop.telemetry import Counters
from tests.support.pretend_gpu import any_pool

NUM_NODES = 60
BOTH = pytest.mark.parametrize("dense_limit", [NUM_NODES, 0], ids=["dense", "hash"])
IDS = st.lists(st.integers(0, NUM_NODES - 1), max_size=80)
BATCHES = st.lists(st.tuples(IDS, st.lists(IDS, max_size=3)), min_size=1, max_size=3)
DTYPES = st.sampled_from([torch.int32, torch.int64])


def of_device(num_nodes, dense_limit, pool):
    relabeler = ops.relabeler(num_nodes, dense_limit=dense_limit, pool=pool)
    assert isinstance(relabeler, DeviceRelabeler)
    return relabeler


def check_batch(relabeler, expected, pool, seeds, additions):
    relabeler.start(pool.put(seeds))
    expected.start(seeds)
    assert relabeler.count == expected.count == len(seeds)
    for ids in additions:
        begin, there = expected.count, pool.put(ids)
        assert torch.equal(relabeler.add(there).cpu(), expected.add(ids))
        near = torch.cat([ids.long(), (ids + 1) % relabeler._num_nodes])  # some known, some not
        assert torch.equal(relabeler.find(pool.put(near)).cpu(), expected.find(near))
        assert relabeler.count == expected.count
        assert torch.equal(relabeler.nodes(begin).cpu(), expected.nodes(begin))
    assert torch.equal(relabeler.nodes().cpu(), expected.nodes())
    pool.check()


@BOTH
@settings(max_examples=12)
@given(batches=BATCHES, dtype=DTYPES, dtype_added=DTYPES)
def test_equals_the_reference_over_many_batches(dense_limit, batches, dtype, dtype_added):
    pool = any_pool()
    relabeler, expected = of_device(NUM_NODES, dense_limit, pool), reference_relabel.Relabeler(NUM_NODES)
    for seeds, additions in batches:
        added = [torch.tensor(ids, dtype=dtype_added) for ids in additions]
        check_batch(relabeler, expected, pool, torch.tensor(seeds, dtype=dtype), added)


@BOTH
def test_tables_grow_between_and_within_batches(dense_limit):
    """More ids than a new hash table has slots, as seeds and as what is added, then small batches again."""
    pool, num_nodes = any_pool(), 5000
    relabeler = of_device(num_nodes, num_nodes if dense_limit else 0, pool)
    expected = reference_relabel.Relabeler(num_nodes)
    generator = torch.Generator().manual_seed(0)
    for num_seeds, num_added in ((3, 1500), (1, 2), (2000, 600), (0, 5)):
        seeds, *added = (torch.randint(0, num_nodes, (n,), generator=generator) for n in (num_seeds, num_added, num_added))
        check_batch(relabeler, expected, pool, seeds, added)


def test_hash_table_takes_any_id():
    """Ids beyond 2**32, as of trees, and ids that all begin their search in the same few slots."""
    pool, num_nodes = any_pool(), 2**62
    relabeler, expected = of_device(num_nodes, 0, pool), reference_relabel.Relabeler(num_nodes)
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    crowded = [v for v in ((slot * inverse) % 2**64 for slot in range(500)) if v < num_nodes]
    assert len(crowded) > 100
    for ids in (crowded, [0, 2**62 - 1, 2**32, 2**32 + 1, 0], crowded[::-1]):
        check_batch(relabeler, expected, pool, torch.tensor(ids[:50]), [torch.tensor(ids), torch.tensor(ids[::2])])


@BOTH
def test_the_host_waits_once_for_all_that_was_added(dense_limit):
    pool = any_pool(Counters())
    tables = [of_device(NUM_NODES, dense_limit, pool) for _ in range(3)]
    for table in tables:
        table.start(pool.put(torch.tensor([5, 5])))
        table.add(pool.put(torch.tensor([5, 6, 6])))
        table.add(pool.put(torch.tensor([7, 6])))
        table.find(pool.put(torch.tensor([7])))
    assert "device_waits" not in pool.counters.snapshot()
    tables[0].settle(tables)
    assert [table.count for table in tables] == [4, 4, 4]
    assert pool.counters.snapshot()["device_waits"] == 1


@BOTH
@pytest.mark.parametrize("bad", [-1, NUM_NODES])
def test_ids_out_of_range_are_said_at_the_next_check_and_the_next_batch_is_right(dense_limit, bad):
    pool = any_pool()
    relabeler, expected = of_device(NUM_NODES, dense_limit, pool), reference_relabel.Relabeler(NUM_NODES)
    for call in (relabeler.start, relabeler.add, relabeler.find):
        call(pool.put(torch.tensor([3, bad, 4])))
        with pytest.raises(IdError, match=f"row {bad} is not there"):
            pool.check()
        check_batch(relabeler, expected, pool, torch.tensor([8, 3]), [torch.tensor([4, 3])])


def test_nodes_are_a_copy_and_results_go_where_they_are_wanted():
    pool = any_pool()
    relabeler = of_device(NUM_NODES, NUM_NODES, pool)
    relabeler.start(pool.put(torch.tensor([1, 2])))
    out, before = pool.empty((2, 3), torch.int64), relabeler.nodes()
    relabeler.add(pool.put(torch.tensor([2, 9, 1])), out=out[1])
    relabeler.start(pool.put(torch.tensor([3, 4])))
    assert before.cpu().tolist() == [1, 2]
    assert out[1].cpu().tolist() == [1, 2, 0]


def test_nothing_can_be_numbered_and_less_is_refused():
    pool = any_pool()
    relabeler = of_device(0, 10, pool)
    relabeler.start(pool.empty((0,), torch.int64))
    relabeler.add(pool.empty((0,), torch.int64))
    assert relabeler.nodes().cpu().tolist() == []
    with pytest.raises(InputError, match="num_nodes=-1"):
        ops.relabeler(-1, pool=pool)
