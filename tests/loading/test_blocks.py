"""Seeds dealt by their blocks: every seed once, batches of one block where it has enough, each rank in its own run of blocks."""

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.loading.blocks import SeedBlocks
from halohop.loading.resume import LoaderProgress
from halohop.loading.seeds import ShuffledPlan
from halohop.world import World

sizes_of_blocks = st.lists(st.integers(0, 25), min_size=1, max_size=9)
batch_sizes, world_sizes = st.integers(1, 9), st.integers(1, 9)


def blocks_of(sizes: list[int], *, seed: int = 0) -> SeedBlocks:
    """So many seeds in each block, in random order."""
    blocks = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    order = torch.randperm(len(blocks), generator=torch.Generator().manual_seed(seed))
    return SeedBlocks(of_seed=blocks[order].to(torch.int16), count=len(sizes))


def plan_of(blocks: SeedBlocks, batch_size: int, *, rank: int = 0, size: int = 1, **options) -> ShuffledPlan:
    options = {"shuffle": True, "seed": 3} | options
    world = World(rank=rank, size=size, local_rank=rank, local_size=size)
    return ShuffledPlan(num_seeds=len(blocks.of_seed), batch_size=batch_size, world=world, **options).by_blocks(blocks)


def epochs_of_ranks(blocks: SeedBlocks, batch_size: int, size: int, **options) -> list[list]:
    """An epoch of each rank."""
    return [list(plan_of(blocks, batch_size, rank=rank, size=size, **options).epoch(2)) for rank in range(size)]


def bitrev(number: int, bits: int) -> int:
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0


