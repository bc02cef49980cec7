"""Whatever comes twice, late, in another order or not at all: rows are what a slow and plain ledger says they are."""

import random
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop.errors import HalohopError
from halohop.tables.change_messages import ApplyRequest
from halohop.tables.rule_spec import RuleSpec
from tests.support.tables import Client, Ranks, ask, make, owner_of, read, share, spec_of

STEPS = 4


@dataclass
class Model:
    """What an owner is to do, in the plainest way: after every event all steps are looked at again."""

    size: int
    alone: bool
    shares: dict[int, set[int]] = field(default_factory=lambda: {index: set() for index in range(STEPS)})
    left: dict[int, int] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    applied: list[int] = field(default_factory=list)
    frozen: dict[int, set[int]] = field(default_factory=dict)

    def is_whole(self, index):
        expected = {rank for rank in range(self.size) if self.left.get(rank, STEPS) > index}
        return bool(self.shares[index]) and expected <= self.shares[index]

    def event(self, kind, rank, index):
        """Whether the event is accepted."""
        over = index in self.dead
        if kind == "share":
            if self.left.get(rank, STEPS) <= index or over:
                return False
            if index not in self.applied and index not in self.frozen:
                self.shares[index].add(rank)
        elif kind == "apply":
            if over or (index not in self.applied and index not in self.frozen):
                return False
            self.asked.add(index)
        elif kind == "abort":
            if index in self.applied:
                return False
            self.dead.add(index)
        elif kind == "leave":
            sent = any(
                rank in self.shares[later] and later not in self.applied and later not in self.dead
                for later in range(index, STEPS)
            )
            if self.left.get(rank, index) != index or sent:
                return False
            self.left[rank] = index
        self.proceed()
        return True

    def proceed(self):
        for index in range(STEPS):
            if index not in self.dead and index not in self.frozen and self.is_whole(index):
                self.frozen[index] = set(self.shares[index])
        for index in range(STEPS):
            if index in self.dead or index in self.applied:
                continue
            if index not in self.frozen or not (self.alone or index in self.asked):
                return
            self.applied.append(index)


def grads(rank, index):
    """Powers of two: every sum says what is in it."""
    return [index % 10, 9], [[2.0 ** (rank + 3 * index), 0.0], [1.0, 1.0]]


def events(size):
    kinds = st.sampled_from(["share"] * 8 + ["apply"] * 3 + ["abort", "leave"])
    return st.lists(st.tuples(kinds, st.integers(0, size - 1), st.integers(0, STEPS - 1)), max_size=40)


@settings(max_examples=60, deadline=None)
@given(size=st.shared(st.integers(1, 3), key="size"), alone=st.booleans(), data=st.data())
def test_an_owner_does_what_the_plain_ledger_does(size, alone, data):
    owner, model = owner_of(), Model(size, alone)
    make(owner, spec_of())
    ranks = Ranks([owner], size)
    promised: list[tuple[int, Future]] = []
    try:
        for kind, rank, index in data.draw(events(size)):
            if alone and kind == "apply":
                continue
            match kind:
                case "share":
                    request = ranks.step(rank, index, share(*grads(rank, index)), alone=alone, seconds=60.0)
                case "apply":
                    request = ranks.apply(rank, index)
                case "abort":
                    request = ranks.abort(rank, index)
                case "leave":
                    request = ranks.leave(rank, index)
            expected = model.event(kind, rank, index)
            try:
                reply = owner.answer(request)
                accepted = True
            except HalohopError:
                accepted = False
            if isinstance(reply if accepted else None, Future):
                if kind == "share":
                    promised.append((index, reply))
                if reply.done() and reply.exception() is not None:
                    accepted = False
            assert accepted == expected, (kind, rank, index)
            assert_like(owner, model)
        for index, future in promised:
            if index in model.applied or (index in model.frozen and not alone and index not in model.dead):
                assert future.result(0)
            elif index in model.dead:
                assert future.done()
            else:
                assert not future.done()
    finally:
        owner.close()


