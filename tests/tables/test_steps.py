"""Steps of an optimiser whose ranks share them: whole, once, in order, or not at all."""

import signal
from concurrent.futures import Future

import pytest
import torch

from halohop.errors import ClusterError, DeadlineExceededError, HalohopError, InputError, SchemaError
from halohop.tables.change_messages import ApplyRequest, TrainRequest
from halohop.tables.messages import DropTableRequest, ListTablesRequest
from halohop.tables.rule_spec import RuleSpec
from tests.support.deadlines import within
from tests.support.tables import SGD, Client, Ranks, ask, make, owner_of, read, share, spec_of


@pytest.fixture
def owner():
    owner = owner_of()
    make(owner, spec_of())
    yield owner
    owner.close()


@pytest.fixture
def halves():
    owners = owner_of(0), owner_of(1)
    for one in owners:
        make(one, spec_of())
    yield owners
    for one in owners:
        one.close()


def later(owner, request):
    """The future of a request that waits."""
    reply = owner.answer(request)
    assert isinstance(reply, Future)
    return reply


def taken(future, seconds=10.0):
    """What a future has come to: "applied", "whole", or the error."""
    try:
        changed = future.result(seconds)
    except HalohopError as error:
        return error
    return "applied" if changed.applied else "whole"


def test_a_step_waits_for_all_ranks_and_is_applied_once(owner):
    ranks = Ranks([owner], 3)
    first = later(owner, ranks.step(2, 0, share([1, 1], 1.0)))
    again = later(owner, ranks.step(2, 0, share([1, 1], 1.0)))
    second = later(owner, ranks.step(0, 0, share([1, 5], 2.0)))
    assert not first.done()
    assert not read(owner).any()
    third = ask(owner, ranks.step(1, 0, share([], 0.0)))
    assert (first.result(10).new, again.result(10).new, second.result(10).new, third.new) == (True, False, True, True)
    assert third.applied
    assert third.steps == {"x": 1}
    assert read(owner, gid=[0, 1, 5]).tolist() == [[0, 0], [-4, -4], [-2, -2]]
    late = ask(owner, ranks.step(1, 0, share([], 0.0)))
    assert (late.new, late.applied, late.steps) == (False, True, {"x": 1})
    assert read(owner, gid=[1]).tolist() == [[-4, -4]]
    assert owner.statistics()["pending_changes"] == 0


def test_of_several_owners_none_applies_before_it_is_asked(halves):
    ranks = Ranks(halves, 2)
    parts = ([1], [5])
    waiting = [later(owner, ranks.step(0, 0, share(gid, 1.0), alone=False)) for owner, gid in zip(halves, parts, strict=True)]
    with pytest.raises(ClusterError, match=r"step of optimizer 'adam', number 0 .*not all shares"):
        ask(halves[0], ranks.apply(0, 0))
    for owner in halves:
        assert taken(later(owner, ranks.step(1, 0, share([], 0.0), alone=False))) == "whole"
    assert [taken(future) for future in waiting] == ["whole", "whole"]
    assert not read(halves[0], gid=[1]).any()
    for owner, gid in zip(halves, parts, strict=True):
        for rank in (1, 0, 1):
            assert ask(owner, ranks.apply(rank, 0)).steps == {"x": 1}
        assert read(owner, gid=gid).tolist() == [[-1, -1]]
    changed = ask(halves[0], ranks.step(0, 0, share([1], 1.0), alone=False))
    assert (changed.new, changed.applied) == (False, True)


def test_ranks_are_averaged_and_duplicates_too():
    owner = owner_of()
    try:
        for name, rule in {"mean": RuleSpec(kind="sgd"), "dgl": RuleSpec(kind="sgd", ranks="sum", duplicates="mean")}.items():
            make(owner, spec_of(name))
            ranks = Ranks([owner], 2, group=name, rules={name: rule})
            later(owner, ranks.step(0, 0, share([1, 1, 2], [[1, 1], [3, 3], [1, 1]], name=name)))
            ask(owner, ranks.step(1, 0, share([1], 8.0, name=name)))
        assert read(owner, "mean", gid=[1, 2]).tolist() == [[-6, -6], [-0.5, -0.5]]
        assert read(owner, "dgl", gid=[1, 2]).tolist() == [[-4, -4], [-1, -1]]
    finally:
        owner.close()


