"""CPU kernels that bring lists back into their order. `halohop.ops.reference` says in plain Python what they compute."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

u64 = np.uint64

_ZERO = u64(0)


@kernel
def place_segments(counts: NDArray[Any], order: NDArray[Any], counts_out: NDArray[Any], begins: NDArray[Any]) -> Any:
    """Segment j gets place order[j]: its length and where it begins now. Stops at a length below 0, or a place bad or taken.

    `begins` comes filled with -1.
    """
    begin = 0
    for j in range(counts.size):
        place = order[j]
        if counts[j] < 0 or place < 0 or place >= begins.size or begins[place] >= 0:
            return j
        counts_out[place] = counts[j]
        begins[place] = begin
        begin += counts[j]
    return counts.size


@kernel
def place_lists(counts: NDArray[Any], order: NDArray[Any], begins: NDArray[Any], values: NDArray[Any], out: NDArray[Any]) -> None:
    """Copies the lists that lie end to end in `values` to where list order[j] begins in `out`."""
    at = _ZERO
    for j in range(u64(counts.size)):
        into = u64(begins[order[j]])
        for k in range(u64(counts[j])):
            out[into + k] = values[at + k]
        at += u64(counts[j])
