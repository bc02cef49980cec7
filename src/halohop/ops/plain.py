"""Arithmetic on ids, a line each: NumPy's on the CPU, as torch would wake its intra-op threads for it, which are the trainer's;
torch's on a device."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.ops.arguments import ARRAY_DTYPES
from halohop.ops.device import DevicePool
from halohop.ops.pool import Pool, empty


def places_in(rows: Tensor) -> Tensor:
    """The numbers of rows, from 0 on, int64 ``[n]``, where the rows lie.

    Example:
        >>> places_in(torch.tensor([7, 7, 3])).tolist()
        [0, 1, 2]
    """
    if rows.is_cuda:
        return torch.ones_like(rows, dtype=torch.int64).cumsum_(0).sub_(1)
    return torch.from_numpy(np.arange(len(rows)))


def first_places(count: int, size: int, beside: Tensor) -> Tensor:
    """Which of `size` places are among the first `count`, bool ``[size]``.

    Args:
        count, size: how many.
        beside: a tensor that lies where the result is to lie.

    Example:
        >>> first_places(1, 3, torch.empty(0)).tolist()
        [True, False, False]
    """
    if beside.is_cuda:
        mask = beside.new_zeros((size,), dtype=torch.bool)
        mask[:count].fill_(True)
        return mask
    return torch.from_numpy(np.arange(size) < count)


def first_missing(ids: Tensor) -> Tensor:
    """The first place where an id is -1, of which there is one: int64, a number.

    Example:
        >>> first_missing(torch.tensor([5, -1, -1])).item()
        1
    """
    if ids.is_cuda:
        return (ids < 0).to(torch.int8).argmax()
    return torch.tensor(int((ids.numpy() < 0).argmax()))


def in_turn(ids: Tensor, out: Tensor) -> Tensor:
    """Writes ids again and again.

    Args:
        ids: int64 ``[n]``, at least one if `out` has any.
        out: int64 ``[m]``, contiguous.

    Returns:
        `out`.

    Example:
        >>> in_turn(torch.tensor([7, 8]), torch.empty(3, dtype=torch.int64)).tolist()
        [7, 8, 7]
    """
    if not len(out):
        return out
    if out.is_cuda:
        return out.copy_(ids.repeat(-(-len(out) // len(ids)))[: len(out)])
    out.numpy()[...] = np.resize(ids.numpy(), len(out))
    return out


def filled_up(values: Tensor, length: int, value: float | Tensor) -> Tensor:
    """Rows, and behind them rows of one number.

    Args:
        values: ``[n, ...]``.
        length: rows of the result, at least n.
        value: the number, or a tensor of it that lies where the rows do.

    Example:
        >>> filled_up(torch.tensor([5]), 3, -1).tolist()
        [5, -1, -1]
    """
    kind = ARRAY_DTYPES.get(values.dtype)
    if values.is_cuda or kind is None:
        longer = values.new_empty((length, *values.shape[1:]))
        longer[: len(values)].copy_(values)
        longer[len(values) :].fill_(value)
        return longer
    array = np.empty((length, *values.shape[1:]), kind)
    array[: len(values)] = values.numpy()
    array[len(values) :] = value.numpy() if isinstance(value, Tensor) else value
    return torch.from_numpy(array)


def shifted(ids: Tensor, by: int) -> Tensor:
    """Each id and a number.

    Args:
        ids: int64 ``[n]``.
        by: what is added.

    Example:
        >>> shifted(torch.tensor([5, 3]), -2).tolist()
        [3, 1]
    """
    return ids + by if ids.is_cuda else torch.from_numpy(ids.numpy() + by)


def scaled_sum(ids: Tensor, others: Tensor, factor: int) -> Tensor:
    """``ids + factor * others``, int64 ``[n]``, modulo 2**64.

    Args:
        ids: int64 or int32 ``[n]``.
        others: int64 ``[n]``.
        factor: int64.

    Example:
        >>> scaled_sum(torch.tensor([5, 3]), torch.tensor([0, 2]), 10).tolist()
        [5, 23]
    """
    if ids.is_cuda:
        return others * factor + ids
    sums: NDArray[np.int64] = others.numpy() * np.int64(factor)
    sums += ids.numpy()
    return torch.from_numpy(sums)


def scaled(numbers: Tensor, factor: int) -> Tensor:
    """``factor * numbers``, int64 ``[n]``, modulo 2**64.

    Example:
        >>> scaled(torch.tensor([3]), 10).tolist()
        [30]
    """
    return numbers * factor if numbers.is_cuda else torch.from_numpy(numbers.numpy() * np.int64(factor))


def quotients(numbers: Tensor, divisor: int) -> tuple[Tensor, Tensor]:
    """Quotients and remainders of numbers of at least 0, int64 ``[n]`` each.

    Example:
        >>> [part.tolist() for part in quotients(torch.tensor([5, 23]), 10)]
        [[0, 2], [5, 3]]
    """
    if numbers.is_cuda:
        parts = torch.div(numbers, divisor, rounding_mode="floor")
        return parts, numbers - parts * divisor
    whole, rest = np.divmod(numbers.numpy().view(np.uint64), np.uint64(divisor))  # quicker than of signed ones
    return torch.from_numpy(whole.view(np.int64)), torch.from_numpy(rest.view(np.int64))


def lengthened(rows: Tensor, length: int, pool: Pool) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Two rows, with room behind what they hold: the longer ones, and the room of each.

    Args:
        rows: int64 ``[2, n]``.
        length: of the longer ones.
        pool: where their memory comes from.

    Example:
        >>> ends, rooms = lengthened(torch.tensor([[1], [2]]), 3, Pool())
        >>> tuple(ends.shape), ends[:, :1].tolist(), [len(room) for room in rooms]
        ((2, 3), [[1], [2]], [2, 2])
    """
    known, longer = rows.shape[1], pool.empty((2, length), torch.int64)
    if longer.is_cuda:
        longer[:, :known].copy_(rows)
        return longer, (longer[0, known:], longer[1, known:])
    array = longer.numpy()
    if known:
        array[:, :known] = rows.numpy()
    return longer, (torch.from_numpy(array[0, known:]), torch.from_numpy(array[1, known:]))


