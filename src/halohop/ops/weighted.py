"""Drawing neighbours by weight."""

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_eligible, cpu_weighted
from halohop.ops.eligible import Int64s, Spans, Values, check_values
from halohop.ops.labor import Labor
from halohop.ops.pieces import Pieces
from halohop.ops.pool import Pool

WEIGHT_DTYPES = (
    *(torch.float32, torch.float64, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)


class Weights:
    """A weight per entry, addressed by the positions that `sample_neighbors` returns; bool counts as 0 or 1."""

    def __init__(self, weights: Tensor | Pieces, starts: Int64s, degrees: Int64s, pool: Pool | None) -> None:
        check_values(weights, "weights", WEIGHT_DTYPES)
        self._values = Values("weights", weights, pool)
        self._values.check_spans(starts, degrees)

    def draw(
        self, spans: Spans, raw: Int64s, stream: np.uint64, fanout: np.uint64, *, replace: bool, labor: Labor | None
    ) -> tuple[Int64s, Int64s]:
        """How many are drawn for each row of `spans`, all of which must be listed, and their positions. Overwrites `spans`."""
        listing, lengths = spans.listing, spans.lengths
        weights = self._values.at(listing).astype(np.float64, copy=False)
        done, kept = cpu_weighted.drop_weightless(weights, lengths, listing)
        if done < len(listing):
            raise InputError(f"weight {weights[done]:g} at position {listing[done]}: a weight is a finite number, 0 or more")
        listing = listing[:kept]
        if labor is not None:
            return lengths, listing[: labor.keep(labor.shifts[spans.rows], lengths, listing, stream, fanout, weights[:kept])]
        if not replace:
            cpu_weighted.race(weights, raw, stream, fanout, lengths)
            return lengths, listing[: cpu_eligible.keep_greatest(weights, fanout, False, lengths, listing)]
        counts = np.where(lengths > 0, np.int64(fanout), 0)
        positions = np.empty(int(counts.sum()), np.int64)
        cpu_weighted.draw_replacing(weights, raw, stream, fanout, lengths, listing, positions)
        return counts, positions