def assert_like(owner, model):
    expected = torch.zeros(10, 2)
    for index in model.applied:
        for rank in model.frozen[index]:
            for gid, grad in zip(*grads(rank, index), strict=True):
                expected[gid] -= torch.tensor(grad)
    assert torch.equal(read(owner), expected)
    steps = owner.catalog.get("x").steps
    assert steps == len(model.applied)


@pytest.mark.parametrize("seed", range(2))
def test_ranks_in_threads_come_to_the_same_bits_as_one_after_the_other(seed):
    """Three ranks, two owners, everything sent up to three times at once; Adagrad, so that the order of steps is seen."""
    rule = RuleSpec(kind="adagrad", ranks="mean")
    generator = torch.Generator().manual_seed(seed)
    steps, size = 12, 3
    given = {
        (index, rank): [
            (torch.randint(low, high, (n,), generator=generator), torch.randn(n, 2, generator=generator))
            for low, high, n in ((0, 4, 5), (4, 10, 7))
        ]
        for index in range(steps)
        for rank in range(size)
    }

    def run(pool):
        owners = owner_of(0), owner_of(1)
        try:
            for owner in owners:
                make(owner, spec_of())
            ranks = Ranks(owners, size, rules={"x": rule})

            def train(rank):
                draw = random.Random(rank + 10 * seed)
                for index in range(steps):
                    for request in (
                        [ranks.step(rank, index, share(g.tolist(), r), alone=False) for g, r in given[index, rank]],
                        [ranks.apply(rank, index)] * 2,
                    ):
                        asked = [
                            pool.submit(ask, owner, one)
                            for owner, one in zip(owners, request, strict=True)
                            for _ in range(draw.randint(1, 3))
                        ]
                        for future in asked:
                            future.result(30)

            with ThreadPoolExecutor(size) as trainers:
                for future in [trainers.submit(train, rank) for rank in range(size)]:
                    future.result(60)
            assert [owner.statistics()["pending_changes"] for owner in owners] == [0, 0]
            return torch.cat([read(owners[0], gid=range(4)), read(owners[1], gid=range(4, 10))])
        finally:
            for owner in owners:
                owner.close()

    def plainly():
        owner = owner_of()
        try:
            make(owner, spec_of())
            ranks = Ranks([owner], size, rules={"x": rule})
            for index in range(steps):
                waiting = []
                for rank in range(size):
                    gid, rows = (torch.cat(parts) for parts in zip(*given[index, rank], strict=True))
                    waiting.append(owner.answer(ranks.step(rank, index, share(gid.tolist(), rows))))
                assert waiting[-1].result(10).applied
            return read(owner)
        finally:
            owner.close()

    with ThreadPoolExecutor(2 * 3 * size) as pool:
        found = run(pool)
    assert torch.equal(found, plainly())


def test_writers_that_ask_again_lose_and_double_nothing():
    """Four clients add to the same rows of two owners, in two phases, each request up to three times and in any order."""
    owners = owner_of(0), owner_of(1)
    try:
        for owner in owners:
            make(owner, spec_of())

        def add(number):
            client, draw = Client(f"client {number}"), random.Random(number)
            for index in draw.sample(range(50), 50):
                requests = [client.request("add", share(gid, 1.0), alone=False, index=index) for gid in ([0, 3, 3], [4, 9])]
                for owner, request in zip(owners, requests, strict=True):
                    for _ in range(draw.randint(1, 3)):
                        ask(owner, request)
                for owner, request in zip(owners, requests, strict=True):
                    for _ in range(draw.randint(1, 3)):
                        ask(owner, ApplyRequest(moment=request.moment))
                for owner, request in zip(owners, requests, strict=True):
                    assert not ask(owner, request).new

        with ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(add, number) for number in range(4)]:
                future.result(60)
        assert read(owners[0], gid=[0, 3, 1]).tolist() == [[200, 200], [400, 400], [0, 0]]
        assert read(owners[1], gid=[4, 9, 5]).tolist() == [[200, 200], [200, 200], [0, 0]]
    finally:
        for owner in owners:
            owner.close()
