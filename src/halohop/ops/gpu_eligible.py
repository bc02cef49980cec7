"""Which neighbours may be drawn, on a GPU: what `halohop.ops.eligible` finds, bit for bit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
import triton.language as tl
from torch import Tensor

from halohop.errors import InputError
from halohop.ops.device import NO_FAULT, DevicePool, Fault
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.gpu_launch import kernel, launch, load_word
from halohop.ops.rows import gather_rows

if TYPE_CHECKING:
    from halohop.ops.eligible import Eligible

_WORDS = {torch.int32: tl.int32, torch.int64: tl.int64, torch.float32: tl.float32, torch.float64: tl.float64}
_NEVER = 2**63 - 1
_WARPS = 8
"""Warps of a program of `search_times`: one thread for each entry, because the registers of a thread do not hold two."""
_AT_ONCE = 1 << 22
"""Entries that are listed at a time, some 100 bytes each; a longer list is listed as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpans:
    """The entries of rows' lists that may be drawn: places from starts[i] on, lengths[i] of them, int64 ``[n]`` each.

    Args:
        starts, lengths: of each row.
        listing: what places mean: the positions of the entries, list after list; None: places are positions.
        gaps: int64, never falling: places count only what is not excluded. The entry at place p has the position p + the number
            of gaps that are at most p. Never together with a listing.
    """

    starts: Tensor
    lengths: Tensor
    listing: Tensor | None = None
    gaps: Tensor | None = None

    def rows(self, which: "slice | Tensor") -> "DeviceSpans":
        """Those of some rows."""
        return replace(self, starts=self.starts[which], lengths=self.lengths[which])

    def meant(self, places: Tensor) -> Tensor:
        """The positions of entries at some places, int64."""
        if self.listing is not None:
            return self.listing.index_select(0, places)
        return places if self.gaps is None else places + torch.searchsorted(self.gaps, places, right=True)

    def listed(self, pool: DevicePool) -> "DeviceSpans":
        """The same with a listing where there are gaps. The host waits for its length."""
        if self.gaps is None:
            return self
        _, places = every_place(self.starts, self.lengths, pool)
        return replace(self, starts=begins_of(self.lengths), listing=self.meant(places), gaps=None)


def find(
    eligible: "Eligible", starts: Tensor, degrees: Tensor, limit: int, pool: DevicePool
) -> Iterator[tuple[slice, DeviceSpans]]:
    """The eligible entries of lists, some rows at a time, in order; with `last`, only the `limit` most recent of them.

    Entries are listed only where times decide that may fall within a list. Then the host waits for their number, and where there
    are many, for the number of each list.
    """
    timed = eligible.latest is not None or eligible.earliest is not None or eligible.last
    spans = DeviceSpans(starts=starts, lengths=degrees)
    if timed and eligible.times_sorted:
        spans = _cut(eligible, spans, pool)
    if eligible.excluded is not None and len(eligible.excluded):
        spans = _close_gaps(eligible.excluded, spans, pool)
    if not timed or eligible.times_sorted:
        yield slice(0, len(starts)), _last(spans, limit) if eligible.last else spans
        return
    latest, earliest = _bound("latest", eligible.latest, starts), _bound("earliest", eligible.earliest, starts)
    for rows, total in slices(spans.lengths, pool):
        some = spans.rows(rows)
        bounds = None if latest is None else latest[rows], None if earliest is None else earliest[rows]
        listed = _listed_between(eligible, some, total, bounds, limit, pool)
        yield rows, _last(listed, limit) if eligible.last else listed


def every_place(starts: Tensor, lengths: Tensor, pool: DevicePool, total: int | None = None) -> tuple[Tensor, Tensor]:
    """Row and place of each entry, row after row, int64. The host waits for their number, unless it knows the `total`."""
    ends = lengths.cumsum(0)
    if total is None:
        (total,) = pool.numbers(ends[-1:]) if len(ends) else (0,)
    row_of = torch.repeat_interleave(pool.arange(len(lengths)), lengths, output_size=total)
    return row_of, (starts - (ends - lengths)).index_select(0, row_of) + pool.arange(total)


