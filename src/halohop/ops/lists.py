"""Lists of values that came in pieces, back in the order of the question."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_index, cpu_lists
from halohop.ops.arguments import as_int64, integers
from halohop.ops.pool import Pool, empty


def stitch(counts: Tensor, order: Tensor, *, pool: Pool | None = None) -> tuple[Tensor, Tensor]:
    """Brings segments of values, which were asked for bucket by bucket, back into the original order.

    Args:
        counts: lengths of the segments in bucket order, int64 or int32 ``[n]``.
        order: segment j belongs at the original position ``order[j]``, int64 or int32 ``[n]``; every position once.
        pool: where the memory of the results comes from.

    Returns:
        The lengths in the original order, int64 ``[n]``, and `source`, int64 ``[sum(counts)]``:
        ``values_in_original_order = values_in_bucket_order[source]``.

    Raises:
        InputError: `order` is no permutation, a length is negative, or wrong dtypes.

    Example:
        >>> counts, source = stitch(torch.tensor([2, 1]), torch.tensor([1, 0]))
        >>> counts.tolist(), source.tolist()
        ([1, 2], [2, 0, 1])
    """
    lengths = as_int64(integers(counts, "counts"))
    places = as_int64(integers(order, "order", length=len(counts)))
    counts_out = empty(pool, (len(lengths),), torch.int64)
    begins = empty(pool, (len(lengths),), torch.int64).numpy()
    begins.fill(-1)
    done = cpu_lists.place_segments(lengths, places, counts_out.numpy(), begins)
    if done < len(lengths):
        what = f"counts[{done}]={lengths[done]}, order[{done}]={places[done]}"
        raise InputError(f"{what}: counts must not be negative, order must hold each of 0 to {len(lengths) - 1} once")
    source = empty(pool, (int(lengths.sum()),), torch.int64)
    cpu_index.list_segments(counts_out.numpy(), begins, source.numpy())
    return counts_out, source


def stitch_lists(
    pieces: Sequence[tuple[Tensor, Tensor, Sequence[Tensor]]], *, pool: Pool | None = None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Lists of values that were asked for in pieces, each list at its place: `stitch` and the gathers after it in one pass.

    Args:
        pieces: of each, the lengths of its lists, ``[n]``; their places in the whole, ``[n]``, each place once; and
            columns of the lists' values end to end, ``[sum of the lengths]`` each; int64 or int32. All pieces have columns alike.
        pool: where the memory of the results comes from.

    Returns:
        The lengths of all lists, int64 ``[sum of n]``, and the columns.

    Raises:
        InputError: a length is negative, places are no permutation, a column is not as long as its lists are together or has
            another dtype than in another piece.

    Example:
        >>> one, other = torch.tensor([[1], [1]]), torch.tensor([[2, 0], [0, 2]])
        >>> counts, (values,) = stitch_lists([(*one, [torch.tensor([7])]), (*other, [torch.tensor([8, 9])])])
        >>> counts.tolist(), values.tolist()
        ([2, 1, 0], [8, 9, 7])
    """
    total = sum(len(counts) for counts, _, _ in pieces)
    counts_out = empty(pool, (total,), torch.int64)
    starts = empty(pool, (total,), torch.int64).numpy()
    starts.fill(-1)
    known: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for counts, order, columns in pieces:
        lengths, places = as_int64(integers(counts, "counts")), as_int64(integers(order, "order", length=len(counts)))
        known.append((lengths, places))
        done = cpu_lists.place_segments(lengths, places, counts_out.numpy(), starts)
        if done < len(lengths):
            what = f"counts[{done}]={lengths[done]}, order[{done}]={places[done]}"
            raise InputError(f"{what}: counts must not be negative, order must hold each of 0 to {total - 1} once")
        for column in columns:
            integers(column, "a column", length=int(lengths.sum()))
    np.cumsum(counts_out.numpy(), out=starts)
    starts -= counts_out.numpy()
    merged = []
    for parts in zip(*(columns for _, _, columns in pieces), strict=True):
        if len({part.dtype for part in parts}) > 1:
            raise InputError(f"a column is {parts[0].dtype} and {parts[-1].dtype} in several pieces; make them alike")
        out = empty(pool, (int(starts[-1] + counts_out[-1]) if total else 0,), parts[0].dtype)
        for part, (lengths, places) in zip(parts, known, strict=True):
            cpu_lists.place_lists(lengths, places, starts, integers(part, "a column"), out.numpy())
        merged.append(out)
    return counts_out, tuple(merged)
