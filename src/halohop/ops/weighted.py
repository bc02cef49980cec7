"""Drawing neighbours by weight."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_eligible, cpu_labor, cpu_weighted
from halohop.ops.arguments import integers
from halohop.ops.eligible import Int64s, Spans, Values, check_values
from halohop.ops.lists import stitch
from halohop.ops.pieces import Pieces
from halohop.ops.pool import Pool

WEIGHT_DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)

_READ = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool)  # by kernels, where they lie
_ALL = 2**32 - 1  # a length that no list exceeds
_NO_SUMS = np.empty(0, np.float64)


class WeightError(InputError):
    """A weight that is negative or not finite.

    Args:
        weight: its value.
        position: its own.

    Attributes:
        position: its own.
        problem: what is wrong with it.
    """

    def __init__(self, weight: float, position: int) -> None:
        self.position = position
        self.problem = f"weight {weight:g}"
        super().__init__(f"{self.problem} at position {position}: a weight is a finite number, 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSums:
    """Running sums of weights, so that a draw from a long list reads a few of its weights only. They change no draw.

    Args:
        sums: of `sum_weights`, or such an array in pieces.
        edge_bounds: the position of each piece's first entry, and the end. Those of a device are the bounds of the weights.
        row_bounds: the row of each piece's first list, and the end. Those of a device are the bounds of the lists.
    """

    sums: Pieces
    edge_bounds: Sequence[int]
    row_bounds: Sequence[int]

    def begins(self, rows: Int64s, starts: Int64s) -> NDArray[np.uint64]:
        """Where the sums of the rows' lists begin in memory."""
        edge_bounds, row_bounds = np.array(self.edge_bounds, np.int64), np.array(self.row_bounds, np.int64)
        piece = np.searchsorted(row_bounds, rows, side="right") - 1
        sums_begin = _begins(starts - edge_bounds[piece], rows - row_bounds[piece])
        places: NDArray[np.uint64] = self.sums.origins[piece] + (self.sums.bounds[piece] + sums_begin).astype(np.uint64)
        return places


def sum_weights(indptr: Tensor, weights: Tensor, *, refuse: bool = True) -> Tensor:
    """Running sums of the weights in each list, one for every 8 entries: see `WeightSums`.

    Those of a run of rows are a part of those of all rows: what begins at row v begins at ``indptr[v] // 8 + v`` among these.

    Args:
        indptr: int64 ``[num_rows + 1]``: the list of row v is at the positions ``indptr[v]:indptr[v + 1]``.
        weights: of the entries from position ``indptr[0]`` on, ``[num_entries]``, of a dtype of `WEIGHT_DTYPES`.
        refuse: whether to raise `WeightError`; else the last sum of a list with such a weight is NaN, by which draws know it.

    Returns:
        float64 ``[indptr[-1] // 8 - indptr[0] // 8 + num_rows]``: a byte for each entry, and 8 for each row.

    Raises:
        WeightError: a weight is negative or not finite.
        InputError: wrong dtypes or shapes.

    Example:
        >>> sum_weights(torch.tensor([0, 2, 3]), torch.tensor([1.0, 0.5, 2.0])).tolist()
        [1.5, 2.0]
    """
    check_values(weights, "weights", WEIGHT_DTYPES)
    begins = integers(indptr, "indptr", only_int64=True)
    if len(begins) == 0 or begins[-1] - begins[0] != len(weights):
        raise InputError(f"weights has {len(weights)} entries, indptr is of {begins[-1] - begins[0] if len(begins) else 'none'}")
    starts, lengths, first = begins[:-1], np.diff(begins), int(begins[0])
    if (lengths < 0).any():
        raise InputError(
            f"indptr falls at row {int((lengths < 0).argmax())}; it goes from 0 to the number of entries, never down"
        )
    sums = np.zeros(int((begins[-1] >> 3) - (first >> 3)) + len(starts), np.float64)
    array = _as_floats(weights.detach().resolve_neg().contiguous())
    places = (starts - first).astype(np.uint64)
    sums_begin, done = _begins(starts, np.arange(len(starts))) - (first >> 3), 0
    while True:
        done += int(cpu_weighted.sum_lists(array, places[done:], lengths[done:], sums_begin[done:], sums))
        if done == len(starts):
            return torch.from_numpy(sums)
        place, length = int(places[done]), int(lengths[done])
        if refuse:
            refuse_weights(array[place : place + length], int(starts[done]) + np.arange(length))
        sums[sums_begin[done] + (length - 1 >> 3)] = np.nan
        done += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lists:
    """Lists of weights in one array, where each begins, and what position its first entry has."""

    weights: NDArray[Any]
    places: NDArray[np.uint64]
    lengths: Int64s
    firsts: Int64s
    raw: Int64s
    wholes: Int64s
    begins: NDArray[np.uint64]
    sums: NDArray[np.float64]
    listing: Int64s | None

    def draw(self, stream: np.uint64, fanout: np.uint64, replace: bool) -> tuple[Int64s, Int64s]:
        most = np.int64(fanout)
        counts = np.where(self.lengths > 0, most, 0) if replace else np.minimum(self.lengths, most)
        positions = np.empty(int(counts.sum()), np.int64)
        is_chosen = not replace and bool((self.lengths > most).any())
        slots = np.zeros(1 << (2 * int(fanout) - 1).bit_length() if is_chosen else 1, np.uint64)
        done, drawn = cpu_weighted.draw(
            *(self.weights, self.places, self.lengths, self.firsts, self.raw, stream, fanout, replace),
            *(self.wholes, self.begins, self.sums, slots, counts, positions),
        )
        if done < len(counts):
            begin, length = int(self.places[done]), int(self.lengths[done])
            positions = self.firsts[done] + np.arange(length)
            refuse_weights(self.weights[begin : begin + length], positions if self.listing is None else self.listing[positions])
        return counts, positions[:drawn]


