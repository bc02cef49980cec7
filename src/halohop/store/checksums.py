"""CRC-32 of a file in chunks, so that several writers write, and several readers check, parts of one file at a time."""

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

CHUNK = 64 << 20
"""Bytes of a file that have one checksum; the last chunk is shorter."""

_READ = 1 << 20


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


def sum_range(descriptor: int, begin: int, end: int) -> int:
    """The checksum of some bytes of an open file, or of those of them that there are."""
    checksum = 0
    while begin < end and (data := os.pread(descriptor, min(_READ, end - begin), begin)):
        checksum = zlib.crc32(data, checksum)
        begin += len(data)
    return checksum


def sums_of(descriptor: int) -> tuple[int, ...]:
    """The checksums of an open file; reads all of it."""
    return tuple(sum_range(descriptor, begin, begin + CHUNK) for begin in chunk_begins(os.fstat(descriptor).st_size))
