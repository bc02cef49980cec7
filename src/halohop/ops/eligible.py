"""Which neighbours may be drawn: those of the past, and no edge that a batch is asked to predict."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops import cpu_eligible, cpu_index
from halohop.ops.arguments import integers, require_cpu
from halohop.ops.pieces import ABSENT, Pieces
from halohop.ops.pool import Pool, empty
from halohop.ops.rows import gather_rows

_BLOCK = 1 << 16  # entries listed at a time: a few arrays of that length stay in the second-level cache

TIME_DTYPES = (torch.int32, torch.int64, torch.float32, torch.float64)

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligible:
    """Which entries of a list of neighbours may be drawn; entries are addressed by the positions that `sample_neighbors` returns.

    Args:
        times: of every entry, or of every node if there is `via`: int32, int64, float32 or float64. NaN is never drawn.
        via: entry e has the time ``times[via[e]]``; int32 or int64. So times of nodes are used through CSC's indices.
        latest: one time per row, ``[n]``, integers if `times` are, else floats: later entries are never drawn, equal ones are.
        earliest: one time per row likewise: earlier entries are never drawn, equal ones are.
        last: take the most recent entries instead of random ones. The later stored of two equally old ones counts as more recent.
            They come in the order of time if there are more than the fanout, else in stored order. `replace` is ignored.
        times_sorted: a promise that times never fall within a list. It makes drawing faster and changes no result.
        excluded: positions that are never drawn, int64, ascending; one may occur twice. Others are drawn in their place.

    Raises:
        InputError: wrong dtypes or shapes, `excluded` falls, or no times where they are needed.

    Example:
        >>> from halohop.ops import sample_neighbors
        >>> past = Eligible(times=torch.tensor([3, 1, 2, 5]), latest=torch.tensor([3]), last=True)
        >>> one, indptr = torch.tensor([0]), torch.tensor([0, 4])
        >>> sample_neighbors(indptr, one, one, fanout=2, key=7, eligible=past)[1].tolist()
        [2, 0]
    """

    times: Tensor | Pieces | None = None
    via: Tensor | Pieces | None = None
    latest: Tensor | None = None
    earliest: Tensor | None = None
    last: bool = False
    times_sorted: bool = False
    excluded: Tensor | None = None

    def __post_init__(self) -> None:
        if self.times is None:
            for name, given in (
                *(("via", self.via is not None), ("latest", self.latest is not None)),
                *(("earliest", self.earliest is not None), ("last", self.last)),
            ):
                if given:
                    raise InputError(f"{name} is given, but no times")
        else:
            check_values(self.times, "times", TIME_DTYPES)
        if self.via is not None:
            check_values(self.via, "via", (torch.int32, torch.int64))
        for name, bound in (("latest", self.latest), ("earliest", self.earliest)):
            if bound is not None:
                assert self.times is not None
                whole = not self.times.dtype.is_floating_point
                check_values(bound, name, (torch.int32, torch.int64) if whole else (torch.float32, torch.float64))
        if self.excluded is not None and not self.excluded.is_cuda:  # for what lies on a device, nobody waits
            fallen = np.flatnonzero(np.diff(integers(self.excluded, "excluded", only_int64=True)) < 0)
            if len(fallen):
                raise InputError(f"excluded falls after entry {fallen[0]} ({int(self.excluded[fallen[0]])}); give it sorted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """The eligible entries of some rows: those from starts[i] on, lengths[i] of them; below zero, they are counted from the end
    of the listing, which holds the positions meant."""

    rows: slice
    starts: Int64s
    lengths: Int64s
    listing: Int64s


def check_values(values: Tensor | Pieces, name: str, dtypes: tuple[torch.dtype, ...]) -> None:
    shape = tuple(values.shape[1:]) if isinstance(values, Tensor) else values.row_shape
    if isinstance(values, Tensor) and not values.is_cuda:
        require_cpu(values, name)
    if values.dtype not in dtypes or shape != () or (isinstance(values, Tensor) and values.dim() == 0):
        kinds = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise InputError(f"{name} must be one-dimensional, one of {kinds}; got {values.dtype} with rows of shape {shape}")


class Values:
    """One number per entry, looked up by position."""

    def __init__(self, name: str, values: Tensor | Pieces, pool: Pool | None) -> None:
        if not isinstance(values, Pieces):
            require_cpu(values, name)
            values = Pieces([values.detach().resolve_neg().contiguous()], [0, len(values)])
        self._name, self._pieces, self._pool = name, values, pool

    def at(self, positions: NDArray[Any]) -> NDArray[Any]:
        return self.rows(positions).numpy()

    def rows(self, positions: NDArray[Any]) -> Tensor:
        try:
            return gather_rows(self._pieces, torch.from_numpy(positions), pool=self._pool)
        except IdError as error:
            raise IdError(f"{self._name}: {error}") from error

    def memory(
        self, starts: Int64s, degrees: Int64s, dtypes: tuple[torch.dtype, ...]
    ) -> tuple[NDArray[Any], NDArray[np.uint64]] | None:
        """The array that lists lie in, for kernels that read these dtypes, and what to add to the positions of each list; None
        where that cannot be: they are on disk, of another dtype, or a list is not in one piece."""
        pieces = self._pieces
        if pieces.on_disk or pieces.dtype not in dtypes or pieces.word.itemsize != pieces.dtype.itemsize:
            return None
        kind = torch.empty(0, dtype=pieces.dtype).numpy().dtype
        piece = np.searchsorted(pieces.bounds[1:-1], starts, side="right")
        origins = pieces.origins[piece]
        apart = (origins == ABSENT) | (starts + degrees > pieces.bounds[piece + 1])
        return None if (apart & (degrees > 0)).any() else (pieces.words.view(kind), origins)

    def check_spans(self, starts: Int64s, degrees: Int64s) -> None:
        """Before anything of the length of a list is allocated."""
        outside = np.flatnonzero((degrees > 0) & ((starts < 0) | (starts > len(self._pieces) - degrees)))
        if len(outside):
            start, degree = int(starts[outside[0]]), int(degrees[outside[0]])
            what = f"the list of row number {outside[0]} lies at the positions {start} to {start + degree - 1}"
            raise IdError(f"{what}, but {self._name} has {len(self._pieces)} entries")


class _Times:
    """When the entries happened, and between which times they may have for each row."""

    def __init__(self, eligible: Eligible, starts: Int64s, degrees: Int64s, pool: Pool | None) -> None:
        assert eligible.times is not None
        self._times = Values("times", eligible.times, pool)
        self._via = None if eligible.via is None else Values("via", eligible.via, pool)
        (self._via or self._times).check_spans(starts, degrees)
        whole = not eligible.times.dtype.is_floating_point
        self._memory = None if self._via is not None else self._times.memory(starts, degrees, TIME_DTYPES)
        self._has_earliest = eligible.earliest is not None
        self._dtype: type[np.int64] | type[np.float64] = np.int64 if whole else np.float64
        ends = np.iinfo(np.int64) if whole else None
        self.latest = self._bound("latest", eligible.latest, len(starts), ends.max if ends else np.inf)
        self.earliest = self._bound("earliest", eligible.earliest, len(starts), ends.min if ends else -np.inf)

    def _bound(self, name: str, given: Tensor | None, count: int, none: float) -> NDArray[Any]:
        if given is None:
            return np.full(count, none, self._dtype)
        if len(given) != count:
            raise InputError(f"{name} has {len(given)} entries, expected {count}, one per row")
        require_cpu(given, name)
        return given.detach().contiguous().numpy().astype(self._dtype, copy=False)

    def at(self, positions: Int64s) -> NDArray[Any]:
        entries = positions if self._via is None else self._via.at(positions)
        return self._times.at(entries).astype(self._dtype, copy=False)

    def cut(self, starts: Int64s, degrees: Int64s) -> tuple[Int64s, Int64s]:
        """Where the entries between the bounds begin in the lists, and how many they are, if times never fall."""
        if self._memory is not None:
            array, origins = self._memory
            starts, degrees, places = starts.copy(), degrees.copy(), origins + starts.astype(np.uint64)
            cpu_eligible.cut_between(array, places, self.earliest, self.latest, self._has_earliest, starts, degrees)
            return starts, degrees
        ends = self._first(starts, degrees, self.latest, np.less_equal)
        begins = self._first(starts, ends - starts, self.earliest, np.less)
        return begins, ends - begins

    def _first(self, starts: Int64s, degrees: Int64s, bounds: NDArray[Any], before: np.ufunc) -> Int64s:
        """The first entry of each list that is not before its bound: a binary search in all lists at once."""
        low, high = starts.copy(), starts + degrees
        while len(still := np.flatnonzero(low < high)):
            middle = (low[still] + high[still]) >> 1
            is_before = before(self.at(middle), bounds[still])
            low[still] = np.where(is_before, middle + 1, low[still])
            high[still] = np.where(is_before, high[still], middle)
        return low


def find_eligible(
    eligible: Eligible, starts: Int64s, degrees: Int64s, fanout: int, *, list_over: int, pool: Pool | None
) -> Iterator[Spans]:
    """The eligible entries of lists, some rows at a time. With `last`, only the `fanout` most recent of them.

    Rows are listed only where entries are missing in the middle, or where there are more of them than `list_over`.
    """
    times, listed = None, degrees > list_over
    if eligible.latest is not None or eligible.earliest is not None or eligible.last:
        times = _Times(eligible, starts, degrees, pool)
        if eligible.times_sorted:
            starts, degrees = times.cut(starts, degrees)
            times, listed = None, degrees > list_over
        else:
            listed = np.ones(len(starts), np.bool_)
    excluded, firsts = np.empty(0, np.int64), np.zeros(len(starts), np.int64)
    if eligible.excluded is not None and len(eligible.excluded):
        excluded = integers(eligible.excluded, "excluded")
        firsts = np.searchsorted(excluded, starts)
        listed |= (firsts < len(excluded)) & (excluded[np.minimum(firsts, len(excluded) - 1)] < starts + degrees)
    for rows in _blocks(np.where(listed, degrees, 0)):
        begins, lengths, which = starts[rows].copy(), degrees[rows].copy(), np.flatnonzero(listed[rows])
        kept = lengths[which]
        listing = empty(pool, (int(kept.sum()),), torch.int64).numpy()
        cpu_index.list_segments(kept, begins[which], listing)
        if len(excluded):
            listing = listing[: cpu_eligible.drop_excluded(excluded, firsts[rows][which], kept, listing)]
        if times is not None:
            when = times.at(listing)
            bounds = times.earliest[rows][which], times.latest[rows][which]
            listing = listing[: cpu_eligible.keep_between(when, *bounds, kept, listing)]
            if eligible.last:
                listing = listing[: cpu_eligible.keep_greatest(when, np.uint64(fanout), True, kept, listing)]
        lengths[which] = kept
        begins[which] = np.cumsum(kept) - kept - len(listing)
        if eligible.last:
            surplus = np.maximum(lengths - fanout, 0)
            begins, lengths = begins + surplus, lengths - surplus
        yield Spans(rows=rows, starts=begins, lengths=lengths, listing=listing)


def _blocks(work: Int64s) -> Iterator[slice]:
    """Consecutive rows that add up to at most _BLOCK, or one row."""
    ends, begin = np.cumsum(work), 0
    while begin < len(work):
        done = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, done + _BLOCK, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end