def test_the_norm_is_of_all_gradients_after_they_were_put_together(owner):
    make(owner, spec_of("y"))
    ranks = Ranks([owner], 2, rules=dict.fromkeys("xy", RuleSpec(kind="sgd")))
    waiting = later(owner, ranks.step(0, 0, share([1], 2.0), share([3], 4.0, name="y"), alone=False, norm=True))
    changed = ask(owner, ranks.step(1, 0, share([1], 4.0), share([], 0.0, name="y"), alone=False, norm=True))
    assert changed.square == waiting.result(10).square == 2 * 3.0**2 + 2 * 2.0**2
    assert ask(owner, ranks.apply(1, 0, scale=0.5)).steps == {"x": 1, "y": 1}
    assert ask(owner, ranks.apply(0, 0, scale=0.25)).steps == {"x": 1, "y": 1}
    assert read(owner, gid=[1]).tolist() == [[-1.5, -1.5]]
    assert read(owner, "y", gid=[3]).tolist() == [[-1, -1]]


def test_steps_that_arrive_in_another_order_are_applied_in_theirs(owner):
    """With Adagrad the order is seen in the rows."""
    rules = {"x": RuleSpec(kind="adagrad", ranks="sum")}
    make(owner, spec_of("y"))
    straight, mixed = (Ranks([owner], 2, group=name, rules={name: rules["x"]}) for name in ("x", "y"))
    grads = [1.0, 100.0, 7.0]
    for index, grad in enumerate(grads):
        later(owner, straight.step(0, index, share([1], grad)))
        ask(owner, straight.step(1, index, share([1], grad)))
    events = [(1, 2), (0, 1), (1, 1), (0, 2), (0, 0), (1, 0)]
    waiting = [later(owner, mixed.step(rank, index, share([1], grads[index], name="y"))) for rank, index in events]
    assert [taken(future) for future in waiting] == ["applied"] * 6
    assert torch.equal(read(owner), read(owner, "y"))


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "with others"])
def test_a_rank_that_does_not_come_is_named_and_nothing_is_kept(owner, alone):
    ranks = Ranks([owner], 3)
    waiting = [later(owner, ranks.step(1, 0, share([1], 1.0), alone=alone, seconds=0.2)) for _ in range(2)]
    for future in waiting:
        error = taken(future, within(5.0))
        assert isinstance(error, DeadlineExceededError)
        assert "ranks 0, 2 have not sent a share of step of optimizer 'adam', number 0 within 0.2 s" in str(error)
    with pytest.raises(DeadlineExceededError, match="ranks 0, 2"):
        ask(owner, ranks.step(0, 0, share([1], 1.0), alone=alone))
    assert owner.statistics()["pending_changes"] == 0
    assert not read(owner).any()
    for rank in range(3):
        future = later(owner, ranks.step(rank, 1, share([1], 1.0)))
    assert taken(future) == "applied"
    assert read(owner, gid=[1]).tolist() == [[-3, -3]]


def test_a_step_of_which_the_one_before_is_unknown_has_its_turn_in_the_end(owner):
    ranks = Ranks([owner], 1)
    waiting = [later(owner, ranks.step(0, index, share([1], 1.0), seconds=seconds)) for index, seconds in ((3, 60.0), (2, 0.2))]
    assert [taken(future, within(5.0)) for future in waiting] == ["applied", "applied"]
    with pytest.raises(DeadlineExceededError, match=r"no share of .*number 1 has come, and one that follows it has waited 0.2 s"):
        ask(owner, ranks.step(0, 1, share([1], 1.0)))
    assert taken(later(owner, ranks.step(0, 4, share([1], 1.0)))) == "applied"
    assert read(owner, gid=[1]).tolist() == [[-3, -3]]


