"""The owner of tables: rows are made, read, written and trained, and what cannot be is refused by name."""

import threading
from concurrent.futures import Future
from dataclasses import replace

import pytest
import torch

from halohop.errors import ClusterError, DeadlineExceededError, IdError, InputError, SchemaError
from halohop.tables.change_messages import AbortRequest, ApplyRequest, LeaveRequest, TrainRequest
from halohop.tables.messages import (
    DropTableRequest,
    FilledRequest,
    ListTablesRequest,
    ReadRowsRequest,
    TableQuery,
)
from halohop.tables.rule_spec import RuleSpec
from halohop.tables.spec import Beginning
from tests.support.deadlines import within
from tests.support.tables import SGD, Client, Ranks, ask, make, owner_of, read, share, spec_of


@pytest.fixture
def owner():
    owner = owner_of()
    yield owner
    owner.close()


def test_a_table_is_made_once_and_found_again(owner):
    made = make(owner, spec_of())
    assert made.fills == ()
    assert made.owner == owner.name
    assert {place.part for place in made.shared} <= {0, 1}
    Client().put(owner, "write", share([3, 4], [[1.0, 2.0], [3.0, 4.0]]))
    make(owner, spec_of(), sender="another")
    assert read(owner, gid=[3, 4, 5]).tolist() == [[1, 2], [3, 4], [0, 0]]
    with pytest.raises(InputError, match=r"table 'x' is here as .*float32.*, not as .*float64"):
        make(owner, spec_of(dtype="float64"))


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        (spec_of(name=""), "no name of a table"),
        (spec_of(name="a\nb"), "no name of a table"),
        (spec_of(dtype="float31"), "float31"),
        (spec_of(shape=(-1,)), "negative"),
        (spec_of(begin=Beginning(kind="column", name="y")), "column 'y' of 'node'"),
        (spec_of(storage="disk"), "folder"),
    ],
)
def test_a_table_that_cannot_be_is_refused_and_not_kept(owner, spec, match):
    with pytest.raises(InputError, match=match):
        make(owner, spec)
    assert ask(owner, ListTablesRequest()).tables == ()


def test_the_same_rows_begin_alike_in_any_division():
    spec = spec_of(begin=Beginning(kind="normal", low=0.0, high=1.0, seed=7))
    whole, halves = owner_of(), (owner_of(0), owner_of(1))
    try:
        for one in (whole, *halves):
            make(one, spec)
        rows = read(whole)
        assert torch.equal(rows, torch.cat([read(halves[0], gid=range(4)), read(halves[1], gid=range(4, 10))]))
        assert len(rows.unique()) == 20
        assert torch.equal(read(whole, gid=[9, 0, 9]), rows[[9, 0, 9]])
    finally:
        for one in (whole, *halves):
            one.close()


def test_rows_begin_with_a_stored_column():
    column = torch.arange(20.0).view(10, 2)
    owner = owner_of(columns={"y": column})
    try:
        make(owner, spec_of(begin=Beginning(kind="column", name="y")))
        Client().put(owner, "add", share([2, 9], 1.0))
        expected = column.clone()
        expected[[2, 9]] += 1
        assert torch.equal(read(owner), expected)
        assert torch.equal(column, torch.arange(20.0).view(10, 2))
    finally:
        owner.close()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int64", "int8", "uint8", "complex64"])
def test_of_equal_rows_the_last_is_written_and_all_are_added(owner, dtype):
    make(owner, spec_of(dtype=dtype, begin=Beginning(low=5.0)))
    kind = getattr(torch, dtype)
    client = Client()
    client.put(owner, "write", share([1, 8, 1], [[1, 1], [2, 2], [3, 3]], dtype=kind))
    client.put(owner, "add", share([1, 7, 7], [[1, 1], [2, 2], [3, 3]], dtype=kind))
    assert read(owner, gid=[1, 8, 7, 0]).tolist() == [[4, 4], [2, 2], [10, 10], [5, 5]]


@pytest.mark.parametrize(
    ("way", "shares", "error", "match"),
    [
        ("write", [share([0, 10], 1.0)], IdError, "table 'x' has 10 rows: id 10"),
        ("write", [share([-1], 1.0)], IdError, "-1"),
        ("write", [share([0], 1.0, dtype=torch.float64)], InputError, "float64 .* do not fit table 'x'"),
        ("write", [share([0], [[1.0, 2.0, 3.0]])], InputError, "do not fit"),
        ("write", [share([0], 1.0, name="z")], SchemaError, "no table 'z' is here"),
        ("write", [share([0], 1.0), share([1], 1.0)], InputError, "occurs twice"),
        ("add", [share([0], 1.0), share([0], 1.0, name="flags", dtype=torch.float8_e4m3fn)], InputError, "cannot be added"),
        ("step", [share([0], 1.0)], InputError, "no moment of a 'step'"),
    ],
)
def test_a_write_that_fails_writes_nothing_and_may_be_tried_again(owner, way, shares, error, match):
    make(owner, spec_of())
    make(owner, spec_of(name="flags", dtype="float8_e4m3fn"))
    client = Client()
    with pytest.raises(error, match=match):
        ask(owner, client.request(way, *shares, index=0))
    assert not read(owner).any()
    assert not read(owner, "flags").float().any()
    assert ask(owner, client.request("write", share([0], 1.0), index=0)).new
    assert read(owner, gid=[0]).tolist() == [[1, 1]]


