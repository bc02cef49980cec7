"""Drawing neighbours by random numbers that belong to the neighbours."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_eligible, cpu_labor
from halohop.ops.arguments import as_int64, integers
from halohop.ops.eligible import Int64s, Spans, Values, check_values
from halohop.ops.pieces import Pieces
from halohop.ops.pool import Pool, empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The node at the other end of every entry, which the random numbers belong to (LABOR, Balin & Catalyurek 2023).

    All rows of a draw see the same number at the same source, and take those with the greatest. So lists that overlap are drawn
    from alike, and fewer different sources are drawn in all. Of each list on its own a subset is as likely as it ever was. A
    source that is in a list several times has further numbers there, for its second entry, its third, and so on.

    Args:
        ids: of the source of every entry, or of every node if there is `via`: int32 or int64.
        via: entry e has the source ``ids[via[e]]``; int32 or int64.
        shift: added to the ids in a row's list, int64 ``[n]``: rows of different shifts share nothing.

    Raises:
        InputError: wrong dtypes or shapes.

    Example:
        >>> from halohop.ops import sample_neighbors
        >>> indptr, rows = torch.tensor([0, 3, 6]), torch.tensor([0, 1])
        >>> sources = torch.tensor([10, 11, 12, 12, 10, 11])
        >>> _, drawn = sample_neighbors(indptr, rows, rows, fanout=2, key=7, sources=Sources(ids=sources))
        >>> sources[drawn].tolist()
        [12, 11, 12, 11]
    """

    ids: Tensor | Pieces
    via: Tensor | Pieces | None = None
    shift: Tensor | None = None

    def __post_init__(self) -> None:
        check_values(self.ids, "ids of sources", (torch.int32, torch.int64))
        if self.via is not None:
            check_values(self.via, "via", (torch.int32, torch.int64))
        if self.shift is not None and not self.shift.is_cuda:
            integers(self.shift, "shift", only_int64=True)


class Labor:
    """The sources of the entries, addressed by the positions that `sample_neighbors` returns.

    Attributes:
        shifts: one per row.
    """

    def __init__(self, sources: Sources, starts: Int64s, degrees: Int64s, pool: Pool | None) -> None:
        self._pool = pool
        self._ids = Values("ids of sources", sources.ids, pool)
        self._via = None if sources.via is None else Values("via", sources.via, pool)
        (self._via or self._ids).check_spans(starts, degrees)
        if sources.shift is None:
            self.shifts = np.zeros(len(starts), np.int64)
        elif len(sources.shift) != len(starts):
            raise InputError(f"shift has {len(sources.shift)} entries, expected {len(starts)}, one per row")
        else:
            self.shifts = as_int64(integers(sources.shift, "shift"))

    def draw(self, spans: Spans, stream: np.uint64, fanout: np.uint64) -> Spans:
        """What is drawn from `spans`, in which every list longer than the fanout must be listed. Overwrites them."""
        which = np.flatnonzero(spans.starts < 0)
        lengths = spans.lengths[which]
        kept = self.keep(self.shifts[spans.rows][which], lengths, spans.listing, stream, fanout)
        spans.lengths[which] = lengths
        spans.starts[which] = np.cumsum(lengths) - lengths - kept
        return replace(spans, listing=spans.listing[:kept])

    def keep(
        self,
        shifts: Int64s,
        lengths: Int64s,
        listing: Int64s,
        stream: np.uint64,
        fanout: np.uint64,
        weights: NDArray[np.float64] | None = None,
    ) -> int:
        """Moves what is drawn from a listing to its front, and corrects the lengths; returns how many that are.

        Args:
            shifts: of the rows that are listed.
            lengths: of their lists.
            listing: the entries, list after list.
            stream: the key of the draw.
            fanout: how many a list may keep, not 0.
            weights: of the entries, above 0; overwritten.
        """
        entries = listing if self._via is None else self._via.at(listing)
        ids = self._ids.at(entries)
        keys = empty(self._pool, (len(listing),), torch.float64).numpy() if weights is None else weights
        num_slots = 1 << (2 * int(lengths.max(initial=1)) - 1).bit_length()
        streams, marks = (empty(self._pool, (num_slots,), torch.int64).numpy().view(np.uint64) for _ in range(2))
        marks.fill(0)
        by_weight = weights is not None
        left = cpu_labor.race_by_source(ids, shifts, stream, fanout, lengths, listing, keys, by_weight, streams, marks)
        kept: int = cpu_eligible.keep_greatest(keys, fanout, False, lengths, listing[:left])
        return kept
