"""Ranks of unequal length: under torch's `Join`, in processes of their own, and in loops that leave by themselves."""

import copy
import gc
import pickle
import weakref
from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.join import Joinable, JoinHook
from torch.nn.modules.module import _global_module_registration_hooks as registration_hooks
from torch.nn.parallel import DistributedDataParallel

import halohop
from halohop.optim.joining import LeaveHook, join_with_models
from halohop.optim.rank import Rank
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, environment, partitioned
from tests.optim.joined import DIM, LENGTHS, NODES, RANKS, TABLES, WAYS, Head, batches, optimizers
from tests.optim.ranks import Plan, trained, truth, uneven_plan
from tests.support.forked import Forked


class Round(Rank):
    """A rank that counts its rounds, alone."""

    def __init__(self, name: str = "optimizer") -> None:
        self._name, self.is_open, self.meetings = name, True, 0
        self._round, self._has_met = 3, True

    @property
    def name(self) -> str:
        return self._name

    @property
    def round(self) -> int:
        return self._round

    @property
    def has_met(self) -> bool:
        return self._has_met

    def is_in(self, number: int, size: int) -> bool:
        return self.is_open and (number, size) == (0, 1)

    def leave(self) -> None:
        self._round, self._has_met = self._round + 1, False

    def meets(self) -> None:
        self._has_met, self.meetings = True, self.meetings + 1


class Noted(Joinable):
    """What takes part in joins, and notes how far they come."""

    def __init__(self, name: str = "optimizer") -> None:
        super().__init__()
        self.rank = Round(name)
        self.ends: list[str] = []
        join_with_models(self, self.rank)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        self.ends.append("begun")
        return NotedHook(self.ends)

    @property
    def join_device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def join_process_group(self) -> Any:
        return dist.group.WORLD


class NotedHook(JoinHook):
    def __init__(self, ends: list[str]) -> None:
        self._ends = ends

    def post_hook(self, is_last_joiner: bool) -> None:
        self._ends.append("ended")


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of one rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def joined(model: nn.Module) -> None:
    assert isinstance(model, DistributedDataParallel)
    with model.join():
        model(torch.ones(1, 2)).sum().backward()


@pytest.mark.usefixtures("alone")
def test_models_are_followed_whenever_they_are_made() -> None:
    before, optimizer = DistributedDataParallel(nn.Linear(2, 1)), Noted()
    after = DistributedDataParallel(nn.Linear(2, 1))
    for number, model in enumerate((before, after, before), 1):
        joined(model)
        assert optimizer.ends == ["begun", "ended"] * number


@pytest.mark.usefixtures("alone")
def test_models_of_subclasses_are_followed_and_no_thread_is_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython fails in a thread that makes a tuple of an iterator while another holds the unfinished one."""

    class Distributed(DistributedDataParallel):
        pass

    def refuse() -> None:
        raise AssertionError("all objects of the process are held")

    monkeypatch.setattr(gc, "get_objects", refuse)
    before, optimizer = Distributed(nn.Linear(2, 1)), Noted()
    joined(before)
    assert optimizer.ends == ["begun", "ended"]


@pytest.mark.usefixtures("alone")
def test_models_outlive_optimizers_that_follow_them() -> None:
    model, other = DistributedDataParallel(nn.Linear(2, 1)), Noted("other")
    before = set(registration_hooks)
    optimizer = Noted()
    ends = optimizer.ends
    assert len(registration_hooks.keys() - before) == 1
    del optimizer
    assert not registration_hooks.keys() - before
    joined(model)
    assert (ends, other.ends) == ([], ["begun", "ended"])
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("alone")
def test_optimizers_that_cannot_step_are_not_joined() -> None:
    model, replaced, closed = DistributedDataParallel(nn.Linear(2, 1)), Noted(), Noted("of a graph that was closed")
    optimizer = Noted()
    closed.rank.is_open = False
    joined(model)
    assert (replaced.ends, closed.ends, optimizer.ends) == ([], [], ["begun", "ended"])


@pytest.mark.usefixtures("alone")
def test_copies_of_models_are_joined_by_themselves() -> None:
    model, optimizer = DistributedDataParallel(nn.Linear(2, 1)), Noted()
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        joined(copied)
    assert optimizer.ends == []
    joined(model)
    assert optimizer.ends == ["begun", "ended"]


@pytest.mark.usefixtures("alone")
def test_models_of_other_ranks_are_not_followed() -> None:
    optimizer = Noted()
    joined(DistributedDataParallel(nn.Linear(2, 1), process_group=dist.new_group([0])))
    assert optimizer.ends == []


@pytest.mark.parametrize("ends_early", [False, True])
def test_hooks_of_one_join_leave_its_round_once(ends_early: bool) -> None:
    rank = Round()
    hooks = [LeaveHook(rank, rank.meets) for _ in range(2)]
    for hook in 2 * hooks if ends_early else []:
        hook.main_hook()
        assert (rank.round, rank.meetings) == (4, 0)
    for hook in hooks:
        hook.post_hook(is_last_joiner=not ends_early)
        assert (rank.round, rank.meetings) == (4, 1)
    LeaveHook(rank, rank.meets).post_hook(is_last_joiner=True)  # of the next join
    assert (rank.round, rank.meetings) == (5, 2)


@pytest.mark.usefixtures("alone")
def test_an_error_within_a_join_ends_no_round() -> None:
    model, optimizer = DistributedDataParallel(nn.Linear(2, 1)), Noted()
    with pytest.raises(LookupError), model.join():
        raise LookupError
    assert optimizer.ends == ["begun"]


def union(names: list[str]) -> tuple[list[torch.Tensor], Head, int]:
    """The same by one process: the union of the ranks' batches, in which a rank that has ended counts as zeros."""
    graph = partitioned(ring(NODES), 1)
    begin = [halohop.DistEmbedding(graph, None, DIM, name, node_type="node", seed=seed) for seed, name in enumerate(names)]
    tables = [nn.Embedding.from_pretrained(one.weight[torch.arange(NODES)], freeze=False, sparse=True) for one in begin]
    head, steps = Head(), 0
    sparse = optimizers([table.weight for table in tables], torch.optim.SparseAdam, torch.optim.Adagrad)
    dense = torch.optim.SGD(head.parameters(), lr=0.1)
    with torch.sparse.check_sparse_tensor_invariants(enable=False):  # what torch's Adagrad would warn of
        for epoch in range(len(LENGTHS)):
            for of_ranks in zip_longest(*(batches(epoch, rank) for rank in range(RANKS))):
                given = [batch for batch in of_ranks if batch is not None]
                losses = [F.cross_entropy(head([table(ids) for table in tables]), labels) for ids, labels in given]
                for optimizer in (dense, *sparse):
                    optimizer.zero_grad()
                (torch.stack(losses).sum() / RANKS).backward()
                for optimizer in (dense, *sparse):
                    optimizer.step()
                steps += 1
    return [table.weight.detach() for table in tables], head, steps


