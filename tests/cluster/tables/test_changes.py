"""Changes of several owners: what happens at one of them happens at the others, or is refused by name."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import torch

import halohop
from halohop.cluster.tables.owners import TableHolder, TableOwners, holder_here
from halohop.cluster.tables.tables import Tables
from halohop.errors import ClusterError, DeadlineExceededError, InputError, PeerLostError
from halohop.tables.change_messages import AbortRequest, ApplyRequest, ChangeRequest, Moment, Share, TrainRequest
from halohop.tables.messages import TableRequest
from halohop.tables.owner import Owner
from halohop.tables.spec import TableSpec
from halohop.testing.graphs import ring
from halohop.testing.worlds import partitioned
from tests.support.tables import SGD

SPEC = TableSpec(name="x", key="node", num_rows=20, shape=(), dtype="float32")
GID = torch.arange(20)


class Unreliable:
    """An owner that loses what `loses` names, and notes what it was asked."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.loses: type = type(None)
        self.asked: list[TableRequest[Any]] = []

    def answer(self, request: TableRequest[Any]) -> Any:
        self.asked.append(request)
        if isinstance(request, self.loses):
            raise PeerLostError(f"{type(request).__name__}: peer 'server 1' went away")
        return self._owner.answer(request)

    def asked_for(self, kind: type) -> int:
        return sum(isinstance(request, kind) for request in self.asked)


@pytest.fixture
def world() -> Iterator[tuple[Tables, list[Unreliable]]]:
    graph = partitioned(ring(20), 2, shard_each=True)
    shards = graph._router._shards
    owners = [Unreliable(shard.owner) for shard in shards]  # type: ignore[attr-defined]
    holders = [holder_here(owner.answer, (number,), name=f"server {number}") for number, owner in enumerate(owners)]
    tables = Tables(graph, TableOwners(graph.book, holders), graph.pool, graph.counters)
    tables.make(SPEC)
    yield tables, owners
    graph.close()
    for shard in shards:
        shard.owner.close()  # type: ignore[attr-defined]


def trained(tables: Tables, *, ranks: int = 1) -> list[Moment]:
    """The first step of each rank."""
    moments = []
    session = ""
    for rank in range(ranks):
        moment = Moment(group="sgd", session="", rank=rank, size=ranks, round=0, index=0)
        for owner in range(tables.directory.num_owners):
            at = Moment(group="sgd", session=session if owner else "", rank=rank, size=ranks, round=0, index=0)
            request = TrainRequest(moment=at, rules={"x": SGD}, sender=f"rank {rank}")
            session = tables.directory.ask({owner: request})[owner].session
        moments.append(Moment(group="sgd", session=session, rank=rank, size=ranks, round=0, index=moment.index))
    return moments


def share(value: float = 1.0, gid: torch.Tensor = GID) -> Share:
    return Share(name="x", gid=gid, rows=torch.full((len(gid),), value), lr=1.0)


def test_a_step_reaches_all_owners_in_two_phases(world):
    tables, owners = world
    (moment,) = trained(tables)
    done = tables.change(moment, "step", [share(gid=torch.empty(0, dtype=torch.int64))], norm=True).apply()
    assert (done.steps, done.square) == ({"x": 1}, 0.0)
    assert [owner.asked_for(ApplyRequest) for owner in owners] == [1, 1]


def test_the_norm_is_that_of_all_owners_and_scales_at_all_of_them(world):
    tables, _ = world
    (moment,) = trained(tables)
    asked: list[float] = []

    def half(square: float) -> float:
        asked.append(square)
        return 0.5

    done = tables.change(moment, "step", [share(2.0)], scale=half).apply()
    assert asked == [80.0] == [done.square]
    assert tables.read("x", GID).tolist() == [-1.0] * 20


def test_a_write_of_one_owner_takes_one_message(world):
    tables, owners = world
    low = tables.directory.divide(SPEC, GID)[0]
    tables.write("x", low, torch.ones(len(low)))
    assert [(owner.asked_for(ChangeRequest), owner.asked_for(ApplyRequest)) for owner in owners] == [(1, 0), (0, 0)]


def test_what_one_owner_cannot_take_happens_at_none(world):
    tables, owners = world
    owners[1].loses = ChangeRequest
    with pytest.raises(PeerLostError, match="server 1"):
        tables.write("x", GID, torch.ones(20))
    assert owners[0].asked_for(AbortRequest) == 1
    owners[1].loses = type(None)
    assert not tables.read("x", GID).any()
    tables.write("x", GID, torch.ones(20))  # and the next one is not in the way of it
    assert tables.read("x", GID).all()


def test_a_factor_that_cannot_be_computed_aborts_the_step(world):
    tables, owners = world
    (moment,) = trained(tables)
    with pytest.raises(ZeroDivisionError):
        tables.change(moment, "step", [share()], scale=lambda square: 1 / 0).apply()
    assert [owner.asked_for(AbortRequest) for owner in owners] == [1, 1]
    assert not tables.read("x", GID).any()


def test_half_a_step_is_refused_by_name(world, monkeypatch):
    """An owner that is lost between the two messages has not made it; rows of different steps are not mixed."""
    monkeypatch.setattr("halohop.cluster.tables.reads._SETTLE_SECONDS", 0.1)
    tables, owners = world
    (moment,) = trained(tables)
    owners[1].loses = ApplyRequest
    with pytest.raises(PeerLostError, match="server 1"):
        tables.change(moment, "step", [share()]).apply()
    with pytest.raises(ClusterError, match=r"different numbers of steps \(server 1 0, server 0 1\).*--resume"):
        tables.read("x", GID)
    low = tables.directory.divide(SPEC, GID)[0]
    assert tables.read("x", low).tolist() == [-1.0] * len(low)


def test_a_gradient_that_is_not_finite_is_named_and_other_ranks_hear_why(world):
    tables, _ = world
    first, other = trained(tables, ranks=2)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(tables.change(first, "step", [share()]).apply)
        with pytest.raises(InputError, match=r"not finite .*rows"):
            tables.change(other, "step", [share(float("nan"))]).apply()
        with pytest.raises(ClusterError, match=r"rank 1 .*(refused|aborted)"):
            waits.result(timeout=10)
    assert not tables.read("x", GID).any()


def test_a_rank_that_does_not_come_is_named_by_the_deadline(world):
    tables, _ = world
    first, _ = trained(tables, ranks=2)
    with pytest.raises(DeadlineExceededError, match="rank 1 has not sent a share"):
        tables.change(first, "step", [share()], seconds=0.2).apply()
    assert not tables.read("x", GID).any()


def test_an_owner_that_is_silent_for_long_is_lost():
    """Its call may wait for other ranks, but not for an owner that is not there."""
    never: Future[Any] = Future()
    silent = TableHolder(
        ask=lambda request, *, seconds=0.0: never,
        parts=(0,),
        name="s",
        remote=True,
        lost=lambda waited: "s is gone" if waited > 0.2 else "",
    )
    graph = partitioned(ring(20), 1)
    tables = Tables(graph, TableOwners(graph.book, [silent]), graph.pool, graph.counters)
    with pytest.raises(PeerLostError, match="s is gone"):
        tables.list()
    graph.close()


def test_two_graphs_of_a_process_have_tables_of_their_own():
    one, other = (partitioned(ring(20), 2) for _ in range(2))
    halohop.DistTensor(one, (None,), name="x", node_type="node")
    assert other.tables.list() == ()
    for graph in (one, other):
        graph.close()
