"""Drawing neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from halohop.errors import HalohopError, IdError, InputError
from halohop.ops import cpu_eligible, cpu_index, cpu_sample
from halohop.ops.arguments import INT64, as_int64, integers
from halohop.ops.eligible import Eligible, Int64s, Spans, find_eligible
from halohop.ops.labor import Labor, Sources
from halohop.ops.paging import windows
from halohop.ops.pieces import Pieces
from halohop.ops.pool import Pool, empty, empty_array
from halohop.ops.random import MASK_64
from halohop.ops.weighted import Weights, WeightSums

ALL = 2**32 - 1
"""A fanout that no list exceeds."""


def sample_neighbors(
    indptr: Tensor | Pieces,
    rows: Tensor,
    raw: Tensor,
    fanout: int,
    key: int,
    *,
    replace: bool = False,
    edge_bounds: Sequence[int] | Int64s | Tensor = (0,),
    weights: Tensor | Pieces | None = None,
    weight_sums: WeightSums | None = None,
    eligible: Eligible | None = None,
    sources: Sources | None = None,
    pool: Pool | None = None,
    most: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Draws up to `fanout` entries from each row's list of neighbours (uniform neighbour sampling, GraphSAGE 2017).

    What is drawn for a row is a function of (key, raw id, fanout, length of the list, replace) and, where they are given, of the
    weights and times in the list, and of nothing else. So a graph gives the same draws however it is divided, for every client.

    Without replacement a list no longer than the fanout is taken whole, in stored order; from a longer one Floyd's algorithm
    takes a uniformly random subset. With replacement every row that has a neighbour gets `fanout` independent draws. Where some
    entries may not be drawn, the list is what remains of it.

    Args:
        indptr: int64 ``[num_rows + 1]``: the list of row v is at the positions ``indptr[v]:indptr[v + 1]``, fewer than 2**32. Or
            such an array in pieces (with ``extra=1``), each of which counts from 0.
        rows: rows to draw for (lids), int64 or int32 ``[n]``; a row may occur twice.
        raw: the ids that the random numbers depend on, int64 or int32 ``[n]``; any value.
        fanout: how many to draw at most; -1 takes all neighbours, with `replace` too.
        key: 64-bit key of the hop, from `stream_key`.
        replace: draw with replacement.
        edge_bounds: what to add to the positions of each piece.
        weights: draw by weight instead: float32 or float64, one per position; finite, at least 0, and 0 is never drawn. Without
            replacement the next neighbour is always drawn in proportion to the weights of those that remain, and from lists
            longer than the fanout they come in the order drawn.
        weight_sums: of the same weights: they make drawing faster and change no result.
        eligible: which entries may be drawn.
        sources: draw by random numbers of the entries' sources, instead of the rows' own, so that rows draw alike (LABOR). What
            is drawn for a row is then a function of (key, fanout, sources in the list) and of weights and times. From lists
            longer than the fanout entries come in the order drawn. Without replacement only.
        pool: where the memory of the results comes from.
        most: on a device, how many positions to return, where draws are uniform and no times are given: -1 behind those drawn.
            The host then waits for nothing. A row -1 has no list; more that would be drawn are a fault of the pool's.

    Returns:
        How many were drawn for each row, int64 ``[n]``, and their positions row after row, int64 ``[sum]``.

    Raises:
        IdError: a row is outside indptr; weights or times lack an entry of a list.
        InputError: wrong dtypes, shapes or fanout; indptr falls; a list of 2**32 entries or more; a tensor not on the CPU; a
            weight that is negative or not finite; weights or sources together with ``eligible.last``, sources with `replace`.

    Example:
        >>> indptr = torch.tensor([0, 2, 5])
        >>> counts, positions = sample_neighbors(indptr, torch.tensor([1, 0]), torch.tensor([1, 0]), fanout=2, key=7)
        >>> counts.tolist(), len(positions), positions[2:].tolist()
        ([2, 2], 4, [0, 1])
    """
    limit = np.uint64(limit_of(fanout))
    last = eligible is not None and eligible.last
    if last and weights is not None:
        raise InputError("weights and eligible.last are both given: the most recent entries are no matter of chance")
    if sources is not None and (last or replace):
        other = "eligible.last, and the most recent entries are no matter of chance" if last else "replace"
        raise InputError(f"sources are given together with {other}; leave one of them out")
    replace = replace and fanout >= 0 and not last
    if rows.is_cuda:
        from halohop.ops import gpu_drawing

        drawn_by = weights, weight_sums, eligible, sources
        return gpu_drawing.sample(indptr, rows, raw, int(limit), key & MASK_64, replace, edge_bounds, *drawn_by, pool, most)
    lists = indptr if isinstance(indptr, Pieces) else _one_piece(indptr)
    starts, degrees, counts, total = _find_spans(lists, rows, edge_bounds, limit, replace, pool)
    raw_ids = as_int64(integers(raw, "raw", length=len(counts)))
    positions = empty(pool, (total,), torch.int64).numpy()
    draw = _Draw(stream=np.uint64(key & MASK_64), limit=limit, replace=replace)
    if weights is None and eligible is None and sources is None:
        draw.uniform(starts, degrees, raw_ids, positions)
    elif total > 0:
        row_ids = as_int64(integers(rows, "rows"))
        weigh = None if weights is None else Weights(weights, starts, degrees, pool, sums=weight_sums, rows=row_ids)
        labor = None if sources is None else Labor(sources, starts, degrees, pool)
        list_over = ALL if weigh is None else weigh.list_over
        if labor is not None:
            list_over = 0 if weights is not None else int(limit)
        used = 0
        for spans in find_eligible(eligible or Eligible(), starts, degrees, int(limit), list_over=list_over, pool=pool):
            counts[spans.rows], drawn = draw.some(spans, raw_ids[spans.rows], weigh, labor)
            positions[used : used + len(drawn)] = drawn
            used += len(drawn)
        positions = positions[:used]
    return torch.from_numpy(counts), torch.from_numpy(positions)