@pytest.mark.parametrize("ranks", [2, 3])
def test_rounds_of_loops_that_leave_by_themselves(ranks: int) -> None:
    make = partial(halohop.optim.SparseAdam, lr=0.02)
    first, second = (uneven_plan(NODES, DIM, steps=10, ranks=ranks, seed=seed) for seed in (0, 1))
    plan = Plan(ids=first.ids + second.ids, pull=first.pull)
    with partitioned(ring(NODES), 2, shard_each=True) as graph:
        begin = halohop.DistTensor(graph, (NODES, DIM), name="learned", init=halohop.init.normal(), seed=1)[torch.arange(NODES)]
        found = trained([graph], "learned", make, plan, rounds=2, seed=1)
    torch.testing.assert_close(found, truth(begin, partial(torch.optim.SparseAdam, lr=0.02), plan), atol=1e-5, rtol=0)


@pytest.mark.full
@pytest.mark.timeout(120)
def test_join_makes_ranks_of_unequal_length_one_loop(tmp_path: Path) -> None:
    halohop.partition(ring(NODES), tmp_path / "parts", num_parts=2, method="random")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    with halohop.serve(tmp_path / "parts", token=TOKEN, listen="127.0.0.1:0") as server:
        ranks = [
            Forked(
                "tests.optim.joined_rank",
                [server.address, str(tmp_path)],
                environment() | meeting | {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "GLOO_SOCKET_IFNAME": "lo"},
                cwd=Path.cwd(),
            )
            for rank in range(RANKS)
        ]
        codes = [rank.wait(100) for rank in ranks]
        assert codes == [0] * RANKS, [rank.stderr.read() for rank in ranks]
        for rank in ranks:
            rank.close()
        names = [[f"{way}: {name}" for name in TABLES] for way in WAYS]
        with halohop.connect([server.address], token=TOKEN) as graph:
            rows = [[halohop.DistTensor.attach(graph, name)[torch.arange(NODES)] for name in of_way] for of_way in names]
    saved = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(RANKS)]
    for number, way in enumerate(WAYS):
        expected, head, steps = union(names[number])
        torch.testing.assert_close(rows[number], expected, atol=1e-5, rtol=0, msg=way)
        for one in saved:
            assert one["ways"][number]["steps"] == [{names[number][0]: steps}, dict.fromkeys(names[number][1:], steps)]
            torch.testing.assert_close(one["ways"][number]["dense"], dict(head.state_dict()), atol=1e-5, rtol=0)
    assert [one["heard"] == "" for one in saved] == [False, True, False]
    for rank in (0, 2):
        assert "rank 1 has not sent a share of step of optimizer 'SparseSGD(lost)', number 0 within 3 s" in saved[rank]["heard"]