class Weights:
    """A weight per entry, addressed by the positions that `sample_neighbors` returns; bool counts as 0 or 1.

    Args:
        weights, sums, rows: as of `sample_neighbors`.
        starts, degrees: of the rows' lists.

    Attributes:
        list_over: lists that are longer must be listed before they are drawn from.
    """

    def __init__(
        self,
        weights: Tensor | Pieces,
        starts: Int64s,
        degrees: Int64s,
        pool: Pool | None,
        *,
        sums: WeightSums | None = None,
        rows: Int64s | None = None,
    ) -> None:
        check_values(weights, "weights", WEIGHT_DTYPES)
        self._values = Values("weights", weights, pool)
        self._values.check_spans(starts, degrees)
        self._memory = self._values.memory(starts, degrees, _READ)
        self.list_over = 0 if self._memory is None else _ALL
        self._starts, self._wholes = starts, degrees
        self._begins, self._sums = np.zeros(len(starts), np.uint64), _NO_SUMS
        if sums is not None and rows is not None and self._memory is not None and len(starts):
            self._begins, self._sums = sums.begins(rows, starts), sums.sums.words.view(np.float64)

    def draw(self, spans: Spans, raw: Int64s, stream: np.uint64, fanout: np.uint64, *, replace: bool) -> tuple[Int64s, Int64s]:
        """How many are drawn for each row of `spans`, and their positions."""
        is_listed = spans.starts < 0 if self._memory is not None else np.ones(len(raw), np.bool_)
        ways = [lists for lists in (self._in_memory(spans, raw, ~is_listed), self._listed(spans, raw, is_listed)) if lists]
        found = [lists.draw(stream, fanout, replace) for lists in ways]
        if len(found) == 1:
            ((counts, positions),) = found
        else:
            order = np.concatenate([np.flatnonzero(~is_listed), np.flatnonzero(is_listed)])
            parts, apart = np.concatenate([own for own, _ in found]), np.concatenate([own for _, own in found])
            in_order, source = stitch(torch.from_numpy(parts), torch.from_numpy(order))
            counts, positions = in_order.numpy(), apart[source.numpy()]
        cpu_eligible.look_up_listed(spans.listing, positions)
        return counts, positions

    def weighed(self, spans: Spans) -> tuple[Int64s, NDArray[np.float64]]:
        """The entries of `spans`, all of which must be listed, that have a weight, and the weights. Overwrites `spans`."""
        weights = _as_floats(self._values.rows(spans.listing)).astype(np.float64, copy=False)
        done, kept = cpu_labor.drop_weightless(weights, spans.lengths, spans.listing)
        if done < len(spans.listing):
            raise WeightError(weights[done], int(spans.listing[done]))
        return spans.listing[:kept], weights[:kept]

    def _in_memory(self, spans: Spans, raw: Int64s, which: NDArray[np.bool_]) -> "_Lists | None":
        """The lists of some rows where they lie."""
        if self._memory is None or not which.any():
            return None
        some = slice(None) if which.all() else np.flatnonzero(which)
        starts, array, origins = spans.starts[some], _unsigned(self._memory[0]), self._memory[1]
        has_sums = bool((starts == self._starts[spans.rows][some]).all())  # they are not of lists that begin later
        return _Lists(
            weights=array,
            places=origins[spans.rows][some] + starts.astype(np.uint64),
            lengths=spans.lengths[some],
            firsts=starts,
            raw=raw[some],
            wholes=self._wholes[spans.rows][some],
            begins=self._begins[spans.rows][some],
            sums=self._sums if has_sums else _NO_SUMS,
            listing=None,
        )

    def _listed(self, spans: Spans, raw: Int64s, which: NDArray[np.bool_]) -> "_Lists | None":
        """The lists of some rows, gathered."""
        if not which.any():
            return None
        some = slice(None) if which.all() else np.flatnonzero(which)
        starts = spans.starts[some]
        return _Lists(
            weights=_as_floats(self._values.rows(spans.listing)).astype(np.float64, copy=False),
            places=(starts + len(spans.listing)).astype(np.uint64),
            lengths=spans.lengths[some],
            firsts=starts,
            raw=raw[some],
            wholes=spans.lengths[some],
            begins=np.zeros(len(starts), np.uint64),
            sums=_NO_SUMS,
            listing=spans.listing,
        )


def _begins(starts: Int64s, rows: Int64s) -> Int64s:
    """Where the sums of lists begin, in pieces whose positions and rows count from 0: as many after as a list has blocks."""
    return (starts >> 3) + rows


def _as_floats(weights: Tensor) -> NDArray[Any]:
    """Weights that kernels read where they lie, others as float64, exactly."""
    if weights.dtype in _READ:
        return _unsigned(weights.numpy())
    if weights.dtype != torch.bfloat16:
        return weights.numpy().astype(np.float64)
    wide = weights.view(torch.int16).numpy().view(np.uint16).astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32).astype(np.float64)


def _unsigned(weights: NDArray[Any]) -> NDArray[Any]:
    """Masks as the bytes 0 and 1, for which there is a kernel."""
    return weights.view(np.uint8) if weights.dtype == np.bool_ else weights


def refuse_weights(weights: NDArray[Any], positions: Int64s) -> NoReturn:
    """
    Raises:
        WeightError: always; for the first of some weights that is none.
    """
    wrong = np.flatnonzero(~((weights >= 0) & (weights < np.inf)))
    raise WeightError(weights[wrong[0]], int(positions[wrong[0]]))