def test_a_step_after_one_that_waits_says_so(owner):
    ranks = Ranks([owner], 2)
    first = later(owner, ranks.step(0, 0, share([1], 1.0)))
    second = [later(owner, ranks.step(rank, 1, share([1], 1.0), seconds=0.2)) for rank in range(2)]
    for future in second:
        error = taken(future, within(5.0))
        assert isinstance(error, DeadlineExceededError)
        assert "number 1 was not applied within 0.2 s: it comes after step of optimizer 'adam', number 0" in str(error)
    assert taken(later(owner, ranks.step(1, 0, share([1], 1.0)))) == taken(first) == "applied"
    for rank in range(2):
        future = later(owner, ranks.step(rank, 2, share([1], 1.0)))
    assert taken(future) == "applied"
    assert read(owner, gid=[1]).tolist() == [[-4, -4]]


def refusals():
    nan = [[1.0, float("nan")], [0.0, 1.0], [float("inf"), 0.0]]
    yield [share([4, 5, 6], nan)], InputError, r"gradients of 2 rows of table 'x' are not finite \(rows 4, 6\)"
    yield [share([1], 1.0, dtype=torch.float64)], InputError, "float64"
    yield [share([10], 1.0)], InputError, "10"
    yield [share([1], 1.0, name="y")], InputError, "not trained by optimizer 'adam'"
    yield [share([1], 1.0, name="z")], SchemaError, "no table 'z'"
    yield (
        [share([1], 1.0, lr=0.5)],
        InputError,
        r"learning rates of table 'x' differ between ranks \(1.0 at rank 0, 0.5 at rank 1\)",
    )


@pytest.mark.parametrize(("shares", "kind", "match"), list(refusals()))
@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_a_share_that_is_refused_ends_the_step_for_all_ranks(owner, shares, kind, match, first):
    make(owner, spec_of("y"))
    ranks = Ranks([owner], 2)
    good, bad = ranks.step(0, 0, share([1], 1.0)), ranks.step(1, 0, *shares)
    outcomes = {}
    for request in (bad, good) if first else (good, bad):
        try:
            outcomes[request.moment.rank] = owner.answer(request)
        except HalohopError as error:
            outcomes[request.moment.rank] = error
    errors = [taken(outcome) if isinstance(outcome, Future) else outcome for _, outcome in sorted(outcomes.items())]
    for error in errors:
        with pytest.raises((ClusterError, kind), match=match):
            raise error
    assert not read(owner).any()
    assert owner.statistics()["pending_changes"] == 0
    waiting = later(owner, ranks.step(0, 1, share([1], 1.0)))
    ask(owner, ranks.step(1, 1, share([1], 1.0)))
    assert taken(waiting) == "applied"
    assert read(owner, gid=[1]).tolist() == [[-2, -2]]


def test_an_aborted_step_is_over_for_all_and_the_next_one_goes_on(halves):
    ranks = Ranks(halves, 2)
    waiting = later(halves[0], ranks.step(0, 0, share([1], 1.0), alone=False))
    ask(halves[0], ranks.abort(1, 0, "its batch is broken"))
    ask(halves[0], ranks.abort(1, 0, "its batch is broken"))
    ask(halves[1], ranks.abort(1, 0, "its batch is broken"))
    match = "number 0 was aborted by rank 1 of 2: its batch is broken"
    with pytest.raises(ClusterError, match=match):
        waiting.result(10)
    for owner in halves:
        with pytest.raises(ClusterError, match=match):
            ask(owner, ranks.step(0, 0, share([], 1.0), alone=False))
        with pytest.raises(ClusterError, match=match):
            ask(owner, ranks.apply(0, 0))
        for rank in range(2):
            future = later(owner, ranks.step(rank, 1, share([], 1.0), alone=False))
        assert taken(future) == "whole"
        assert ask(owner, ranks.apply(0, 1)).steps == {"x": 1}
        with pytest.raises(ClusterError, match="cannot be aborted: it was applied"):
            ask(owner, ranks.abort(1, 1))