def test_rows_of_another_owner_are_refused_by_name():
    owner = owner_of(1)
    try:
        make(owner, spec_of())
        with pytest.raises(IdError, match="1 of 2 rows of table 'x' are not held here, row 2 among them"):
            Client().put(owner, "write", share([5, 2], 1.0))
        with pytest.raises(IdError, match="table 'x'"):
            read(owner, gid=[2])
    finally:
        owner.close()


def test_a_table_that_was_made_anew_is_not_taken_for_the_old_one(owner):
    make(owner, spec_of())
    digest = spec_of().digest
    ask(owner, DropTableRequest(name="x"))
    ask(owner, DropTableRequest(name="x"))
    with pytest.raises(SchemaError, match="no table 'x'"):
        read(owner)
    make(owner, spec_of(dtype="float64"))
    with pytest.raises(SchemaError, match="dropped and made anew"):
        ask(owner, ReadRowsRequest(queries=(TableQuery(name="x", gid=torch.tensor([0]), spec=digest),)))


def test_a_listing_says_what_trains_a_table(owner):
    make(owner, spec_of())
    make(owner, spec_of(name="a", dtype="int32"))
    ranks = Ranks([owner], 1, rules={"x": RuleSpec(kind="adagrad")})
    ask(owner, ranks.step(0, 0, share([1], 1.0)))
    first, second = ask(owner, ListTablesRequest()).tables
    assert (first.spec, first.steps, first.optimizer, first.state) == (spec_of(name="a", dtype="int32"), 0, "", {})
    assert (second.steps, second.optimizer, list(second.state.values())) == (1, "adam", [(2,)])
    assert second.num_bytes == 2 * first.num_bytes
    (name,) = second.state
    assert read(owner, state=name, gid=[0, 1]).tolist() == [[0, 0], [1, 1]]
    with pytest.raises(SchemaError, match="no state 'z'"):
        read(owner, state="z")


def test_rows_that_a_client_makes_are_waited_for(owner):
    spec = spec_of(begin=Beginning(kind="given", name="f"))
    assert make(owner, spec, sender="maker").fills == (0, 1)
    assert make(owner, spec, sender="maker").fills == (0, 1)  # asked again
    assert make(owner, spec, sender="other").fills == ()
    waiting = owner.answer(ReadRowsRequest(queries=(TableQuery(name="x", gid=torch.tensor([4])),)))
    writing = owner.answer(Client("other").request("write", share([5], 9.0)))
    assert isinstance(waiting, Future)
    assert isinstance(writing, Future)
    Client("maker").put(owner, "write", share(range(10), 3.0))
    assert not waiting.done()
    assert not writing.done()
    ask(owner, FilledRequest(name="x", parts=(0, 1), sender="maker"))
    assert waiting.result(10).rows[0].tolist() == [[3, 3]]
    assert writing.result(10).new
    assert read(owner, gid=[4, 5]).tolist() == [[3, 3], [9, 9]]
    assert make(owner, spec, sender="other").fills == ()


def test_rows_that_do_not_come_are_not_waited_for(owner):
    make(owner, spec_of(begin=Beginning(kind="given", name="f")), sender="maker")
    waiting = owner.answer(ReadRowsRequest(queries=(TableQuery(name="x", gid=torch.tensor([4])),)))
    ask(owner, DropTableRequest(name="x"))
    with pytest.raises(SchemaError, match="no table 'x'"):
        waiting.result(10)


def test_readers_see_no_half_of_a_change(owner):
    """Two tables and many rows are written together; what is read of one table is of one write."""
    spec = spec_of(shape=(64,), begin=Beginning(low=1.0))
    make(owner, spec)
    stop, seen = threading.Event(), []

    def look():
        while not stop.is_set():
            seen.append(read(owner, gid=[0, 3, 4, 9] * 50).unique())

    readers = [threading.Thread(target=look) for _ in range(2)]
    for thread in readers:
        thread.start()
    client = Client()
    for value in range(2, 200):
        rows = torch.full((10, 64), float(value))
        client.put(owner, "write", share(range(10), rows))
    stop.set()
    for thread in readers:
        thread.join()
    assert seen
    assert all(len(values) == 1 for values in seen)


def test_an_owner_that_has_ended_says_so(owner):
    make(owner, spec_of())
    ranks = Ranks([owner], 2)
    waiting = owner.answer(ranks.step(0, 0, share([1], 1.0)))
    owner.close()
    owner.close()
    with pytest.raises(ClusterError, match="has ended"):
        waiting.result(10)