def slices(lengths: Tensor, pool: DevicePool) -> list[tuple[slice, int]]:
    """Rows whose lists have at most `_AT_ONCE` entries together, or are a single one, and the number of these entries."""
    ends = lengths.cumsum(0)
    (total,) = pool.numbers(ends[-1:]) if len(ends) else (0,)
    if total <= _AT_ONCE:
        return [(slice(0, len(lengths)), total)]
    known = pool.bring(ends).numpy()
    bounds, before = [0], 0
    while bounds[-1] < len(known):
        end = max(int(known.searchsorted(before + _AT_ONCE, side="right")), bounds[-1] + 1)
        bounds.append(end)
        before = int(known[end - 1])
    sums = [0, *(int(known[end - 1]) for end in bounds[1:])]
    return [
        (slice(begin, end), after - before)
        for (begin, end), (before, after) in zip(pairwise(bounds), pairwise(sums), strict=True)
    ]


def kept_of(keep: Tensor, lengths: Tensor, pool: DevicePool) -> Tensor:
    """How many entries of each list are kept, of lists that lie one behind the other."""
    kept, ends = torch.cat([pool.zeros((1,), torch.int64), keep.long().cumsum(0)]), lengths.cumsum(0)
    return kept.index_select(0, ends) - kept.index_select(0, ends - lengths)


def pack(keep: Tensor, columns: Sequence[tuple[Tensor, float]], pool: DevicePool) -> list[Tensor]:
    """What is kept of columns, in order, and behind it the number that comes with each, for the host does not know how many they
    are."""
    count = len(keep)
    into = torch.where(keep, keep.long().cumsum(0) - 1, count)  # what is dropped goes behind the rest, to one place
    return [pool.empty((count + 1,), column.dtype).fill_(none).scatter_(0, into, column)[:count] for column, none in columns]


def _last(spans: DeviceSpans, limit: int) -> DeviceSpans:
    surplus = (spans.lengths - limit).clamp(min=0)
    return replace(spans, starts=spans.starts + surplus, lengths=spans.lengths - surplus)


def begins_of(lengths: Tensor) -> Tensor:
    """Where lists begin that lie one behind the other."""
    return lengths.cumsum(0) - lengths


def _close_gaps(excluded: Tensor, spans: DeviceSpans, pool: DevicePool) -> DeviceSpans:
    """Places that count only what is not excluded; positions that occur again count once. One that falls is a fault."""
    if len(excluded) > 1:
        fallen = torch.where(excluded[1:] < excluded[:-1], excluded[1:], NO_FAULT).amax()
        worst = pool.faults[Fault.ORDER]
        worst.copy_(torch.maximum(worst, fallen))
    new = torch.ones_like(excluded)
    new[1:] = (excluded[1:] != excluded[:-1]).long()
    each = torch.full_like(excluded, _NEVER).scatter_(0, new.cumsum(0) - 1, excluded)
    before = torch.searchsorted(each, spans.starts)
    inside = torch.searchsorted(each, spans.starts + spans.lengths) - before
    gaps = torch.where(each == _NEVER, each, each - pool.arange(len(each)))
    return DeviceSpans(starts=spans.starts - before, lengths=spans.lengths - inside, gaps=gaps)


def _bound(name: str, given: Tensor | None, like: Tensor) -> Tensor | None:
    """One time per row as kernels compare it: int64 or float64."""
    if given is None:
        return None
    if len(given) != len(like):
        raise InputError(f"{name} has {len(given)} entries, expected {len(like)}, one per row")
    return given.detach().to(torch.float64 if given.dtype.is_floating_point else torch.int64).contiguous()


