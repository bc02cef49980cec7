"""Rows of any dtype and width, copied by a GPU: to the kernels a row is a number of machine words."""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from halohop.ops.device import DevicePool, Fault
from halohop.ops.device_pieces import DevicePieces
from halohop.ops.gpu_launch import kernel, launch, load_word

_WORDS = {8: (torch.int64, tl.int64), 4: (torch.int32, tl.int32), 2: (torch.int16, tl.int16), 1: (torch.uint8, tl.uint8)}


@kernel
def gather_words(
    addresses: Any,
    bounds: Any,
    num_pieces: Any,
    rows: Any,
    out: Any,
    faults: Any,
    count: Any,
    width: Any,
    word: tl.constexpr,
    block: tl.constexpr,
) -> None:
