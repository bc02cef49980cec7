"""Batches whose seeds lie close together: which seeds make up which batch, given the block of every seed.

Blocks are the leaves of a recursive division in two: 2 k and 2 k + 1 were one before the last cut. A batch has the seeds of one
block. What is too little for a batch of its own joins what the other half has left over, and so on towards the root. Halves take
turns in proportion to the batches that they have; of equal blocks, batch b has the seeds of block ``bitrev(b mod count)``.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.world import World

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedBlocks:
    """The block of every seed.

    Args:
        of_seed: integers ``[num_seeds]``, at least 0 and below `count`.
        count: of the blocks, those without a seed included.
    """

    of_seed: Tensor
    count: int

    @property
    def identity(self) -> dict[str, int]:
        """Numbers that stand for which seeds are in which blocks."""
        made = hashlib.blake2b(digest_size=7)  # fits into every format's integers
        made.update(self.of_seed.long().numpy().tobytes())
        return {"blocks": self.count, "block_of_seeds": int.from_bytes(made.digest(), "little")}

    def grouped(self, positions: Tensor) -> Tensor:
        """The same positions block by block, those of a block in the order given."""
        order = np.argsort(self.of_seed.numpy()[positions.numpy()], kind="stable")
        return torch.from_numpy(positions.numpy()[order])


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """An epoch's batches in order, the same for all epochs: these differ in the order of the seeds within a block.

    Args:
        blocks: of the seeds.
        batch_size: seeds of a full batch.
        places: of the seeds when they are grouped by block: batch after batch, then what is left over; int64 ``[num_seeds]``.
        block_of_batch: the (first) block of each full batch, int64 ``[num_seeds // batch_size]``.
    """

    blocks: SeedBlocks
    batch_size: int
    places: Ids
    block_of_batch: Ids

    @classmethod
    def of(cls, blocks: SeedBlocks, batch_size: int) -> "Arrangement":
        """
        Example:
            >>> four = SeedBlocks(of_seed=torch.tensor([0, 0, 1, 1, 1, 2, 2, 3]), count=4)
            >>> arranged = Arrangement.of(four, batch_size=2)
            >>> arranged.ordered(torch.arange(8)).tolist(), arranged.block_of_batch.tolist()
            ([0, 1, 5, 6, 2, 3, 4, 7], [0, 2, 1, 1])
        """
        sizes = np.bincount(blocks.of_seed.numpy(), minlength=_power_of_two(blocks.count))
        first = np.concatenate([[0], sizes.cumsum()])
        mixed: list[Ids] = []
        level = [_leaf(int(begin), int(size), batch_size) for begin, size in zip(first, sizes, strict=False)]
        while len(level) > 1:
            level = [_joined(*halves, batch_size, mixed) for halves in zip(level[::2], level[1::2], strict=True)]
        (root,) = level
        begins = np.where(root.batches < 0, 0, root.batches)
        places = begins[:, None] + np.arange(batch_size)
        for at in np.flatnonzero(root.batches < 0):
            places[at] = mixed[~root.batches[at]]
        return cls(
            blocks=blocks,
            batch_size=batch_size,
            places=np.concatenate([places.ravel(), root.left_over]),
            block_of_batch=np.searchsorted(first, places[:, 0], side="right") - 1,
        )

    def ordered(self, positions: Tensor) -> Tensor:
        """All positions of the seeds, in an order that counts within blocks, batch after batch."""
        return torch.from_numpy(self.blocks.grouped(positions).numpy()[self.places])

    def slot(self, step: int, world: World) -> int:
        """Which of the full batches of a step a rank makes, counted from 0.

        Rank r of W has the r-th run of blocks, and makes the first batch of the step that is of it. The other batches go to the
        ranks that have none, both in ascending order.
        """
        if world.size == 1:
            return 0
        blocks = self.block_of_batch[step * world.size : (step + 1) * world.size]
        taken: dict[int, int] = {}
        slots = np.argsort(blocks, kind="stable").tolist()
        others = [slot for slot in slots if taken.setdefault(int(blocks[slot]) * world.size // self.blocks.count, slot) != slot]
        free = [rank for rank in range(world.size) if rank not in taken]
        slot: int = (taken | dict(zip(free, others, strict=True)))[world.rank]
        return slot


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subtree:
    """Some neighbouring blocks.

    Args:
        batches: in order, by the first place of each; ``~n`` is mixed batch number n.
        left_over: places of seeds that are in none of them, fewer than a batch.
    """

    batches: Ids
    left_over: Ids


def _leaf(begin: int, size: int, batch_size: int) -> _Subtree:
    end = begin + size - size % batch_size
    return _Subtree(batches=np.arange(begin, end, batch_size), left_over=np.arange(end, begin + size))


def _joined(left: _Subtree, right: _Subtree, batch_size: int, mixed: list[Ids]) -> _Subtree:
    """Two halves as one; a batch of what both have left over is appended to `mixed`."""
    batches, left_over = _in_turn(left.batches, right.batches), np.concatenate([left.left_over, right.left_over])
    if len(left_over) >= batch_size:
        batches = np.append(batches, ~len(mixed))
        mixed.append(left_over[:batch_size])
        left_over = left_over[batch_size:]
    return _Subtree(batches=batches, left_over=left_over)


def _in_turn(left: Ids, right: Ids) -> Ids:
    """Both lists evenly mixed, each in its order; of equal ones left first."""
    when = np.concatenate([(2 * np.arange(len(left)) + 1) * len(right), (2 * np.arange(len(right)) + 1) * len(left)])
    merged: Ids = np.concatenate([left, right])[np.argsort(when, kind="stable")]
    return merged


def _power_of_two(count: int) -> int:
    """The least one that is not below `count`."""
    return 1 << (count - 1).bit_length()
