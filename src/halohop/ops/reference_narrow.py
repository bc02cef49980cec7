"""How numbers stored in fewer bytes are read, in plain torch: the specification of `halohop.ops.narrow`."""

import torch
from torch import Tensor

from halohop.ops.narrow import Narrow


def widened(rows: Tensor, how: Narrow, dtype: torch.dtype) -> Tensor:
    if how.dtype != "int8":
        return rows.to(dtype)
    scale, low = (torch.tensor(values, dtype=dtype).view(rows.shape[1:]) for values in (how.scale, how.low))
    return (rows.to(dtype) + 128) * scale + low
