"""Which kernels of a GPU draw neighbours, by what is asked for."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import gpu_eligible, gpu_labor, gpu_sample
from halohop.ops.device import DevicePool
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.gpu_eligible import DeviceSpans
from halohop.ops.pool import Pool
from halohop.ops.sample import ALL

if TYPE_CHECKING:
    from halohop.ops.eligible import Eligible
    from halohop.ops.labor import Sources


def sample(
    indptr: Any,
    rows: Tensor,
    raw: Tensor,
    limit: int,
    key: int,
    replace: bool,
    edge_bounds: Any,
    weights: Any,
    weight_sums: Any,
    eligible: "Eligible | None",
    sources: "Sources | None",
    pool: Pool | None,
    most: int | None,
) -> tuple[Tensor, Tensor]:
    """`halohop.ops.sample_neighbors`, whose arguments have been checked as far as that does not depend on where they lie."""
    assert isinstance(indptr, DevicePieces)
    assert isinstance(pool, DevicePool)
    starts, degrees = gpu_sample.find(indptr, rows, edge_bounds, pool, padded=most is not None)
    parts: Iterable[tuple[slice, DeviceSpans]] = [(slice(0, len(rows)), DeviceSpans(starts=starts, lengths=degrees))]
    if eligible is not None:
        parts = gpu_eligible.find(eligible, starts, degrees, limit, pool)
    if weights is not None:
        raise InputError("draws by weight are not made on a GPU yet; take mode='cpu'")
    if sources is not None and 0 < limit < ALL:
        parts = gpu_labor.race(iter(parts), sources, key, limit, pool)
    drawn = []
    for part, spans in parts:
        counts, places = gpu_sample.draw(
            spans.starts, spans.lengths, raw[part], key, limit, replace=replace, pool=pool, most=most
        )
        positions = spans.meant(places)
        drawn.append((counts, positions if most is None else torch.where(places < 0, -1, positions)))
    if len(drawn) == 1:
        return drawn[0]
    return torch.cat([counts for counts, _ in drawn]), torch.cat([positions for _, positions in drawn])


def lengths(indptr: Any, rows: Tensor, pool: Pool | None) -> Tensor:
    """`halohop.ops.list_lengths`."""
    assert isinstance(indptr, DevicePieces)
    assert isinstance(pool, DevicePool)
    return gpu_sample.find(indptr, rows, pool.zeros((indptr.num_pieces,), torch.int64), pool)[1]
