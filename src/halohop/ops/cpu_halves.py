"""Numbers of two bytes in CPU kernels. They come as their bits, uint16 for bfloat16 and int16 for float16.

Arithmetic is that of float32: a number is read as such, and rounded to the nearest when it is written.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

u32, f32 = np.uint32, np.float32

_SIXTEEN, _THIRTEEN = u32(16), u32(13)
_UNSIGNED, _SIGN = u32(0x7FFFFFFF), u32(0x8000)
_ROUND_BFLOAT, _ROUND_HALF = u32(0x7FFF), u32(0xFFF)
_INFINITE, _HALF_INFINITE = u32(0x7F800000), u32(0x7C00)
_HALF_LIMIT, _HALF_NORMAL = u32((127 + 16) << 23), u32(113 << 23)  # the first too great for float16; the least that is normal
_REBIAS = u32((127 - 15) << 23)
_GREAT = f32(2.0**112)  # between the exponents of both
_MAGIC = f32(0.5)  # adding it leaves the bits of a subnormal float16 at the end of the sum's


@kernel
def _from_bfloat(bits: Any) -> Any:
    return u32(u32(bits) << _SIXTEEN).view(f32)


@kernel
def _to_bfloat(value: Any) -> Any:
    bits = f32(value).view(u32)
    if value != value:
        return np.uint16(u32(bits >> _SIXTEEN) | u32(0x40))
    return np.uint16(u32(bits + _ROUND_BFLOAT + u32(u32(bits >> _SIXTEEN) & u32(1))) >> _SIXTEEN)


@kernel
def _from_half(bits: Any) -> Any:
    word = u32(np.uint16(bits))
    size = u32(u32(word & u32(0x7FFF)) << _THIRTEEN)
    sign = u32(u32(word & _SIGN) << _SIXTEEN)
    scaled = f32(size.view(f32) * _GREAT).view(u32)
    if size >= u32(_HALF_INFINITE << _THIRTEEN):
        scaled = u32(scaled | _INFINITE)
    return u32(scaled | sign).view(f32)


@kernel
def _to_half(value: Any) -> Any:
    bits = f32(value).view(u32)
    size = u32(bits & _UNSIGNED)
    sign = u32(u32(bits >> _SIXTEEN) & _SIGN)
    if size >= _HALF_LIMIT:
        half = u32(0x7E00) if size > _INFINITE else _HALF_INFINITE
    elif size < _HALF_NORMAL:
        half = u32(f32(size.view(f32) + _MAGIC).view(u32) - f32(_MAGIC).view(u32))
    else:
        half = u32(u32(size - _REBIAS + _ROUND_HALF + u32(u32(size >> _THIRTEEN) & u32(1))) >> _THIRTEEN)
    return np.int16(np.uint16(u32(half | sign)))


def _load(words: NDArray[Any], at: Any) -> Any:
    raise NotImplementedError("compiled code only")


def _store(words: NDArray[Any], at: Any, value: Any) -> None:
    raise NotImplementedError("compiled code only")


@overload(_load)  # type: ignore[untyped-decorator]
def _typed_load(words: NDArray[Any], at: Any) -> Any:
    def plain(words: NDArray[Any], at: Any) -> Any:
        return words[at]

    def bfloat(words: NDArray[Any], at: Any) -> Any:
        return _from_bfloat(words[at])

    def half(words: NDArray[Any], at: Any) -> Any:
        return _from_half(words[at])

    known: dict[Any, Any] = {types.uint16: bfloat, types.int16: half}
    return known.get(words.dtype, plain)


@overload(_store)  # type: ignore[untyped-decorator]
def _typed_store(words: NDArray[Any], at: Any, value: Any) -> Any:
    def plain(words: NDArray[Any], at: Any, value: Any) -> None:
        words[at] = value

    def bfloat(words: NDArray[Any], at: Any, value: Any) -> None:
        words[at] = _to_bfloat(value)

    def half(words: NDArray[Any], at: Any, value: Any) -> None:
        words[at] = _to_half(value)

    known: dict[Any, Any] = {types.uint16: bfloat, types.int16: half}
    return known.get(words.dtype, plain)


@kernel
def _read(words: NDArray[Any], at: Any) -> Any:
    """The number at a place, as float32 where it has two bytes."""
    return _load(words, at)


@kernel
def _write(words: NDArray[Any], at: Any, value: Any) -> None:
    """Writes a number, rounded to the nearest where it has two bytes."""
    _store(words, at, value)
