"""Edges in memory, sorted into the lists of their nodes."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops import cpu_sorting
from halohop.ops.arguments import integers
from halohop.ops.pool import Pool, empty

_INT32_MAX = 2**31 - 1
_ALONE = 1 << 20  # edges that a thread is worth
_THREADS = 4  # at most: each reads all edges
_PLACE_BITS = 32
_DIGIT_BITS = 11


def sort_edges(listed: Tensor, others: Tensor, num_listed: int, num_others: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Sorts edges into lists, one for each of the nodes at one of their ends. Stable: a list keeps the order of the edges.

    Large graphs are sorted by several threads, as many as torch has; the result is the same for any number.

    Args:
        listed: the end whose lists are made, of every edge, int64 or int32 ``[num_edges]``.
        others: the other end, likewise.
        num_listed, num_others: how many nodes there are at each end.

    Returns:
        Where the lists begin, int64 ``[num_listed + 1]``; the other ends list after list, and the number of the edge at each
        place, ``[num_edges]``. Both are int32 where that holds all of them, else int64; in place of the numbers None if the edges
        are sorted already. What need not be changed is returned as it is, not as a copy.

    Raises:
        IdError: an end outside 0..num-1.
        InputError: different lengths, a negative number, or wrong dtypes.

    Example:
        >>> indptr, indices, order = sort_edges(torch.tensor([2, 0, 2]), torch.tensor([1, 2, 0]), 3, 3)
        >>> indptr.tolist(), indices.tolist(), order.tolist()
        ([0, 1, 1, 3], [2, 1, 0], [1, 0, 2])
    """
    if num_listed < 0 or num_others < 0:
        raise InputError(f"num_listed={num_listed}, num_others={num_others}: there cannot be less than none")
    keys, ends = integers(listed, "listed"), integers(others, "others", length=len(listed))
    begins = np.zeros(num_listed + 1, np.int64)
    if not cpu_sorting.count_lists(keys, ends, np.uint64(num_others), begins[1:]):
        raise _no_node(listed, others, num_listed, num_others)
    np.cumsum(begins, out=begins)
    indptr = torch.from_numpy(begins)
    if bool((listed[1:] >= listed[:-1]).all()):
        return indptr, others.to(_dtype(num_others)), None
    indices = torch.empty(len(keys), dtype=_dtype(num_others))
    order = torch.empty(len(keys), dtype=_dtype(len(keys)))
    _fill(keys, ends, begins, indices, order)
    return indptr, indices, order


def sorted_begins(listed: Tensor, num_listed: int) -> Tensor | None:
    """Where the list of each node begins, if edges are sorted by the end whose lists they make.

    Args:
        listed: that end of every edge, int64 or int32 ``[num_edges]``.
        num_listed: how many nodes there are.

    Returns:
        int64 ``[num_listed + 1]``; None if the edges are not sorted, or an end is no node.

    Raises:
        InputError: a negative number, or another dtype.

    Example:
        >>> sorted_begins(torch.tensor([0, 0, 2]), 4).tolist(), sorted_begins(torch.tensor([2, 0]), 4)
        ([0, 2, 2, 3, 3], None)
    """
    if num_listed < 0:
        raise InputError(f"num_listed={num_listed}: there cannot be less than none")
    begins = np.zeros(num_listed + 1, np.int64)
    return torch.from_numpy(begins) if cpu_sorting.begin_lists(integers(listed, "listed"), begins) else None


def ascending_order(ids: Tensor, *, pool: Pool | None = None) -> Tensor:
    """The positions of ids in ascending order; stable.

    Args:
        ids: int64 or int32 ``[n]``; quick where they are less than 2**32 apart.
        pool: where the memory of the result comes from.

    Returns:
        int64 ``[n]``.

    Raises:
        InputError: another dtype or shape.

    Example:
        >>> ascending_order(torch.tensor([7, 3, 5, 3])).tolist()
        [1, 3, 2, 0]
    """
    if ids.is_cuda:
        return torch.argsort(ids, stable=True)
    array = integers(ids, "ids")
    if not len(array):
        return torch.empty(0, dtype=torch.int64)
    least = int(array.min())
    bits = (int(array.max()) - least).bit_length()
    if max(bits, len(array).bit_length()) > _PLACE_BITS:
        return torch.from_numpy(np.argsort(array, kind="stable"))
    order, spare = (empty(pool, (len(array),), torch.int64).numpy().view(np.uint64) for _ in range(2))
    np.subtract(array, least, out=order.view(np.int64))
    order <<= np.uint64(_PLACE_BITS)
    order |= np.arange(len(array), dtype=np.uint64)
    steps = -(-bits // _DIGIT_BITS)
    for step in range(steps):
        digit_bits = -(-bits // steps)
        shift, cursors = np.uint64(_PLACE_BITS + step * digit_bits), np.zeros(1 << digit_bits, np.uint64)
        cpu_sorting.sort_by_digit(order, shift, cursors, spare)
        order, spare = spare, order
    order &= np.uint64((1 << _PLACE_BITS) - 1)
    return torch.from_numpy(order.view(np.int64))


def _fill(keys: np.ndarray, ends: np.ndarray, begins: np.ndarray, indices: Tensor, order: Tensor) -> None:
    """Each thread does the lists of a range of nodes, which have about as many edges as the other ranges."""
    cursors = begins[:-1].copy()
    threads = max(min(torch.get_num_threads(), _THREADS, len(keys) // _ALONE), 1)
    inner = np.searchsorted(begins, np.linspace(0, len(keys), threads + 1)[1:-1]).tolist()
    fill = partial(cpu_sorting.fill_lists, keys, ends)
    written = cursors, indices.numpy(), order.numpy()
    ranges = [(np.uint64(first), np.uint64(last)) for first, last in pairwise([0, *inner, len(cursors)])]
    with ThreadPoolExecutor(threads, thread_name_prefix="halohop-sort") as pool:
        others = [pool.submit(fill, *own, *written) for own in ranges[1:]]
        fill(*ranges[0], *written)
        for other in others:
            other.result()


def _dtype(count: int) -> torch.dtype:
    """The smaller one that holds 0 to count - 1."""
    return torch.int32 if count - 1 <= _INT32_MAX else torch.int64


def _no_node(listed: Tensor, others: Tensor, num_listed: int, num_others: int) -> IdError:
    """Names the first end that is no node."""
    for name, ids, count in (("listed", listed, num_listed), ("others", others, num_others)):
        bad = ids[(ids < 0) | (ids >= count)]
        if len(bad):
            return IdError(f"{name} holds {int(bad[0])}, but nodes go from 0 to {count - 1}")
    raise AssertionError