def test_a_rank_that_has_left_its_round_is_not_waited_for(owner):
    ranks = Ranks([owner], 3)
    ask(owner, ranks.leave(2, 0))
    ask(owner, ranks.leave(2, 0))
    zero = later(owner, ranks.step(0, 0, share([1], 1.0)))
    assert taken(later(owner, ranks.step(1, 0, share([1], 1.0)))) == taken(zero) == "applied"
    waiting = later(owner, ranks.step(0, 1, share([1], 1.0)))
    ask(owner, ranks.leave(1, 1))
    assert taken(waiting) == "applied"
    with pytest.raises(ClusterError, match="rank 1 has left its round before"):
        ask(owner, ranks.step(1, 1, share([1], 1.0)))
    with pytest.raises(ClusterError, match="rank 1 leaves round 0 at step 2, and has left it at step 1"):
        ask(owner, ranks.leave(1, 2))
    early = later(owner, ranks.step(2, 0, share([1], 1.0), round_=1))  # its next round; others have not ended this one
    alone = later(owner, ranks.step(0, 2, share([1], 1.0)))
    assert taken(alone) == "applied"
    ask(owner, ranks.leave(0, 3))
    waiting = later(owner, ranks.step(1, 0, share([1], 1.0), round_=1))
    assert not early.done()
    ask(owner, ranks.step(0, 0, share([1], 1.0), round_=1))
    assert taken(early) == taken(waiting) == "applied"
    assert read(owner, gid=[1]).tolist() == [[-7, -7]]
    ask(owner, ranks.leave(0, 3))  # of a round that is over


def test_a_round_ends_after_the_steps_that_come_later_than_the_leave(owner):
    ranks = Ranks([owner], 2)
    for rank in range(2):
        ask(owner, ranks.leave(rank, 1))
    waiting = later(owner, ranks.step(0, 0, share([1], 1.0)))
    assert not waiting.done()
    assert taken(later(owner, ranks.step(1, 0, share([1], 1.0)))) == taken(waiting) == "applied"
    assert read(owner, gid=[1]).tolist() == [[-2, -2]]


def test_a_rank_cannot_leave_before_what_it_has_sent(owner):
    ranks = Ranks([owner], 2)
    later(owner, ranks.step(0, 1, share([1], 1.0)))
    with pytest.raises(ClusterError, match=r"rank 0 leaves at .*number 0, and has sent .*number 1"):
        ask(owner, ranks.leave(0, 0))


def test_later_processes_take_the_place_of_those_before(owner):
    old = Ranks([owner], 2)
    again = Ranks([owner], 2)  # the same processes ask again
    assert again.session == old.session
    waiting = later(owner, old.step(0, 0, share([1], 1.0)))
    new = Ranks([owner], 2, sender="later")
    assert new.session != old.session
    with pytest.raises(ClusterError, match="other processes have begun to train with optimizer 'adam'"):
        waiting.result(10)
    for request in (old.step(1, 0, share([1], 1.0)), old.apply(0, 0), old.leave(0, 0), old.abort(0, 0)):
        with pytest.raises(ClusterError, match="begin again, from the last checkpoint"):
            ask(owner, request)
    with pytest.raises(ClusterError, match="begin again"):
        Ranks([owner], 2)  # rank 0 had made a step
    waiting = later(owner, new.step(0, 0, share([1], 1.0)))
    ask(owner, new.step(1, 0, share([1], 1.0)))
    assert taken(waiting) == "applied"
    assert read(owner, gid=[1]).tolist() == [[-2, -2]]
    more = Ranks([owner], 3, sender="larger")
    assert more.session != new.session


def test_a_process_that_came_too_early_may_ask_again(owner):
    """Rank 1 of new processes joins the session of the old ones, before rank 0 comes and begins another."""
    Ranks([owner], 2, sender="old")
    early = Ranks([], 2)
    early.owners = [owner]
    for sender, rank in (("new 1", 1), ("new 0", 0), ("new 1", 1)):
        early.session = ""
        training = ask(owner, TrainRequest(moment=early.moment(rank, 0), rules={"x": SGD}, sender=sender))
    early.session = training.session
    waiting = later(owner, early.step(0, 0, share([1], 1.0)))
    ask(owner, early.step(1, 0, share([1], 1.0)))
    assert taken(waiting) == "applied"


