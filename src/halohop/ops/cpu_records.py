"""A CPU kernel that reads one column out of records. `halohop.ops.reference_records` says what it computes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

u64 = np.uint64


@kernel
def unpack(words: NDArray[Any], shift: Any, mask: Any, low: Any, out: NDArray[Any]) -> None:
    """Writes ``low`` + the bits of each word that begin at `shift`, as far as `mask` reaches: modulo what `out` holds."""
    for i in range(u64(words.size)):
        out[i] = out.dtype.type(((u64(words[i]) >> shift) & mask) + low)
