"""Grouping: ids by owner, answers back into the order of the question, edges by destination."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops import cpu_index
from halohop.ops.arguments import as_int64, integers, target
from halohop.ops.pool import Pool, empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Positions of ids, grouped by bucket.

    Args:
        order: int64 ``[n]``; bucket b holds the positions ``order[starts[b]:starts[b + 1]]``, ascending.
        starts: ``num_buckets + 1`` numbers.
    """

    order: Tensor
    starts: tuple[int, ...]


def bucket(ids: Tensor, bounds: Sequence[int], bucket_of_part: Sequence[int], *, pool: Pool | None = None) -> Buckets:
    """Groups ids by who answers for them. Stable: within a bucket the ids keep their order.

    Args:
        ids: int64 or int32 ``[n]``.
        bounds: part p holds ``bounds[p] <= id < bounds[p + 1]``; never falling; equal neighbours make an empty part.
        bucket_of_part: a bucket 0, 1, ... for every part; several parts may share one. There are ``max + 1`` buckets.
        pool: where the memory of the result comes from.

    Raises:
        IdError: an id outside the bounds.
        InputError: bounds and bucket_of_part do not fit together, or wrong dtypes.

    Example:
        >>> buckets = bucket(torch.tensor([5, 0, 4, 9]), bounds=[0, 3, 5, 10], bucket_of_part=[0, 1, 0])
        >>> buckets.order.tolist(), buckets.starts
        ([0, 1, 3, 2], (0, 3, 4))
    """
    array = integers(ids, "ids")
    if len(bounds) != len(bucket_of_part) + 1 or any(low > high for low, high in pairwise(bounds)):
        raise InputError(f"{len(bucket_of_part)} parts need {len(bucket_of_part) + 1} bounds that never fall, got {list(bounds)}")
    if min(bucket_of_part, default=0) < 0:
        raise InputError(f"bucket_of_part={list(bucket_of_part)}: buckets are 0, 1, ...")
    sizes = np.zeros(max(bucket_of_part, default=-1) + 1, np.int64)
    buckets = empty(pool, (len(array),), torch.int32).numpy()
    parts = np.array(bucket_of_part, np.int32)
    done = cpu_index.find_buckets(array, np.array(bounds, np.int64), parts, buckets, sizes)
    if done < len(array):
        raise IdError(f"id {int(array[done])} is outside the graph: ids go from {bounds[0]} to {bounds[-1] - 1}")
    starts = tuple(accumulate(sizes.tolist(), initial=0))
    order = empty(pool, (len(array),), torch.int64)
    cpu_index.group(buckets, np.array(starts, np.int64), order.numpy())
    return Buckets(order=order, starts=starts)


def only_part(ids: Tensor, bounds: Sequence[int]) -> int | None:
    """The part that has all of the ids; None where they are in several, in none, or there are no ids.

    Args:
        ids: int64 ``[n]``.
        bounds: as of `bucket`.

    Example:
        >>> only_part(torch.tensor([5, 4]), [0, 3, 3, 6]), only_part(torch.tensor([5, 0]), [0, 3, 3, 6])
        (2, None)
    """
    array = ids.numpy()
    if not len(array):
        return None
    part = bisect_right(bounds, int(array.min())) - 1
    return part if 0 <= part < len(bounds) - 1 and int(array.max()) < bounds[part + 1] else None


