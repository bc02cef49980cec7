"""Rows of a cache on GPUs, and all others from memory of the host, in one pass."""

import triton.language as tl
from torch import Tensor

from halohop.ops.device_pieces import DevicePieces
from halohop.ops.gpu_launch import kernel
from halohop.ops.gpu_rows import Words, faults_of, rows_in_pieces, words_of
from halohop.ops.pool import Pool


@kernel
def gather_cached(
    addresses: tl.tensor,
    bounds: tl.tensor,
    num_pieces: tl.tensor,
    places: tl.tensor,
    rows: tl.tensor,
    out: tl.tensor,
    faults: tl.tensor,
    hits: tl.tensor,
    count: tl.int64,
    num_rows: tl.int64,
    units: tl.tensor,
    tiles: tl.tensor,
    padded: tl.constexpr,
    word: tl.constexpr,
    unit: tl.constexpr,
    aligned: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """As `halohop.ops.gpu_rows.copy_words`, but row r is row ``num_rows + places[r]`` of the pieces, unless its place is -1.
    `hits` counts those that have a place."""
    program = tl.program_id(0)
    i = (program // tiles).to(tl.int64) * block + tl.arange(0, block)
    column = (program % tiles) * columns + tl.arange(0, columns)
    width = units * unit
    inside = i < count
    row = tl.load(rows + i, mask=inside, other=0).to(tl.int64)
    live = inside & (row >= tl.load(bounds)) & (row < num_rows)
    wrong = inside & ~live
    if padded:
        wrong = wrong & (row != -1)
    tl.atomic_max(faults + tl.zeros_like(i), row, mask=wrong, sem="relaxed")
    place = tl.load(places + row, mask=live, other=-1).to(tl.int64)
    hot = place >= 0
    found = tl.sum(hot.to(tl.int64), axis=0)
    tl.atomic_add(hits, found, mask=(program % tiles == 0) & (found > 0), sem="relaxed")
    begins = rows_in_pieces(addresses, bounds, num_pieces, tl.where(hot, num_rows + place, row), width, live, word)
    words = words_of(begins, column, width, live, aligned)
    tl.store(out + i[:, None] * width + column[None, :], words, mask=inside[:, None] & (column < width)[None, :])


def take(pieces: DevicePieces, places: Tensor, rows: Tensor, hits: Tensor, pool: Pool | None, *, padded: bool) -> Tensor:
    """Rows of a column, ``[n, ...]``.

    Args:
        pieces: those of the column, and behind them those of the cache.
        places: the rows' places in the cache, or -1, int64 or int32 ``[rows of the column]``.
        rows: int64 or int32 ``[n]``.
        hits: int64 ``[1]``, to which the rows from the cache are added.
        pool: of the device.
        padded: whether a row -1 is zeros, and no fault.
    """
    out = rows.new_empty((len(rows), *pieces.row_shape), dtype=pieces.dtype)
    words = Words.of(pieces.row_bytes, (*pieces.tensors, out))
    faults, rows = faults_of(pool, rows), rows.contiguous()
    arguments = pieces.places, pieces.ends, pieces.num_pieces, places, rows, words.view(out), faults, hits
    words.launch(gather_cached, len(rows), *arguments, len(rows), len(places), padded=padded)
    return out
