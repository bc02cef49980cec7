"""Whole numbers in as many bits as they take, in blocks, so that a few large ones cost little: frames of reference (Goldstein et
al. 1998), or of differences, as search engines keep their lists."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_packing
from halohop.ops.arguments import integers
from halohop.ops.pool import Pool, empty

_BLOCK = 128
_WORD_BYTES = 8
_WIDEST = 64
_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedIntegers:
    """Numbers in few bits.

    Args:
        data: uint8 ``[n]``: a byte per block of 128 numbers, with the bits of a code there, then the codes.
        way: of writing them: 0 less the base, 1 less the one before, which is never greater, 2 less the one before, of any sign.
        base: the least number, or with differences the first.
    """

    data: Tensor
    way: int
    base: int


def pack_integers(values: Tensor, *, pool: Pool | None = None) -> PackedIntegers | None:
    """The numbers in the way that takes least; None where that is no less than they take as they are.

    Args:
        values: int64 or int32 ``[n]``.
        pool: where the memory of the result comes from.

    Raises:
        InputError: another dtype or shape.

    Example:
        >>> packed = pack_integers(torch.arange(10**9, 10**9 + 1280, 5))
        >>> packed.way, packed.base, packed.data.nbytes, packed.data[:2].tolist()
        (1, 1000000000, 104, [3, 3])
    """
    array = integers(values, "values")
    if not len(array):
        return None
    least = int(array.min())
    widths = np.empty((3, -(-len(array) // _BLOCK)), np.uint8)
    cpu_packing.measure(array, np.uint64(least % _MODULUS), widths)
    words = [int(_words(of_way, len(array)).sum()) for of_way in widths]
    way = words.index(min(words))
    base = least if way == 0 else int(array[0])
    head = _head_bytes(len(array))
    if head + _WORD_BYTES * words[way] >= array.nbytes:
        return None
    data = empty(pool, (head + _WORD_BYTES * words[way],), torch.uint8)
    room = data.numpy()
    room[:head] = 0
    room[: widths.shape[1]] = widths[way]
    codes = room[head:].view(np.uint64)
    cpu_packing.pack(array, np.uint64(way), np.uint64(base % _MODULUS), widths[way], codes)
    return PackedIntegers(data=data, way=way, base=base)


def unpack_integers(packed: PackedIntegers, out: Tensor) -> None:
    """Writes the numbers that were packed.

    Args:
        packed: what `pack_integers` has made; its data aligned to eight bytes.
        out: int64 or int32 ``[n]``, as many as there were, contiguous. What does not fit is cut off.

    Raises:
        InputError: it is not that many numbers, or was not made so.

    Example:
        >>> out = torch.empty(300, dtype=torch.int64)
        >>> unpack_integers(pack_integers(torch.arange(300)), out)
        >>> out[-2:].tolist()
        [298, 299]
    """
    array, data = integers(out, "out"), packed.data.numpy()
    head = _head_bytes(len(array))
    widths = data[: -(-len(array) // _BLOCK)]
    if packed.way not in (0, 1, 2) or len(data) < head or int(widths.max(initial=0)) > _WIDEST:
        raise InputError(f"{len(data)} bytes, written in way {packed.way}, are no {len(array)} packed numbers")
    taken = head + _WORD_BYTES * int(_words(widths, len(array)).sum())
    if len(data) != taken or not out.is_contiguous():
        raise InputError(f"{len(array)} numbers packed so take {taken} bytes, and these are {len(data)}")
    codes = data[head:].view(np.uint64)
    cpu_packing.unpack(widths, codes, np.uint64(packed.way), np.uint64(packed.base % _MODULUS), array)


def _head_bytes(count: int) -> int:
    """Of the widths, which end with a word."""
    return -(-count // (_BLOCK * _WORD_BYTES)) * _WORD_BYTES


def _words(widths: NDArray[np.uint8], count: int) -> NDArray[np.int64]:
    """How many words the codes of each block take."""
    bits = np.full(len(widths), _BLOCK)
    bits[len(widths) - 1 :] = count - _BLOCK * (len(widths) - 1)
    bits *= widths
    return (bits + (_WIDEST - 1)) // _WIDEST