def list_lengths(indptr: Tensor | Pieces, rows: Tensor, *, pool: Pool | None = None) -> Tensor:
    """How long each row's list of neighbours is: int64 ``[n]``.

    Args:
        indptr, rows, pool: as of `sample_neighbors`.

    Raises:
        IdError, InputError: as of `sample_neighbors`.

    Example:
        >>> list_lengths(torch.tensor([0, 2, 5]), torch.tensor([1, 0, 1])).tolist()
        [3, 2, 3]
    """
    if rows.is_cuda:
        from halohop.ops import gpu_drawing

        return gpu_drawing.lengths(indptr, rows, pool)
    lists = indptr if isinstance(indptr, Pieces) else _one_piece(indptr)
    _, degrees, _, _ = _find_spans(lists, rows, [0] * len(lists.bounds), np.uint64(ALL), False, pool)
    return torch.from_numpy(degrees)


def limit_of(fanout: int) -> int:
    """The most entries that are drawn from a list.

    Raises:
        InputError: it is no fanout.
    """
    if fanout < -1:
        raise InputError(f"fanout={fanout}: give a number of neighbours, or -1 for all of them")
    return ALL if fanout < 0 else min(fanout, ALL)


def _find_spans(
    lists: Pieces, rows: Tensor, edge_bounds: Sequence[int] | Int64s | Tensor, limit: np.uint64, replace: bool, pool: Pool | None
) -> tuple[Int64s, Int64s, Int64s, int]:
    """Where the rows' lists begin, their lengths, how many will be drawn from each, and in all."""
    row_ids = as_int64(integers(rows, "rows"))
    starts, degrees, counts = (empty_array(pool, row_ids.shape, INT64) for _ in range(3))
    offsets = np.asarray(edge_bounds, np.int64)
    total = 0
    for part in windows(lists, row_ids):
        into = starts[part], degrees[part], counts[part]
        done, drawn = cpu_index.find_spans(
            lists.words, lists.origins, lists.bounds, offsets, row_ids[part], limit, replace, *into
        )
        if done < part.stop - part.start:
            raise refused_list(lists, int(row_ids[part][done]))
        total += int(drawn)
    return starts, degrees, counts, total


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draw:
    """How is drawn from a list, whatever its entries."""

    stream: np.uint64
    limit: np.uint64
    replace: bool

    def uniform(self, starts: Int64s, degrees: Int64s, raw: Int64s, positions: Int64s) -> None:
        if self.replace:
            cpu_sample.draw_replacing(starts, degrees, raw, self.stream, self.limit, positions)
        elif self.limit <= cpu_sample.FEW:
            cpu_sample.draw_few(starts, degrees, raw, self.stream, self.limit, positions)
        else:
            longest = int(degrees.max(initial=0))
            num_slots = 1 << (2 * int(self.limit) - 1).bit_length() if longest > self.limit else 1
            cpu_sample.draw_many(starts, degrees, raw, self.stream, self.limit, positions, np.zeros(num_slots, np.uint64))

    def some(self, spans: Spans, raw: Int64s, weights: Weights | None, labor: Labor | None) -> tuple[Int64s, Int64s]:
        """How many are drawn from each of the spans, and their positions."""
        if weights is not None and labor is not None:
            listing, chances = weights.weighed(spans)
            kept = labor.keep(labor.shifts[spans.rows], spans.lengths, listing, self.stream, self.limit, chances)
            return spans.lengths, listing[:kept]
        if weights is not None:
            return weights.draw(spans, raw, self.stream, self.limit, replace=self.replace)
        if labor is not None:
            spans = labor.draw(spans, self.stream, self.limit)
        most = np.int64(self.limit)
        counts = np.where(spans.lengths > 0, most, 0) if self.replace else np.minimum(spans.lengths, most)
        positions = np.empty(int(counts.sum()), np.int64)
        self.uniform(spans.starts, spans.lengths, raw, positions)
        cpu_eligible.look_up_listed(spans.listing, positions)
        return counts, positions


def _one_piece(indptr: Tensor) -> Pieces:
    array = integers(indptr, "indptr", only_int64=True)
    if len(array) == 0:
        raise InputError("indptr is empty; it needs one entry more than there are rows")
    return Pieces([torch.from_numpy(array)], [0, len(array) - 1], extra=1)


def refused_list(lists: Pieces, row: int) -> HalohopError:
    """What is wrong with the row that a kernel stopped at."""
    tensor, local = lists.find(row)
    if tensor is None:
        return IdError(f"rows holds {row}, which is {lists.explain(row)}")
    begin, end = int(tensor[local]), int(tensor[local + 1])
    return InputError(f"row {row} has {end - begin} neighbours (indptr goes from {begin} to {end}); 0 to 2**32 - 1 are possible")