def test_all_owners_follow_the_session_of_the_first(halves):
    old = Ranks(halves, 1)
    new = Ranks(halves, 1, sender="later")
    with pytest.raises(ClusterError, match="begin again"):
        ask(halves[1], old.step(0, 0, share([5], 1.0)))
    old_again = Ranks([], 1)
    old_again.session = old.session
    with pytest.raises(ClusterError, match="begin again"):
        ask(halves[1], TrainRequest(moment=old_again.moment(0, 0), rules={"x": SGD}, sender="job 0"))
    assert taken(later(halves[1], new.step(0, 0, share([5], 1.0)))) == "applied"


def test_an_owner_that_was_started_again_says_so(owner):
    ranks = Ranks([owner], 1)
    empty = owner_of()
    try:
        make(empty, spec_of())
        with pytest.raises(ClusterError, match=r"no optimizer 'adam' is here: .*the owner was started again"):
            ask(empty, ranks.step(0, 5, share([1], 1.0)))
    finally:
        empty.close()


def test_a_table_that_is_dropped_ends_its_steps_and_its_optimizer(owner):
    make(owner, spec_of("y"))
    ranks = Ranks([owner], 2, rules=dict.fromkeys("xy", SGD))
    waiting = later(owner, ranks.step(0, 0, share([1], 1.0), share([1], 1.0, name="y")))
    ask(owner, DropTableRequest(name="y"))
    with pytest.raises(ClusterError, match="table 'y' was dropped"):
        waiting.result(10)
    waiting = later(owner, ranks.step(0, 1, share([1], 1.0)))
    ask(owner, ranks.step(1, 1, share([1], 1.0)))
    assert taken(waiting) == "applied"
    whole = [later(owner, ranks.step(rank, 2, share([1], 1.0), alone=False)) for rank in range(2)]
    assert [taken(future) for future in whole] == ["whole", "whole"]
    ask(owner, DropTableRequest(name="x"))
    with pytest.raises(ClusterError, match="no optimizer 'adam' is here"):
        ask(owner, ranks.apply(0, 2))
    make(owner, spec_of())
    assert ask(owner, ListTablesRequest()).tables[0].optimizer == ""
    Ranks([owner], 1, group="other")


def test_a_write_whose_table_was_dropped_before_it_was_applied(halves):
    client = Client()
    request = client.request("write", share([1], 1.0), alone=False, index=0)
    assert not ask(halves[0], request).applied
    ask(halves[0], DropTableRequest(name="x"))
    make(halves[0], spec_of())
    with pytest.raises(ClusterError, match="not all shares of it are here"):
        ask(halves[0], ApplyRequest(moment=request.moment))
    assert not read(halves[0], gid=[1]).any()


