"""Which kernels of a GPU draw neighbours, by what is asked for."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from halohop.ops import gpu_eligible, gpu_labor, gpu_sample, gpu_weight_lists, gpu_weighted
from halohop.ops.device import DevicePool
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.eligible import check_values
from halohop.ops.gpu_eligible import DeviceSpans
from halohop.ops.pool import Pool
from halohop.ops.sample import ALL
from halohop.ops.weighted import WEIGHT_DTYPES

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
        assert most is None
        check_values(weights, "weights", WEIGHT_DTYPES)
    bits = gpu_sample.key_of(key, pool)
    if sources is not None and 0 < limit < ALL:
        parts, weights = gpu_labor.race(iter(parts), sources, weights, bits, limit, pool), None
    if weights is None or limit == 0:
        drawn = [_alike(spans, raw[part], bits, limit, replace, pool, most) for part, spans in parts]
    elif weight_sums is None:
        drawn = list(gpu_weighted.draw_listed(iter(parts), raw, bits, limit, weights, replace=replace, pool=pool))
    else:
        assert eligible is None
        lists = gpu_weight_lists.stored(indptr, rows.long(), starts, degrees, weights, weight_sums.sums)
        ((_, spans),) = parts
        drawn = [gpu_weighted.draw(spans, lists, raw, bits, limit, weights, replace=replace, pool=pool)]
    if len(drawn) == 1:
        return drawn[0]
    return torch.cat([counts for counts, _ in drawn]), torch.cat([positions for _, positions in drawn])


def _alike(
    spans: DeviceSpans, raw: Tensor, key: Tensor, limit: int, replace: bool, pool: DevicePool, most: int | None
) -> tuple[Tensor, Tensor]:
    """Draws by which entries are equally likely."""
    counts, places = gpu_sample.draw(spans.starts, spans.lengths, raw, key, limit, replace=replace, pool=pool, most=most)
    positions = spans.meant(places)
    return counts, positions if most is None else torch.where(places < 0, -1, positions)


def lengths(indptr: Any, rows: Tensor, pool: Pool | None) -> Tensor:
    """`halohop.ops.list_lengths`."""
    assert isinstance(indptr, DevicePieces)
    assert isinstance(pool, DevicePool)
    return gpu_sample.find(indptr, rows, pool.zeros((indptr.num_pieces,), torch.int64), pool)[1]
