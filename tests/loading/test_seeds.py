import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, SequentialSampler

from halohop.errors import InputError
from halohop.loading.seeds import OwnPlan, SampledPlan, ShuffledPlan
from halohop.world import World


def world(rank: int, size: int) -> World:
    return World(rank=rank, size=size, local_rank=rank, local_size=size)


plans = st.fixed_dictionaries(
    {
        "num_seeds": st.integers(0, 200),
        "batch_size": st.integers(1, 20),
        "shuffle": st.booleans(),
        "drop_last": st.booleans(),
        "seed": st.integers(-(2**70), 2**70),
    }
)


@given(plans, st.integers(1, 6), st.integers(0, 5))
def test_ranks_take_equal_steps_and_lose_or_repeat_no_seed(options, size, epoch):
    ranks = [list(ShuffledPlan(**options, world=world(rank, size)).epoch(epoch)) for rank in range(size)]
    lengths = {len(shares) for shares in ranks}
    assert lengths == {len(ShuffledPlan(**options, world=world(0, size)))}
    taken = torch.cat([torch.empty(0, dtype=torch.int64), *(share.positions for shares in ranks for share in shares)])
    if options["drop_last"]:
        stride = options["batch_size"] * size
        assert len(taken) == options["num_seeds"] // stride * stride
        assert len(taken.unique()) == len(taken)
    else:
        assert sorted(taken.tolist()) == list(range(options["num_seeds"]))
    indices = [share.index for shares in ranks for share in shares]
    assert sorted(indices) == list(range(len(indices)))
    assert all(len(share.positions) <= options["batch_size"] for shares in ranks for share in shares)


@given(st.integers(1, 300), st.integers(2, 20), st.integers(1, 6))
def test_no_rank_goes_empty_handed_where_that_can_be_helped(num_seeds, batch_size, size):
    shares = [
        share
        for rank in range(size)
        for share in ShuffledPlan(num_seeds=num_seeds, batch_size=batch_size, world=world(rank, size)).epoch(0)
    ]
    if num_seeds >= size:
        assert all(len(share.positions) for share in shares)


def test_one_rank_takes_batches_as_torch_would():
    plan = ShuffledPlan(num_seeds=5, batch_size=2)
    assert [share.positions.tolist() for share in plan.epoch(0)] == [[0, 1], [2, 3], [4]]


def test_shuffle_differs_by_epoch_and_seed_and_is_repeatable():
    def order(seed: int, epoch: int) -> list[int]:
        return [
            int(p)
            for share in ShuffledPlan(num_seeds=50, batch_size=7, shuffle=True, seed=seed).epoch(epoch)
            for p in share.positions
        ]

    assert order(0, 0) == order(0, 0)
    assert len({tuple(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4


def test_full_steps_are_the_same_batches_for_any_number_of_ranks():
    """Batch i of the epoch holds the same seeds whether one rank takes all batches or four share them."""
    options = {"num_seeds": 64, "batch_size": 4, "shuffle": True, "seed": 3}
    alone = {share.index: share.positions.tolist() for share in ShuffledPlan(**options).epoch(2)}
    shared = {
        share.index: share.positions.tolist()
        for rank in range(4)
        for share in ShuffledPlan(**options, world=world(rank, 4)).epoch(2)
    }
    assert alone == shared


@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(1, 7), st.booleans())
def test_numbers_of_ranks_with_seeds_of_their_own_never_meet(lengths, batch_size, shuffle):
    """However many seeds each has; and each goes through all of its own."""
    size, numbers = len(lengths), []
    for rank, length in enumerate(lengths):
        plan = ShuffledPlan(num_seeds=length, batch_size=batch_size, shuffle=shuffle, stream=rank)
        shares = list(OwnPlan(plan=plan, world=world(rank, size)).epoch(1))
        assert sorted(position for share in shares for position in share.positions.tolist()) == list(range(length))
        assert [share.index for share in shares] == [step * size + rank for step in range(len(plan))]
        numbers += [share.index for share in shares]
    assert len(set(numbers)) == len(numbers)


def test_batch_size_must_be_positive():
    with pytest.raises(InputError, match="batch_size=0"):
        ShuffledPlan(num_seeds=1, batch_size=0)


@pytest.mark.parametrize(("drop_last", "expected"), [(False, [[0, 1, 2], [3, 4]]), (True, [[0, 1, 2]])])
def test_torch_samplers(drop_last, expected):
    positions = SampledPlan(num_seeds=5, sampler=SequentialSampler(range(5)), batch_size=3, drop_last=drop_last)
    batches = SampledPlan(num_seeds=5, sampler=BatchSampler(SequentialSampler(range(5)), 3, drop_last), batch_size=None)
    for plan in (positions, batches):
        assert [share.positions.tolist() for share in plan.epoch(0)] == expected
        assert len(plan) == len(expected)