def test_statistics_and_leases(owner):
    make(owner, spec_of())
    Client().put(owner, "write", share([1], 1.0))
    ranks = Ranks([owner], 2)
    waiting = owner.answer(ranks.step(0, 0, share([1], 1.0)))
    found = owner.statistics()
    assert (found["tables"], found["table_bytes"], found["kept_senders"], found["pending_changes"]) == (1, 80, 1, 1)
    owner.sweep(1000.0)
    assert owner.statistics()["kept_senders"] == 1
    assert not waiting.done()


def test_one_table_has_one_optimizer(owner):
    make(owner, spec_of())
    make(owner, spec_of(name="y"))
    make(owner, spec_of(name="ids", dtype="int64"))
    Ranks([owner], 1)
    with pytest.raises(InputError, match="table 'x' is trained by optimizer 'adam', and cannot be trained by 'other'"):
        Ranks([owner], 1, group="other", rules={"y": SGD, "x": SGD})
    with pytest.raises(InputError, match=r"table 'x' is trained by .*sgd.*, not by .*adagrad"):
        Ranks([owner], 1, rules={"x": RuleSpec(kind="adagrad")})
    with pytest.raises(InputError, match="int64 cannot be trained"):
        Ranks([owner], 1, group="other", rules={"ids": SGD})
    assert [table.optimizer for table in ask(owner, ListTablesRequest()).tables] == ["", "adam", ""]
    Ranks([owner], 1, group="other", rules={"y": SGD})


def test_a_client_that_makes_rows_and_is_silent_is_replaced(owner, monkeypatch):
    monkeypatch.setattr("halohop.tables.filling._IDLE_SECONDS", 0.2)
    spec = spec_of(begin=Beginning(kind="given", name="f"))
    make(owner, spec, sender="silent")
    waiting = owner.answer(ReadRowsRequest(queries=(TableQuery(name="x", gid=torch.tensor([4])),)))
    with pytest.raises(
        DeadlineExceededError, match=r"the client that makes them has written none for 0.2 s; make the table again"
    ):
        waiting.result(within(5.0))
    assert make(owner, spec, sender="other").fills == (0, 1)
    with pytest.raises(ClusterError, match="another client writes the rows of table 'x' now"):
        ask(owner, FilledRequest(name="x", parts=(0, 1), sender="silent"))
    Client("other").put(owner, "write", share(range(10), 3.0))
    ask(owner, FilledRequest(name="x", parts=(0, 1), sender="other"))
    assert read(owner, gid=[4]).tolist() == [[3, 3]]


def test_what_is_kept_for_steps_to_come_is_bounded(owner):
    """A peer that skips steps, or leaves rounds of which nobody has heard."""
    make(owner, spec_of())
    ranks = Ranks([owner], 2)
    moment = replace(ranks.step(0, 0, share([0], 1.0)).moment, index=70_000)
    far = "more than 65536 ahead of step of optimizer"
    for request in (
        replace(ranks.step(0, 0, share([0], 1.0)), moment=moment),
        ApplyRequest(moment=moment),
        AbortRequest(moment=moment, reason="none"),
        LeaveRequest(moment=replace(moment, round=70_000, index=0)),
    ):
        with pytest.raises(InputError, match=far):
            ask(owner, request)
    with pytest.raises(InputError, match="ranks are 0 to 1"):
        ask(owner, LeaveRequest(moment=replace(moment, rank=7, index=0)))


def test_a_repetition_from_a_long_round_that_is_over_is_not_far_ahead(owner):
    """An epoch may have more steps than are kept for the future."""
    make(owner, spec_of())
    moment = Ranks([owner], 2).step(0, 0, share([0], 1.0)).moment
    for rank in (0, 1):
        ask(owner, LeaveRequest(moment=replace(moment, rank=rank)))
    ask(owner, LeaveRequest(moment=replace(moment, rank=0, index=70_000)))


def test_an_optimizer_of_no_table_is_not_kept(owner):
    make(owner, spec_of())
    moment = replace(Ranks([owner], 1).step(0, 0, share([0], 1.0)).moment, group="of nothing", session="")
    with pytest.raises(InputError, match="name it, and a table at least"):
        ask(owner, TrainRequest(moment=moment, rules={}, sender="s"))


def test_clients_that_write_are_remembered_up_to_a_number(owner, monkeypatch):
    monkeypatch.setattr("halohop.tables.owner._MOST_CLIENTS", 2)
    make(owner, spec_of())
    first = Client("first")
    for client in (first, Client("second")):
        client.put(owner, "add", share([0], 1.0))
    with pytest.raises(ClusterError, match="2 clients have written to tables lately, the most that an owner remembers"):
        Client("third").put(owner, "add", share([0], 1.0))
    first.put(owner, "add", share([0], 1.0))
    assert read(owner, gid=[0]).tolist() == [[3.0, 3.0]]
