"""CPU kernels that write whole numbers in few bits. `halohop.ops.reference_packing` says what they compute.

Numbers are taken modulo 2**64, so that no difference overflows. A block's codes end with a word of 64 bits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel

u64 = np.uint64

_BLOCK: Any = u64(128)
_ZERO, _ONE, _WORD = u64(0), u64(1), u64(64)
_LEAST, _RISE = u64(0), u64(1)


@kernel
def _signless(step: Any) -> Any:
    """0, -1, 1, -2, 2, ... as 0, 1, 2, 3, 4, ...: small steps in few bits, whichever way they go."""
    return (step << _ONE) ^ (_ZERO - (step >> u64(63)))


@kernel
def _bits(code: Any) -> Any:
    """Of the greatest power of two in it, and those below: 0 to 64."""
    found, rest = _ZERO, u64(code)
    for shift in (u64(32), u64(16), u64(8), u64(4), u64(2), _ONE):
        above = rest >> shift
        more = above != _ZERO
        found += shift if more else _ZERO
        rest = above if more else rest
    return found + rest


@kernel
def measure(values: NDArray[Any], least: Any, widths: NDArray[Any]) -> None:
    """Writes how many bits the codes of each block take, in each of the three ways; the first number follows itself."""
    n, before = u64(values.size), u64(values[0])
    for block in range(u64(widths.shape[1])):
        first = block * _BLOCK
        last = min(first + _BLOCK, n)
        step = u64(values[first]) - before
        plain, rises, steps = u64(values[first]) - least, step, _signless(step)
        for i in range(first + _ONE, last):
            step = u64(values[i]) - u64(values[i - _ONE])
            plain |= u64(values[i]) - least
            rises |= step
            steps |= _signless(step)
        before = u64(values[last - _ONE])
        widths[0, block], widths[1, block], widths[2, block] = _bits(plain), _bits(rises), _bits(steps)


@kernel
def pack(values: NDArray[Any], way: Any, base: Any, widths: NDArray[Any], words: NDArray[Any]) -> None:
    """Writes the codes of every block, of as many bits each as `widths` says."""
    codes = np.empty(_BLOCK, np.uint64)
    n, before, place = u64(values.size), u64(base), _ZERO
    for block in range(u64(widths.size)):
        first = block * _BLOCK
        count = min(_BLOCK, n - first)
        if way == _LEAST:
            for i in range(count):
                codes[i] = u64(values[first + i]) - base
        else:
            codes[0] = u64(values[first]) - before
            for i in range(_ONE, count):
                codes[i] = u64(values[first + i]) - u64(values[first + i - _ONE])
            before = u64(values[first + count - _ONE])
            if way != _RISE:
                for i in range(count):
                    codes[i] = _signless(codes[i])
        width, word, filled = u64(widths[block]), _ZERO, _ZERO
        if width == _ZERO:
            continue
        for i in range(count):
            word |= codes[i] << filled
            filled += width
            if filled >= _WORD:
                words[place] = word
                place += _ONE
                filled -= _WORD
                word = codes[i] >> (width - filled) if filled else _ZERO
        if filled:
            words[place] = word
            place += _ONE


@kernel
def unpack(widths: NDArray[Any], words: NDArray[Any], way: Any, base: Any, out: NDArray[Any]) -> None:
    """The inverse of `pack`. There are as many words as the widths take, and no width is above 64."""
    n, before, place = u64(out.size), u64(base), _ZERO
    for block in range(u64(widths.size)):
        first, width = block * _BLOCK, u64(widths[block])
        count = min(_BLOCK, n - first)
        mask = (_ZERO - _ONE) >> (_WORD - width) if width else _ZERO
        for i in range(count):
            bit = i * width
            at, shift = place + (bit >> u64(6)), bit & u64(63)
            code = words[at] >> shift if width else _ZERO
            if shift + width > _WORD:
                code |= words[at + _ONE] << (_WORD - shift)
            code &= mask
            if way == _LEAST:
                before = base + code
            elif way == _RISE:
                before += code
            else:
                before += (code >> _ONE) ^ (_ZERO - (code & _ONE))
            out[first + i] = before
        place += (count * width + u64(63)) >> u64(6)