def distinct_pairs(src: Tensor, dst: Tensor, num_src: int, num_dst: int, *, pool: Pool | None = None) -> Tensor:
    """Where each pair of ends occurs first, ordered by destination, then by source: how edges are coalesced.

    Args:
        src, dst: ends of the edges, int64 or int32 ``[num_edges]`` each.
        num_src, num_dst: how many ends there are.
        pool: of the device that the ends are on; the host waits for the number of pairs.

    Returns:
        Positions, int64 ``[num_pairs]``.

    Raises:
        IdError: an end outside 0..num-1.
        InputError: different lengths, a negative number, or wrong dtypes.

    Example:
        >>> distinct_pairs(torch.tensor([1, 0, 1, 0]), torch.tensor([1, 1, 1, 0]), 2, 2).tolist()
        [3, 1, 0]
    """
    if src.is_cuda:
        from halohop.ops import gpu_order

        return gpu_order.distinct_pairs(src, dst, num_src, pool)
    sources, destinations = integers(src, "src"), integers(dst, "dst", length=len(src))
    by_src = build_csc(src, num_src)[1].numpy()  # a radix sort of pairs: each step is stable
    order = by_src[build_csc(torch.from_numpy(destinations[by_src]), num_dst)[1].numpy()]
    sources, destinations = sources[order], destinations[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (sources[1:] != sources[:-1]) | (destinations[1:] != destinations[:-1])
    return torch.from_numpy(order[first])


def never_falls(indptr: Tensor, values: Tensor) -> bool:
    """Whether values never fall within a list; those that are no numbers count as falling, but alone in a list.

    Args:
        indptr: int64 ``[num_rows + 1]``: the list of row v is at the positions ``indptr[v]:indptr[v + 1]`` of `values`.
        values: integers or floats ``[num_entries]``.

    Example:
        >>> indptr = torch.tensor([0, 2, 4])
        >>> never_falls(indptr, torch.tensor([3, 5, 1, 1])), never_falls(indptr, torch.tensor([5, 3, 1, 1]))
        (True, False)
    """
    rises = values[1:] >= values[:-1]
    begins = indptr[(indptr > 0) & (indptr < len(values))]
    rises[begins - 1] = True  # from the last of a list to the first of the next
    return bool(rises.all())


def copy_ids(ids: Tensor, out: Tensor) -> Tensor:
    """Copies ids, in the calling thread alone: torch would share the copy with its intra-op threads, which belong to the trainer.

    Args:
        ids: int64 or int32 ``[n]``.
        out: int64 ``[n]``, contiguous.

    Returns:
        `out`.

    Raises:
        InputError: wrong dtypes or shapes.

    Example:
        >>> copy_ids(torch.tensor([3, 5], dtype=torch.int32), torch.empty(2, dtype=torch.int64)).tolist()
        [3, 5]
    """
    if ids.is_cuda:
        return out.copy_(ids)
    np.copyto(target(out, "out", len(ids)), integers(ids, "ids"))
    return out


def repeat_positions(counts: Tensor, begin: int, out: Tensor) -> None:
    """Writes ``begin + i`` for each of the ``counts[i]`` neighbours that row i has drawn: the destinations of a hop's edges.

    Args:
        counts: int64 or int32 ``[n]``.
        begin: of the first row.
        out: int64 ``[sum(counts)]``, contiguous.

    Raises:
        InputError: `out` has another length, or is no contiguous int64 tensor.

    Example:
        >>> out = torch.empty(3, dtype=torch.int64)
        >>> repeat_positions(torch.tensor([2, 0, 1]), 5, out)
        >>> out.tolist()
        [5, 5, 7]
    """
    if out.is_cuda:
        from halohop.ops import gpu_sample

        gpu_sample.repeat_positions(counts, begin, out)
        return
    places = target(out, "out", len(out))
    if not cpu_index.repeat_positions(as_int64(integers(counts, "counts")), begin, places):
        raise InputError(f"out has {len(out)} entries, but counts sum up to {int(counts.sum())}")


def count_keys(keys: Tensor, counts: Tensor) -> None:
    """Adds how often each key occurs.

    Args:
        keys: int64 or int32 ``[n]``, each in 0..len(counts)-1.
        counts: int64 or int32, contiguous.

    Raises:
        IdError: another key.
        InputError: wrong dtypes.

    Example:
        >>> counts = torch.zeros(3, dtype=torch.int32)
        >>> count_keys(torch.tensor([2, 0, 2]), counts), counts.tolist()
        (None, [1, 0, 2])
    """
    array = integers(keys, "keys")
    done = cpu_index.count(array, integers(counts, "counts"))
    if done < len(array):
        raise IdError(f"key {int(array[done])} is none of 0 to {len(counts) - 1}")


def build_csc(dst: Tensor, num_dst: int, *, dtype: torch.dtype = torch.int64) -> tuple[Tensor, Tensor]:
    """Sorts edges by destination, for compressed sparse column form. Stable: each list keeps the order of the input.

    Args:
        dst: destinations of the edges, int64 or int32 ``[num_edges]``.
        num_dst: how many destinations there are.
        dtype: of the order, int64 or int32.

    Returns:
        indptr, int64 ``[num_dst + 1]``, and order, ``[num_edges]``: the k-th edge in CSC order was edge ``order[k]``.

    Raises:
        IdError: a destination outside 0..num_dst-1.
        InputError: num_dst is negative, or wrong dtypes.

    Example:
        >>> indptr, order = build_csc(torch.tensor([2, 0, 2]), num_dst=3)
        >>> indptr.tolist(), order.tolist()
        ([0, 1, 1, 3], [1, 0, 2])
    """
    indptr = count_lists(dst, num_dst)
    order = torch.empty(len(dst), dtype=dtype)
    cpu_index.group(integers(dst, "dst"), indptr[:-1].numpy().copy(), order.numpy())
    return indptr, order


def count_lists(dst: Tensor, num_dst: int) -> Tensor:
    """Where the list of each destination begins once edges are sorted by destination: the first half of `build_csc`.

    Returns:
        int64 ``[num_dst + 1]``.

    Raises:
        IdError, InputError: as of `build_csc`.

    Example:
        >>> count_lists(torch.tensor([2, 0, 2]), num_dst=3).tolist()
        [0, 1, 1, 3]
    """
    if num_dst < 0:
        raise InputError(f"num_dst={num_dst} is negative")
    keys = integers(dst, "dst")
    indptr = np.zeros(num_dst + 1, np.int64)
    done = cpu_index.count(keys, indptr[1:])
    if done < len(keys):
        raise IdError(f"dst holds {int(keys[done])}, but destinations go from 0 to {num_dst - 1}")
    return torch.from_numpy(np.cumsum(indptr, out=indptr))
