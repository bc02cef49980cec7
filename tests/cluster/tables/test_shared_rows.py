"""Rows of tables that are read in the memory of their owner: as of one moment, whatever is written meanwhile."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from halohop import ops
from halohop.cluster.tables.shared_rows import SharedRows
from halohop.tables.messages import DropTableRequest
from halohop.tables.owner import Owner
from halohop.tables.spec import Beginning
from halohop.telemetry import Counters
from tests.support.tables import BOOK, Client, ask, make, owner_of, part_of, read, share, spec_of

GID = torch.tensor([9, 0, 4, 3, 9])
RANDOM = Beginning(kind="uniform", low=-1.0, high=1.0, seed=5)


@pytest.fixture
def owner() -> Iterator[Owner]:
    made = owner_of(0, 1)
    yield made
    made.close()


def reader(owner, spec, parts=None) -> SharedRows:
    rows = SharedRows(BOOK, parts or {}, ops.Pool(), Counters())
    rows.know(spec, make(owner, spec).shared)
    return rows


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64"])
def test_the_rows_are_those_that_the_owner_answers(owner, dtype):
    spec = spec_of(dtype=dtype)
    rows = reader(owner, spec)
    Client().put(owner, "write", share([0, 9, 4], torch.tensor([[1, 0], [0, 1], [1, 1]]), dtype=spec.torch_dtype))
    taken = rows.take(spec, GID)
    assert taken is not None
    assert torch.equal(taken.rows, read(owner, gid=GID.tolist()))
    assert len(taken.missing) == 0


def test_rows_land_where_the_reader_wants_them(owner):
    spec = spec_of(begin=RANDOM)
    rows = reader(owner, spec, {1: part_of(1)})
    Client().put(owner, "write", share([3], 7.0))
    positions, out = torch.arange(len(GID)).flip(0) * 2 + 1, torch.full((2 * len(GID) + 1, *spec.shape), -1.0)
    taken = rows.take(spec, GID, out, positions)
    assert taken is not None
    assert taken.rows is out
    there = [place for place in range(len(GID)) if place not in taken.missing.tolist()]
    assert torch.equal(out[positions[there]], read(owner, gid=GID.tolist())[there])
    rest = torch.ones(len(out), dtype=torch.bool).index_fill_(0, positions, False)
    assert bool((out[rest] == -1.0).all())


def test_beginnings_are_computed_where_the_partition_is_and_are_missing_elsewhere(owner):
    spec = spec_of(begin=RANDOM)
    knows = reader(owner, spec, {number: part_of(number) for number in (0, 1)})
    not_all = reader(owner, spec, {1: part_of(1)})
    Client().put(owner, "write", share([3], 7.0))
    expected = read(owner, gid=GID.tolist())
    whole, some = knows.take(spec, GID), not_all.take(spec, GID)
    assert whole is not None
    assert some is not None
    assert torch.equal(whole.rows, expected)
    assert some.missing.tolist() == [1]  # gid 0 was never written, and lies in partition 0
    rest = torch.tensor([0, 2, 3, 4])
    assert torch.equal(some.rows[rest], expected[rest])


def test_rows_of_their_own_begin_alike_without_any_partition(owner):
    spec = replace(spec_of(begin=RANDOM), key=None)
    taken = reader(owner, spec).take(spec, GID)
    assert taken is not None
    assert torch.equal(taken.rows, read(owner, gid=GID.tolist()))


def test_a_read_is_of_one_moment_while_rows_are_written(owner):
    """The rows of two partitions are always alike, as each write makes them."""
    spec = spec_of(shape=(2,))
    rows, client = reader(owner, spec), Client()
    stop = threading.Event()

    def write() -> None:
        value = 0.0
        while not stop.is_set():
            value += 1
            client.put(owner, "write", share(list(range(10)), value))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = []
        while len(seen) < 150:
            taken = rows.take(spec, torch.arange(10))
            if taken is not None:
                seen.append(taken.rows.unique().tolist())
    finally:
        stop.set()
        writer.join()
    assert {len(one) for one in seen} == {1}
    assert len({one[0] for one in seen}) > 3


def test_a_table_that_is_being_written_or_is_gone_is_left_to_the_network(owner):
    spec = spec_of()
    rows = reader(owner, spec)
    table = owner.catalog.get("x")
    assert rows.take(spec, GID) is not None
    with table.lock, table.changing():
        assert rows.take(spec, GID) is None
    assert rows.take(spec, GID) is not None
    ask(owner, DropTableRequest(name="x"))
    assert rows.take(spec, GID) is None


def test_a_table_that_was_made_anew_is_not_taken_for_the_old_one(owner):
    spec = spec_of()
    rows = reader(owner, spec)
    Client().put(owner, "write", share([9], 5.0))
    assert rows.take(spec, GID) is not None
    ask(owner, DropTableRequest(name="x"))
    made = make(owner, spec)
    assert rows.take(spec, GID) is None
    rows.know(spec, made.shared)
    taken = rows.take(spec, GID)
    assert taken is not None
    assert not taken.rows.any()


def test_memory_of_another_machine_is_not_looked_for(owner):
    spec = spec_of()
    rows = SharedRows(BOOK, {}, ops.Pool(), Counters())
    rows.know(spec, tuple(replace(one, system="another") for one in make(owner, spec).shared))
    assert rows.take(spec, GID) is None
