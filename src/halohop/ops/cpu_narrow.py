"""CPU kernels that read numbers which are stored in fewer bytes. `halohop.ops.reference_narrow` says what they compute."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

u64 = np.uint64

_STEPS = np.uint8(128)  # adding it, modulo 256, counts steps from -128 on


@kernel
def scale_rows(steps: NDArray[Any], scale: NDArray[Any], low: NDArray[Any], out: NDArray[Any]) -> None:
    """Writes ``low[c] + scale[c] * steps`` for each column c; rows are flat, and steps are counted from -128 on."""
    width = u64(scale.size)
    for row in range(u64(steps.size) // max(width, u64(1))):
        begin = row * width
        for c in range(width):
            out[begin + c] = out.dtype.type(steps[begin + c] ^ _STEPS) * scale[c] + low[c]


@kernel
def look_up(codes: NDArray[Any], values: NDArray[Any], out: NDArray[Any]) -> None:
    """Writes the value of each code."""
    for i in range(u64(codes.size)):
        out[i] = values[codes[i]]
