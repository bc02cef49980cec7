"""CRC-32 of a file in chunks, so that several writers write, and several readers check, parts of one file at a time."""

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

CHUNK = 64 << 20
"""Bytes of a file that have one checksum; the last chunk is shorter."""

_READ = 1 << 20
_POLYNOMIAL, _ONE, _X8 = 0xEDB88320, 1 << 31, 1 << 23


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One `.npy` file.

    Args:
        dtype, shape: as its header says.
        bytes: its size.
        checksums: CRC-32 of each chunk in hexadecimal; a single one is of the whole file, however large that is: version 1 of
            the format has no others.
    """

    dtype: str
    shape: tuple[int, ...]
    bytes: int
    checksums: tuple[str, ...]

    def chunks(self) -> Iterator[tuple[int, int, str]]:
        """Where each chunk begins and ends in the file, and its checksum."""
        for begin, checksum in zip(chunk_begins(self.bytes) if len(self.checksums) > 1 else (0,), self.checksums, strict=True):
            yield begin, min(begin + CHUNK, self.bytes) if len(self.checksums) > 1 else self.bytes, checksum


class ChunkSums:
    """The checksums of a file that is written from its beginning to its end."""

    def __init__(self) -> None:
        self._sums, self._room = [0], CHUNK

    def add(self, data: bytes | memoryview) -> None:
        """Takes the next bytes."""
        data = memoryview(data)
        while data:
            if not self._room:
                self._sums.append(0)
                self._room = CHUNK
            piece, data = data[: self._room], data[self._room :]
            self._sums[-1] = zlib.crc32(piece, self._sums[-1])
            self._room -= len(piece)

    @property
    def checksums(self) -> tuple[int, ...]:
        return tuple(self._sums)


Extent = tuple[int, int, int]
"""Where some bytes of a file begin and end, and their CRC-32."""


class ExtentSums:
    """The checksums of pieces of a file that are written anywhere, each piece once; no extent lies in two chunks."""

    def __init__(self) -> None:
        self.extents: list[Extent] = []

    def add(self, begin: int, data: bytes | memoryview) -> None:
        """Takes some bytes and their place; those that follow the last ones go on with them."""
        data = memoryview(data)
        while data:
            end = min(begin + len(data), (begin // CHUNK + 1) * CHUNK)
            piece, data = data[: end - begin], data[end - begin :]
            if self.extents and self.extents[-1][1] == begin and begin % CHUNK:
                first, _, before = self.extents.pop()
                self.extents.append((first, end, zlib.crc32(piece, before)))
            else:
                self.extents.append((begin, end, zlib.crc32(piece)))
            begin = end


def joined(extents: Iterable[Extent], size: int) -> tuple[int, ...]:
    """The checksums of the chunks of a file, from those of extents that are all of it, in any order.

    Example:
        >>> sums = ExtentSums()
        >>> sums.add(2, b"cd")
        >>> sums.add(0, b"ab")
        >>> joined(sums.extents, 4) == (zlib.crc32(b"abcd"),)
        True
    """
    sums, at = [0] * len(chunk_begins(size)), 0
    for begin, end, checksum in sorted(extents):
        assert begin == at, f"bytes {at} to {begin} of a file have no checksum, or two"
        sums[begin // CHUNK] = _appended(sums[begin // CHUNK], checksum, end - begin)
        at = end
    assert at == size, f"{at} of {size} bytes of a file have a checksum"
    return tuple(sums)


def _appended(checksum: int, other: int, length: int) -> int:
    """The CRC-32 of some bytes and `length` more, from theirs: polynomials modulo that of the CRC, as zlib's crc32_combine."""
    place = 0
    while checksum and length:
        if length & 1:
            checksum = _product(_behind(place), checksum)
        length >>= 1
        place += 1
    return checksum ^ other


@cache
def _behind(place: int) -> int:
    """What a checksum is multiplied by for ``2**place`` bytes behind its own."""
    return _product(_behind(place - 1), _behind(place - 1)) if place else _X8


def _product(a: int, b: int) -> int:
    """Of two polynomials over GF(2), the coefficient of x**0 in the highest bit, modulo the CRC's."""
    found, bit = 0, _ONE
    while bit:
        if a & bit:
            found ^= b
        b = (b >> 1) ^ _POLYNOMIAL if b & 1 else b >> 1
        bit >>= 1
    return found


def chunk_begins(size: int) -> range:
    """Where the chunks of a file of so many bytes begin.

    Example:
        >>> len(chunk_begins(1)), len(chunk_begins(CHUNK)), len(chunk_begins(CHUNK + 1))
        (1, 1, 2)
    """
    return range(0, max(size, 1), CHUNK)


def hexadecimal(checksum: int) -> str:
    """A checksum as records have it.

    Example:
        >>> hexadecimal(255)
        '000000ff'
    """
    return f"{checksum:08x}"


def sum_range(descriptor: int, begin: int, end: int, report: Callable[[int], object] = lambda count: None) -> int:
    """The checksum of some bytes of an open file, or of those of them that there are; reports how many each read gave."""
    checksum = 0
    while begin < end and (data := os.pread(descriptor, min(_READ, end - begin), begin)):
        checksum = zlib.crc32(data, checksum)
        begin += len(data)
        report(len(data))
    return checksum


def sums_of(descriptor: int) -> tuple[int, ...]:
    """The checksums of an open file; reads all of it."""
    return tuple(sum_range(descriptor, begin, begin + CHUNK) for begin in chunk_begins(os.fstat(descriptor).st_size))
