"""Which seeds make up which batch of which rank: pure arithmetic over (seed, epoch, step, rank)."""

import hashlib
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.loading.blocks import Arrangement, SeedBlocks
from halohop.process_group import check_number
from halohop.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One rank's seeds for one step: the batch's index in the epoch, and positions into the input nodes (int64 ``[n]``)."""

    index: int
    positions: Tensor


class Plan(Protocol):
    """An epoch's batches, in order."""

    def __len__(self) -> int: ...

    def epoch(self, epoch: int) -> Iterable[Share]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledPlan:
    """Deals the seeds to the ranks so that every rank takes the same number of steps and no seed is lost or repeated.

    A step hands `batch_size` seeds to each rank: the batch with index ``step * world.size + rank``. What remains for the
    last step is dealt evenly; if it would leave a rank without seeds, the last two steps are dealt evenly together. (A rank
    gets an empty batch only where that cannot be helped: fewer seeds than ranks, or batches of one seed.)

    With an `arrangement`, batches have the seeds of one block each as far as there are enough, in the order that
    `halohop.loading.blocks` describes, and each rank makes those of its own run of blocks. What is dealt evenly at the end is
    divided in the order of the blocks.

    Args:
        num_seeds: length of the input nodes.
        batch_size: seeds per rank and step.
        shuffle: a new order every epoch, the same on all ranks: a function of (seed, epoch).
        drop_last: leave out the last, incomplete step.
        world: the ranks that share the seeds.
        stream: which of several orders of one seed and epoch is taken.
        arrangement: of the seeds by their blocks; None deals them from the whole graph.

    Raises:
        InputError: batch_size < 1.

    Example:
        >>> plan = ShuffledPlan(num_seeds=5, batch_size=2, world=World(rank=1, size=2, local_rank=1, local_size=2))
        >>> [share.positions.tolist() for share in plan.epoch(0)]
        [[1, 2], [4]]
    """

    num_seeds: int
    batch_size: int
    shuffle: bool = False
    drop_last: bool = False
    seed: int = 0
    world: World = field(default_factory=World)
    stream: int = 0
    arrangement: Arrangement | None = None

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"batch_size={self.batch_size} must be at least 1")
        assert self.arrangement is None or self.arrangement.batch_size == self.batch_size

    def by_blocks(self, blocks: SeedBlocks | None) -> "ShuffledPlan":
        """The plan with seeds dealt by these blocks; None: from the whole graph."""
        return self if blocks is None else replace(self, arrangement=Arrangement.of(blocks, self.batch_size))

    def __len__(self) -> int:
        return len(self._rounds())

    def epoch(self, epoch: int) -> Iterable[Share]:
        order, size = self._order(epoch), self.world.size
        for step, (begin, end) in enumerate(self._rounds()):
            seeds, slot = order[begin:end], self.world.rank
            if self.arrangement is not None:
                if end - begin == self.batch_size * size:
                    slot = self.arrangement.slot(step, self.world)
                else:
                    seeds = self.arrangement.blocks.grouped(seeds)
            low, high = (len(seeds) * part // size for part in (slot, slot + 1))
            yield Share(index=step * size + slot, positions=seeds[low:high])

    def _rounds(self) -> list[tuple[int, int]]:
        """Begin and end of every step's seeds, all ranks together."""
        stride = self.batch_size * self.world.size
        full, rest = divmod(self.num_seeds, stride)
        ends = [stride * step for step in range(full + 1)]
        if rest and not self.drop_last:
            if rest < self.world.size and full:
                ends[-1] -= (stride - rest) // 2
            ends.append(self.num_seeds)
        return list(pairwise(ends))

    def _order(self, epoch: int) -> Tensor:
        order = self._shuffled(epoch)
        return order if self.arrangement is None else self.arrangement.ordered(order)

    def _shuffled(self, epoch: int) -> Tensor:
        if not self.shuffle:
            return torch.arange(self.num_seeds)
        key = ops.stream_key(seed=self.seed, epoch=epoch, batch=self.stream, hop=0, relation=("", "shuffle", ""))
        return torch.randperm(self.num_seeds, generator=torch.Generator().manual_seed(key))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledPlan:
    """Batches in the order of a `torch.utils.data.Sampler`: over positions, or over lists of them (`batch_size` None)."""

    num_seeds: int
    sampler: Iterable[int] | Iterable[Sequence[int]]
    batch_size: int | None
    drop_last: bool = False

    def __len__(self) -> int:
        num: int = len(self.sampler)  # type: ignore[arg-type]
        if self.batch_size is None:
            return num
        return num // self.batch_size if self.drop_last else -(-num // self.batch_size)

    def epoch(self, epoch: int) -> Iterable[Share]:
        if self.batch_size is None:
            batches: Iterable[Tensor] = (torch.as_tensor(batch, dtype=torch.int64) for batch in self.sampler)
        else:
            order = torch.as_tensor(list(self.sampler), dtype=torch.int64)
            batches = order[: len(self) * self.batch_size].split(self.batch_size) if len(order) else ()
        for index, positions in enumerate(batches):
            yield Share(index=index, positions=checked(positions, self.num_seeds))


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlan:
    """The batches of a rank that has seeds of its own, numbered among those of all ranks, however many the others have.

    Args:
        plan: of this rank's seeds.
        world: the ranks, each with a plan of its own.

    Example:
        >>> own = OwnPlan(plan=ShuffledPlan(num_seeds=5, batch_size=2), world=World(rank=1, size=4))
        >>> [(share.index, share.positions.tolist()) for share in own.epoch(0)]
        [(1, [0, 1]), (5, [2, 3]), (9, [4])]
    """

    plan: ShuffledPlan | SampledPlan
    world: World

    def __len__(self) -> int:
        return len(self.plan)

    def epoch(self, epoch: int) -> Iterable[Share]:
        return (replace(share, index=numbered(share.index, self.world)) for share in self.plan.epoch(epoch))


def numbered(index: int, world: World) -> int:
    """The number among all ranks' batches of this rank's batch number `index`: a number that no other rank has."""
    return (index * world.size + world.rank) % 2**64


def plan_of(
    num_seeds: int,
    *,
    world: World | None,
    own_seeds: bool,
    seed: int,
    batch_size: int | None,
    shuffle: bool,
    drop_last: bool,
    sampler: Any,
    batch_sampler: Any,
    blocks: SeedBlocks | None = None,
) -> Plan:
    """The plan that a loader's arguments describe.

    Raises:
        InputError: arguments that exclude each other.
    """
    if own_seeds and world is None:
        raise InputError(
            "own_seeds=True needs the number of this rank: give world=halohop.World(rank=..., size=...), "
            "or World.from_env() under torchrun"
        )
    for name, order in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if order is not None and not (isinstance(order, Iterable) and isinstance(order, Sized)):
            raise InputError(f"{name} is a {type(order).__name__} without a length; give a list, or a torch Sampler with __len__")
    world = world or World()
    if own_seeds:
        check_number(world)
    sharing, stream = (World(), world.rank) if own_seeds else (world, 0)
    plan: ShuffledPlan | SampledPlan
    if sampler is None and batch_sampler is None:
        if batch_size is None:
            raise InputError("batch_size=None is not possible here; give a number, or a batch_sampler")
        plan = ShuffledPlan(
            num_seeds=num_seeds,
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            seed=seed,
            world=sharing,
            stream=stream,
        ).by_blocks(blocks)
    elif blocks is not None:
        raise InputError("`sampler` and `batch_sampler` decide which seeds a batch has: leave them out, or use locality='none'")
    elif sampler is not None and batch_sampler is not None:
        raise InputError("give `sampler` or `batch_sampler`, not both")
    elif sharing.size > 1 or shuffle:
        raise InputError(
            "`sampler` and `batch_sampler` decide the order alone: leave out `shuffle`, and `world` unless own_seeds=True"
        )
    elif batch_sampler is not None:
        plan = SampledPlan(num_seeds=num_seeds, sampler=batch_sampler, batch_size=None)
    else:
        plan = SampledPlan(num_seeds=num_seeds, sampler=sampler, batch_size=batch_size, drop_last=drop_last)
    return OwnPlan(plan=plan, world=world) if own_seeds else plan


def checked(positions: Tensor, num_seeds: int) -> Tensor:
    """Positions that the caller has chosen (int64 ``[n]``), if there are such seeds.

    Raises:
        InputError: there are not.
    """
    outside = (positions < 0) | (positions >= num_seeds)
    if outside.any():
        raise InputError(f"position {int(positions[outside][0])} is asked for, but there are {num_seeds} inputs, counted from 0")
    return positions


def positions_of(index: Any, num_seeds: int) -> Tensor:
    """Positions that a user has chosen, int64 ``[n]``: as given, or those where a mask over the inputs is true.

    Raises:
        InputError: there are no such inputs, or the mask has another length.
    """
    index = torch.as_tensor(index).view(-1)
    if index.dtype == torch.bool:
        if len(index) != num_seeds:
            raise InputError(f"the mask has {len(index)} entries, but there are {num_seeds} inputs")
        places: Tensor = index.cpu().nonzero().view(-1)
        return places
    return checked(index.long().cpu(), num_seeds)


def digest(*ids: Tensor) -> int:
    """A number that stands for ids and their order: the index of a batch that the caller has put together.

    Example:
        >>> digest(torch.tensor([1, 2])) == digest(torch.tensor([1, 2])) != digest(torch.tensor([2, 1]))
        True
        >>> digest(torch.tensor([1, 2], dtype=torch.int32)) == digest(torch.tensor([1, 2]))
        True
    """
    made = hashlib.blake2b(digest_size=8)
    for tensor in ids:
        made.update(tensor.long().numpy().tobytes())
    return int.from_bytes(made.digest(), "little")