def test_a_change_that_fails_half_way_leaves_no_table_that_can_be_read(owner, monkeypatch):
    make(owner, spec_of("y"))
    ranks = Ranks([owner], 1, rules=dict.fromkeys("xy", SGD))
    table = owner.catalog.get("y")

    def fail(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr(table.rule, "apply", fail)
    with pytest.raises(ClusterError, match="a change of tables failed: MemoryError: no room"):
        ask(owner, ranks.step(0, 0, share([1], 1.0), share([1], 1.0, name="y")))
    for name in "xy":
        with pytest.raises(ClusterError, match=f"table '{name}' cannot be used: a change of it failed half-way"):
            read(owner, name)
    ask(owner, DropTableRequest(name="x"))
    make(owner, spec_of())
    assert not read(owner).any()


def test_an_interrupted_change_holds_up_no_later_one(owner, monkeypatch):
    make(owner, spec_of("y"))
    ranks = Ranks([owner], 1, rules=dict.fromkeys("xy", SGD))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(owner.catalog.get("y").rule, "apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        owner.answer(ranks.step(0, 0, share([1], 1.0, name="y")))
    with pytest.raises(ClusterError, match="table 'y' cannot be used: a change of it failed half-way"):
        read(owner, "y")
    assert ask(owner, ranks.step(0, 1, share([1], 1.0), seconds=0.2)).applied


@pytest.mark.parametrize(("dtype", "most"), [("float32", 3e38), ("float16", 3e38), ("float64", 1.5e308)])
@pytest.mark.parametrize("duplicates", ["sum", "mean"])
def test_finite_gradients_whose_sum_is_not_are_refused_by_row(owner, dtype, most, duplicates):
    real = torch.float64 if dtype == "float64" else torch.float32
    make(owner, spec_of("y", dtype=dtype))
    ranks = Ranks([owner], 2, rules={"y": RuleSpec(kind="sgd", duplicates=duplicates)}, group="sgd")
    waiting = later(owner, ranks.step(0, 0, share([4, 6], [[1, most], [most, 1]], name="y", dtype=real)))
    with pytest.raises(InputError, match=r"sums of finite gradients of 1 rows of table 'y' are not finite \(rows 6\)"):
        ask(owner, ranks.step(1, 0, share([6, 4], [[most, 1], [1, -most]], name="y", dtype=real)))
    assert isinstance(taken(waiting), InputError)
    assert not read(owner, "y").any()
    later(owner, ranks.step(0, 1, share([4], 1.0, name="y", dtype=real)))
    assert ask(owner, ranks.step(1, 1, share([], 0.0, name="y", dtype=real))).applied


def test_sums_of_ordinary_gradients_are_not_looked_at_again(owner, monkeypatch):
    def looked_at(*_):
        raise AssertionError("looked at")

    monkeypatch.setattr("halohop.tables.plan.require_finite", looked_at)
    ranks = Ranks([owner], 2)
    later(owner, ranks.step(0, 0, share([4] * 1000, 1e29)))
    assert ask(owner, ranks.step(1, 0, share([4], 1e29))).applied


@pytest.mark.parametrize("others", [0, 1])
def test_ctrl_c_comes_after_the_step_that_it_would_have_cut(owner, monkeypatch, others):
    ranks = Ranks([owner], 1 + others)
    for rank in range(others):
        later(owner, ranks.step(1 + rank, 0, share([1], 1.0)))
    rule = owner.catalog.get("x").rule
    apply = rule.apply

    def interrupted(*given, **numbers):
        signal.raise_signal(signal.SIGINT)
        apply(*given, **numbers)

    monkeypatch.setattr(rule, "apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        owner.answer(ranks.step(0, 0, share([1], 1.0)))
    monkeypatch.setattr(rule, "apply", apply)
    assert read(owner, gid=[1]).tolist() == [[-1 - others, -1 - others]]
    assert owner.statistics()["pending_changes"] == 0


def test_ranks_that_ask_for_different_things_are_told_apart(owner):
    ranks = Ranks([owner], 2)
    waiting = later(owner, ranks.step(0, 0, share([1], 1.0)))
    with pytest.raises(
        ClusterError, match="rank 0 way='step', alone=True, norm=False, max_norm=0; rank 1 way='step', alone=False"
    ):
        ask(owner, ranks.step(1, 0, share([1], 1.0), alone=False))
    assert isinstance(taken(waiting), ClusterError)
    ranks.size = 3
    with pytest.raises(ClusterError, match="trained by 2 ranks, not by 3"):
        ask(owner, ranks.step(0, 1, share([1], 1.0)))


def test_shares_of_ranks_that_are_not_heard_of_are_forgotten(owner):
    ranks = Ranks([owner], 2)
    for rank in range(2):
        future = later(owner, ranks.step(rank, 0, share([1], 1.0), alone=False))
    assert taken(future) == "whole"
    client = Client()
    ask(owner, client.request("write", share([1], 1.0), alone=False))
    owner.sweep(1000.0)
    assert owner.statistics()["pending_changes"] == 2
    owner.sweep(-120.0)
    assert owner.statistics()["pending_changes"] == 0
    assert owner.statistics()["kept_senders"] == 0
