"""CPU kernels that look up rows by their bytes. `halohop.ops.reference` says in plain Python what they compute.

A slot holds the number of a row, or -1. Linear probing; bytes are compared, so what only shares a hash is told apart.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

u64, i64 = np.uint64, np.int64

_BASIS, _PRIME = u64(0xCBF29CE484222325), u64(0x100000001B3)  # FNV-1a
_MIX = u64(0xFF51AFD7ED558CCD)
_HALF = u64(32)
_AHEAD = 32  # queries between asking for a slot and reading it


@kernel
def _home(keys: NDArray[Any], row: Any, num_slots: Any) -> Any:
    """The slot where the search for a row's bytes begins."""
    mixed = _BASIS
    for c in range(keys.shape[1]):
        mixed = (mixed ^ u64(keys[row, c])) * _PRIME
    mixed = (mixed ^ (mixed >> _HALF)) * _MIX
    return i64((((mixed ^ (mixed >> u64(29))) >> _HALF) * num_slots) >> _HALF)


@kernel
def _same(keys: NDArray[Any], row: Any, others: NDArray[Any], other: Any) -> Any:
    same = True
    for c in range(keys.shape[1]):
        same &= keys[row, c] == others[other, c]
    return same


@kernel
def fill(keys: NDArray[Any], slots: NDArray[Any]) -> Any:
    """Gives each row a slot; returns the first row whose bytes an earlier one has, or -1."""
    num_slots = u64(slots.size)
    for row in range(keys.shape[0]):
        slot = _home(keys, row, num_slots)
        while slots[slot] >= 0:
            if _same(keys, i64(slots[slot]), keys, row):
                return row
            slot = slot + 1 if slot + 1 < slots.size else 0
        slots[slot] = row
    return -1


@kernel
def find(keys: NDArray[Any], slots: NDArray[Any], queries: NDArray[Any], rows: NDArray[Any]) -> None:
    """Writes the row of each query's bytes, -1 where there is none."""
    num_slots, count = u64(slots.size), queries.shape[0]
    for query in range(-_AHEAD, count):
        if query + _AHEAD < count:
            slot = _home(queries, query + _AHEAD, num_slots)
            rows[query + _AHEAD] = slot
            prefetch(slots, u64(slot))
        if query < 0:
            continue
        slot = rows[query]
        while slots[slot] >= 0 and not _same(keys, i64(slots[slot]), queries, query):
            slot = slot + 1 if slot + 1 < slots.size else 0
        rows[query] = i64(slots[slot])


@kernel
def pad(offsets: NDArray[Any], data: NDArray[Any], rows: NDArray[Any]) -> None:
    """Copies each text into its row, cut where the row ends, with zeros behind."""
    width = rows.shape[1]
    for row in range(rows.shape[0]):
        first, length = offsets[row], min(offsets[row + 1] - offsets[row], width)
        for c in range(width):
            rows[row, c] = data[first + c] if c < length else 0
