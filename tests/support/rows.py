"""Rows of any dtype and width, for the tests of what copies them on the CPU and on a GPU."""

import numpy as np
import torch

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
]
SHAPES = [(), (1,), (3,), (7,), (8,), (100,), (2, 3), (0,), (3, 0), (1, 1, 1), (1030,)]


def numbers(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    """Any bit pattern of the dtype."""
    size = torch.empty(0, dtype=dtype).element_size()
    generator = torch.Generator().manual_seed(seed)
    high = 2 if dtype == torch.bool else 256
    raw = torch.randint(0, high, (int(np.prod(shape)) * size,), dtype=torch.uint8, generator=generator)
    return raw.view(dtype).reshape(shape)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Bytes, so that NaN equals itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def assert_same(one: torch.Tensor, other: torch.Tensor) -> None:
    assert one.shape == other.shape
    assert one.dtype == other.dtype
    assert torch.equal(bits(one), bits(other))