@given(sizes_of_blocks, batch_sizes, world_sizes, st.booleans())
def test_every_seed_once_in_equal_steps_and_full_batches_but_for_the_end(sizes, batch_size, size, drop_last):
    blocks = blocks_of(sizes)
    ranks = epochs_of_ranks(blocks, batch_size, size, drop_last=drop_last)
    (steps,) = {len(shares) for shares in ranks}
    assert steps == len(plan_of(blocks, batch_size, size=size, drop_last=drop_last))
    shares = [share for shares in ranks for share in shares]
    assert sorted(share.index for share in shares) == list(range(len(shares)))
    taken = [position for share in shares for position in share.positions.tolist()]
    assert len(set(taken)) == len(taken)
    stride = batch_size * size
    assert len(taken) == (sum(sizes) // stride * stride if drop_last else sum(sizes))
    assert all(len(share.positions) == batch_size for share in shares if share.index < (steps - 2) * size)
    if sum(sizes) >= size and batch_size > 1:
        assert all(len(share.positions) for share in shares)


@given(sizes_of_blocks, batch_sizes)
def test_a_block_has_as_many_batches_of_its_own_as_its_seeds_fill(sizes, batch_size):
    blocks = blocks_of(sizes)
    (shares,) = epochs_of_ranks(blocks, batch_size, 1)
    pure = [0] * len(sizes)
    for share in shares:
        found = blocks.of_seed[share.positions].unique()
        if len(share.positions) == batch_size and len(found) == 1:
            pure[int(found)] += 1
    assert all(count >= size // batch_size for count, size in zip(pure, sizes, strict=True))


@given(sizes_of_blocks, batch_sizes)
def test_a_batch_mixes_the_fewest_neighbouring_blocks(sizes, batch_size):
    """Of any half, quarter, ... of the blocks, fewer seeds than a batch have one together with others."""
    blocks = blocks_of(sizes)
    (shares,) = epochs_of_ranks(blocks, batch_size, 1)
    width = 1 << (len(sizes) - 1).bit_length()
    while width:
        for first in range(0, len(sizes), width):
            inside = [((own := blocks.of_seed[share.positions]) >= first) & (own < first + width) for share in shares]
            assert sum(int(own.sum()) for own in inside if not own.all()) < batch_size
        width //= 2


@given(sizes_of_blocks, batch_sizes, world_sizes)
def test_batches_are_the_same_for_any_number_of_ranks(sizes, batch_size, size):
    """But those of the last two steps, which the ranks share evenly."""
    blocks = blocks_of(sizes)
    alone = {share.index: share.positions.tolist() for shares in epochs_of_ranks(blocks, batch_size, 1) for share in shares}
    ranks = epochs_of_ranks(blocks, batch_size, size)
    full = [share for shares in ranks for share in shares[: max(len(shares) - 2, 0)]]
    assert {share.index: share.positions.tolist() for share in full} == {
        index: positions for index, positions in alone.items() if index < len(full)
    }


@given(st.integers(0, 4), st.integers(1, 4), batch_sizes)
def test_of_equal_blocks_batch_b_is_of_block_bitrev_b(bits, rounds, batch_size):
    blocks = blocks_of([rounds * batch_size] * 2**bits)
    (shares,) = epochs_of_ranks(blocks, batch_size, 1)
    assert [blocks.of_seed[share.positions].unique().tolist() for share in shares] == [
        [bitrev(share.index % 2**bits, bits)] for share in shares
    ]


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32])
def test_each_rank_makes_the_batches_of_its_own_run_of_blocks(size):
    blocks = blocks_of([4 * 6] * 16)
    for rank, shares in enumerate(epochs_of_ranks(blocks, 4, size)):
        found = torch.cat([blocks.of_seed[share.positions] for share in shares]).unique()
        assert found.tolist() == list(range(rank * 16 // size, max((rank + 1) * 16 // size, rank * 16 // size + 1)))


def test_each_of_three_ranks_makes_most_batches_of_its_own_third():
    blocks = blocks_of([4 * 30] * 16)
    for rank, shares in enumerate(epochs_of_ranks(blocks, 4, 3)):
        own = [int(blocks.of_seed[share.positions][0]) * 3 // 16 == rank for share in shares]
        assert sum(own) >= 0.7 * len(own)


@given(st.lists(st.integers(20, 60), min_size=4, max_size=4), st.integers(1, 3))
def test_a_rank_leaves_its_blocks_only_for_what_the_others_have_too_much(batches, batch_size):
    """Blocks of different sizes: as many foreign batches as evenness needs, and a few at the ends of odd rounds."""
    blocks = blocks_of([count * batch_size for count in batches])
    ranks, foreign = epochs_of_ranks(blocks, batch_size, 4), 0
    steps = sum(batches) // 4
    for rank, shares in enumerate(ranks):
        foreign += sum(int((blocks.of_seed[share.positions] != rank).any()) for share in shares[:steps])
    needed = sum(max(0, count - steps) for count in batches)
    assert foreign <= 2 * needed + 8


def test_blocks_of_different_sizes_are_used_up_together():
    """So the end of an epoch is like its beginning."""
    blocks = blocks_of([4 * 40, 4 * 10, 4 * 2, 4 * 8])
    (shares,) = epochs_of_ranks(blocks, 4, 1)
    order = [int(blocks.of_seed[share.positions][0]) for share in shares]
    for begin in range(0, 60, 15):
        assert np.allclose(np.bincount(order[begin : begin + 15], minlength=4), [10, 2.5, 0.5, 2], atol=1.5)


@given(st.integers(0, 60), batch_sizes, world_sizes, st.booleans(), st.booleans())
def test_one_block_is_the_whole_graph(num_seeds, batch_size, size, shuffle, drop_last):
    options = {"num_seeds": num_seeds, "batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last, "seed": 5}
    for rank in range(size):
        plan = ShuffledPlan(**options, world=World(rank=rank, size=size, local_rank=rank, local_size=size))
        one = plan.by_blocks(SeedBlocks(of_seed=torch.zeros(num_seeds, dtype=torch.uint8), count=1))
        assert [(share.index, share.positions.tolist()) for share in one.epoch(1)] == [
            (share.index, share.positions.tolist()) for share in plan.epoch(1)
        ]


def test_seeds_are_shuffled_within_their_blocks_anew_each_epoch():
    blocks = blocks_of([40, 40])
    plan = plan_of(blocks, 8)
    first, again, second = ([share.positions.tolist() for share in plan.epoch(epoch)] for epoch in (0, 0, 1))
    assert first == again != second
    assert sorted(chain(*first[::2])) == sorted(chain(*second[::2]))
    assert sorted(first[0]) != sorted(second[0])


def test_without_shuffle_the_seeds_of_a_block_keep_their_order():
    blocks = blocks_of([21, 17, 30])
    (shares,) = epochs_of_ranks(blocks, 4, 1, shuffle=False)
    for block in range(3):
        own = [position for share in shares[:15] for position in share.positions.tolist() if blocks.of_seed[position] == block]
        full = [own[begin : begin + 4] for begin in range(0, len(own) // 4 * 4, 4)]
        assert full == sorted(full)
        assert all(batch == sorted(batch) for batch in full)


def test_more_ranks_than_blocks_share_them():
    blocks = blocks_of([4 * 8] * 2)
    for rank, shares in enumerate(epochs_of_ranks(blocks, 4, 8)):
        assert {int(block) for share in shares for block in blocks.of_seed[share.positions]} == {rank // 4}


def test_what_is_left_over_is_divided_in_the_order_of_the_blocks():
    blocks = blocks_of([8, 8, 8, 8])
    last = [blocks.of_seed[shares[-1].positions].tolist() for shares in epochs_of_ranks(blocks, 4, 5)]
    assert last == [[1, 1], [1, 1], [2, 2, 2], [2, 3], [3, 3, 3]]  # the batches 5, 6 and 7 are of the blocks 2, 1 and 3


def test_another_division_is_another_state():
    states = [
        LoaderProgress(plan_of(blocks_of(sizes), 4), seed=0).state()["plan"] for sizes in ([8, 8], [8, 8], [9, 7], [8, 8, 0])
    ]
    assert states[0] == states[1]
    assert len({str(state) for state in states}) == 3
    assert all(0 <= value < 2**63 for value in states[0].values())