def _listed_between(
    eligible: "Eligible",
    spans: DeviceSpans,
    total: int,
    bounds: tuple[Tensor | None, Tensor | None],
    limit: int,
    pool: DevicePool,
) -> DeviceSpans:
    """A listing of those of `total` entries that are between the bounds (latest, earliest); with `last`, lists longer than the
    limit are in the order of time."""
    latest, earliest = bounds
    row_of, places = every_place(spans.starts, spans.lengths, pool, total)
    positions = spans.meant(places)
    entries = positions if eligible.via is None else gather_rows(eligible.via, positions, pool=pool)
    when = gather_rows(eligible.times, entries, pool=pool)  # type: ignore[arg-type]
    when = when.to(torch.float64 if when.is_floating_point() else torch.int64) + 0  # which makes -0.0 a zero, for sorts
    keep = when == when  # a time that is no number is not itself
    if latest is not None:
        keep &= when <= latest.index_select(0, row_of)
    if earliest is not None:
        keep &= when >= earliest.index_select(0, row_of)
    lengths = kept_of(keep, spans.lengths, pool)
    (listing,) = pack(keep, [(positions, 0)], pool)
    if eligible.last:
        rows, when = pack(keep, [(row_of, len(lengths)), (when, 0)], pool)
        order = torch.sort(when, stable=True).indices
        order = order.index_select(0, torch.sort(rows.index_select(0, order), stable=True).indices)
        many = torch.cat([lengths > limit, pool.zeros((1,), torch.bool)]).index_select(0, rows)
        listing = torch.where(many, listing.index_select(0, order), listing)
    return DeviceSpans(starts=begins_of(lengths), lengths=lengths, listing=listing)


@kernel
def search_times(
    places: tl.tensor,
    ends: tl.tensor,
    num_pieces: tl.tensor,
    via_places: tl.tensor,
    via_ends: tl.tensor,
    num_via_pieces: tl.tensor,
    limits: tl.tensor,
    starts: tl.tensor,
    lengths: tl.tensor,
    before: tl.tensor,
    faults: tl.tensor,
    count: tl.int64,
    through: tl.constexpr,
    has_via: tl.constexpr,
    word: tl.constexpr,
    via_word: tl.constexpr,
    wide: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """How many entries of each list are before its limit; if `through`, at the limit too. Times never fall within a list."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    limit = tl.load(limits + at, mask=inside, other=0)
    start = tl.load(starts + at, mask=inside, other=0)
    low = start
    high = start + tl.load(lengths + at, mask=inside, other=0)
    while tl.max((low < high).to(tl.int32), axis=0) > 0:
        searched = low < high
        middle = (low + high) >> 1
        entry = middle
        live = searched
        if has_via:
            live = live & (entry >= 0) & (entry < tl.load(via_ends + num_via_pieces))
            tl.atomic_max(faults + tl.zeros_like(entry), entry, mask=searched & ~live, sem="relaxed")
            entry = load_word(via_places, via_ends, num_via_pieces, entry, 0, 1, live, via_word).to(tl.int64)
        known = live & (entry >= 0) & (entry < tl.load(ends + num_pieces))
        tl.atomic_max(faults + tl.zeros_like(entry), entry, mask=live & ~known, sem="relaxed")
        time = load_word(places, ends, num_pieces, entry, 0, 1, known, word).to(wide)
        earlier = time <= limit if through else time < limit
        low = tl.where(searched & earlier, middle + 1, low)
        high = tl.where(searched & ~earlier, middle, high)
    tl.store(before + at, low - start, mask=inside)


def _table(pieces: DevicePieces) -> tuple[Tensor, Tensor, int]:
    return pieces.places, pieces.ends, pieces.num_pieces


def _cut(eligible: "Eligible", spans: DeviceSpans, pool: DevicePool) -> DeviceSpans:
    """The entries between the bounds, if times never fall: binary searches."""
    times: Any = eligible.times
    via: Any = eligible.via if eligible.via is not None else times
    wide, most = (torch.float64, float("inf")) if times.dtype.is_floating_point else (torch.int64, 2**63 - 1)
    starts, lengths = spans.starts, spans.lengths

    def before(limits: Tensor, *, through: bool) -> Tensor:
        found = torch.empty_like(starts)
        bounds, words = (limits, starts, lengths, found), {"word": _WORDS[times.dtype], "via_word": _WORDS[via.dtype]}
        options = words | {"wide": _WORDS[wide], "through": through, "has_via": eligible.via is not None, "num_warps": _WARPS}
        tables = *_table(times), *_table(via)
        launch(search_times, len(starts), *tables, *bounds, pool.faults[Fault.ROW :], len(starts), **options)
        return found

    latest = _bound("latest", eligible.latest, starts)
    earliest = _bound("earliest", eligible.earliest, starts)
    if latest is None:
        latest = torch.full_like(starts, most, dtype=wide)
    lengths = before(latest, through=True)
    if earliest is not None:
        skipped = before(earliest, through=False)
        starts, lengths = starts + skipped, lengths - skipped
    return DeviceSpans(starts=starts, lengths=lengths)