def from_on(numbers: Tensor, least: int) -> Tensor:
    """Which numbers are at least this one, bool ``[n]``.

    Example:
        >>> from_on(torch.tensor([3, 5]), 4).tolist()
        [False, True]
    """
    return numbers >= least if numbers.is_cuda else torch.from_numpy(numbers.numpy() >= least)


def count_true(masks: Sequence[Tensor], pool: Pool) -> list[int]:
    """How often each mask is true; the host waits once for those of a device.

    Example:
        >>> count_true([torch.tensor([True, False]), torch.tensor([], dtype=torch.bool)], Pool())
        [1, 0]
    """
    if masks and masks[0].is_cuda:
        assert isinstance(pool, DevicePool)
        return pool.numbers(torch.stack([mask.sum() for mask in masks]))
    return [int(np.count_nonzero(mask.numpy())) for mask in masks]


def join_ids(pieces: Sequence[Tensor], out: Tensor) -> Tensor:
    """Ids end to end.

    Args:
        pieces: int64 or int32 ``[n_i]`` each.
        out: int64 ``[sum(n_i)]``, contiguous.

    Returns:
        `out`.

    Example:
        >>> join_ids([torch.tensor([3]), torch.tensor([5], dtype=torch.int32)], torch.empty(2, dtype=torch.int64)).tolist()
        [3, 5]
    """
    if not pieces:
        return out
    if not out.is_cuda:
        np.concatenate([ids.numpy() for ids in pieces], out=out.numpy())
        return out
    begin = 0
    for ids in pieces:
        out[begin : begin + len(ids)].copy_(ids)
        begin += len(ids)
    return out


def list_begins(counts: Tensor, pool: Pool | None = None) -> Tensor:
    """Where lists of some lengths begin, one after the other, int64 ``[n + 1]``.

    Args:
        counts: int64 ``[n]``.
        pool: where the memory of the result comes from.

    Example:
        >>> list_begins(torch.tensor([2, 0, 1])).tolist()
        [0, 2, 2, 3]
    """
    if counts.is_cuda:
        ends = counts.new_zeros(len(counts) + 1)
        torch.cumsum(counts, 0, out=ends[1:])
        return ends
    begins = empty(pool, (len(counts) + 1,), torch.int64)
    array = begins.numpy()
    array[0] = 0
    np.cumsum(counts.numpy(), out=array[1:])
    return begins


def link_trees(num_pos: int, num_neg: int, *, triplet: bool, beside: Tensor | None = None) -> Tensor:
    """The positive to which each end of links belongs, int64 ``[n]``: binary negatives go round, those of triplets follow one
    another.

    Args:
        num_pos, num_neg: ends of positives, which come first, and of negatives.
        triplet: whether negatives are of triplets.
        beside: as many rows, to say where the result is to lie; None: on the CPU.

    Example:
        >>> link_trees(2, 4, triplet=False).tolist(), link_trees(2, 4, triplet=True).tolist()
        ([0, 1, 0, 1, 0, 1], [0, 1, 0, 0, 1, 1])
    """
    if beside is not None and beside.is_cuda:
        at = places_in(beside)
        if not num_neg:
            return at
        behind = at - num_pos
        others = torch.div(behind, num_neg // num_pos, rounding_mode="floor") if triplet else behind % num_pos
        return torch.where(behind < 0, at, others)
    own = np.arange(num_pos)
    if not num_neg:
        return torch.from_numpy(own)
    negatives = np.repeat(own, num_neg // num_pos) if triplet else np.arange(num_neg) % num_pos
    return torch.from_numpy(np.concatenate([own, negatives]))


def places_apart(ids: Tensor, chosen: Tensor, counts: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Where ids of at least 0 that are not chosen lie, and where chosen ones: int64, ascending.

    Args:
        ids: int64 ``[n]``.
        chosen: bool ``[n]``.
        counts: how many there are of either, so that nobody waits for a device.

    Example:
        >>> [places.tolist() for places in places_apart(torch.tensor([3, 5, -1]), torch.tensor([False, True, False]), (1, 1))]
        [[0], [1]]
    """
    if not ids.is_cuda:
        array, mask = ids.numpy(), chosen.numpy()
        return torch.from_numpy(np.flatnonzero(~mask & (array >= 0))), torch.from_numpy(np.flatnonzero(mask))
    return _places(~chosen & (ids >= 0), counts[0]), _places(chosen, counts[1])


def _places(mask: Tensor, count: int) -> Tensor:
    """Where a mask of a device is true, which it is `count` times."""
    number = torch.where(mask, mask.to(torch.int64).cumsum(0).sub_(1), count)
    places = number.new_empty(count + 1).scatter_(0, number, places_in(number))  # what is not there goes behind
    return places[:count]
