"""One tensor in one `.npy` file: written with a checksum, at once or by rows, and read by mapping.

The header is written here and compared byte by byte when reading: whatever else a file holds, it is not the array that was
written.
"""

import math
import os
import struct
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import torch
from torch import Tensor

from halohop.errors import CorruptDatasetError, IncompleteDatasetError, InputError
from halohop.files.aside import writing
from halohop.files.mapping import map_privately
from halohop.files.reading import open_regular
from halohop.files.whole import written_stream
from halohop.linux import forget_pages, reserve, write_back
from halohop.store.checksums import ChunkSums, FileRecord, chunk_begins, hexadecimal, sums_of

_PIECE = 1 << 20

_NUMPY_NAMES = {
    torch.bool: "|b1",
    torch.uint8: "|u1",
    torch.int8: "|i1",
    torch.uint16: "<u2",
    torch.int16: "<i2",
    torch.uint32: "<u4",
    torch.int32: "<i4",
    torch.uint64: "<u8",
    torch.int64: "<i8",
    torch.float16: "<f2",
    torch.float32: "<f4",
    torch.float64: "<f8",
    torch.complex64: "<c8",
    torch.complex128: "<c16",
}
_UNSIGNED = {1: "|u1", 2: "<u2", 4: "<u4"}


def numpy_name(dtype: torch.dtype) -> str:
    """The NumPy type that a column is stored as: its own, or unsigned integers of its width (bfloat16, float8, ...).

    Example:
        >>> numpy_name(torch.float32), numpy_name(torch.bfloat16)
        ('<f4', '<u2')
    """
    return _NUMPY_NAMES.get(dtype) or _UNSIGNED[dtype.itemsize]


def write_array(file: Path, tensor: Tensor) -> FileRecord:
    """Writes a new file, in a folder that is synced when it is complete.

    Raises:
        InputError: the tensor is not a dense one on the CPU.
        WriteError: it cannot be written, or there is such a file: two names may differ only in case, where the file system
            ignores it.
    """
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        raise InputError(
            f"{file.stem!r} is a {tensor.layout} {tensor.dtype} tensor on {tensor.device}; store a dense one on the CPU"
        )
    return write_pieces(file, tensor.dtype, tuple(tensor.shape), [tensor])


def write_pieces(file: Path, dtype: torch.dtype, shape: tuple[int, ...], pieces: Iterable[Tensor]) -> FileRecord:
    """Writes a new file from its beginning to its end, in a folder that is synced when it is complete.

    Args:
        file: its name.
        dtype, shape: of the array.
        pieces: its rows, in order.

    Raises:
        WriteError: as of `write_array`.
    """
    with written_stream(file, mode="xb") as stream:
        return stream_pieces(stream, dtype, shape, pieces)


def stream_pieces(stream: IO[bytes], dtype: torch.dtype, shape: tuple[int, ...], pieces: Iterable[Tensor]) -> FileRecord:
    """The same, to a file that is open."""
    sums = ChunkSums()
    for data in chain([memoryview(head_of(dtype, shape))], map(_plain_bytes, pieces)):
        for begin in range(0, len(data), _PIECE):
            stream.write(data[begin : begin + _PIECE])
            sums.add(data[begin : begin + _PIECE])
    return record_of(dtype, shape, sums.checksums)


class ArrayFile:
    """A `.npy` file of known size that is filled by rows, in any order, by one process or by several; a context manager.

    It is written, not mapped: where the disk is full, a write says so, and a mapping ends the process (SIGBUS).

    Args:
        file: made by `reserve`.
        dtype, shape: of the array.

    Raises:
        WriteError: the file cannot be written, at any time; names it.
    """

    def __init__(self, file: Path, dtype: torch.dtype, shape: tuple[int, ...], *, flags: int = 0) -> None:
        self._file, self._dtype = file, dtype
        self._begin = len(_header(numpy_name(dtype), shape))
        self._row_bytes = dtype.itemsize * math.prod(shape[1:])
        with writing(file):
            self._descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC | flags, 0o666)

    @staticmethod
    def reserve(file: Path, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        """Makes an array of zeros of a file that is there, through to the disk: its room is taken now, and not found missing
        later.

        Raises:
            WriteError: there is not so much room.
        """
        size = _size(dtype, shape)
        with writing(file), file.open("r+b", buffering=0) as stream:
            stream.write(_header(numpy_name(dtype), shape))
            reserve(stream.fileno(), size)
            os.fsync(stream.fileno())

    @classmethod
    def provided(cls, file: Path, dtype: torch.dtype, shape: tuple[int, ...]) -> "ArrayFile":
        """The file, which is made where it is missing, with its room taken; several may do so at once. Nothing is synced.

        Raises:
            WriteError: there is not so much room.
        """
        size = _size(dtype, shape)
        if not file.parent.is_dir():
            with writing(file):
                file.parent.mkdir(parents=True, exist_ok=True)
        found = cls(file, dtype, shape, flags=os.O_CREAT)
        try:
            with writing(file):
                if os.fstat(found._descriptor).st_size != size:
                    os.pwrite(found._descriptor, _header(numpy_name(dtype), shape), 0)
                    reserve(found._descriptor, size)
        except BaseException:
            found.close()
            raise
        return found

    def write(self, first: int, rows: Tensor) -> tuple[int, memoryview]:
        """Writes consecutive rows; `first` is where they begin. Returns which bytes were written, and from where on."""
        assert rows.dtype == self._dtype, f"{rows.dtype} rows for {self._file}, an array of {self._dtype}"
        data, position = _plain_bytes(rows), self._begin + first * self._row_bytes
        rest, place = data, position
        with writing(self._file):
            while rest:
                count = os.pwrite(self._descriptor, rest, place)
                rest, place = rest[count:], place + count
        return position, data

    def scatter(self, positions: Tensor, rows: Tensor) -> None:
        """Writes row i to ``positions[i]``, int64; neighbours at once."""
        cuts = (torch.nonzero(positions.diff() != 1).flatten() + 1).tolist()
        for begin, end in pairwise([0, *cuts, len(positions)]):
            if begin < end:
                self.write(int(positions[begin]), rows[begin:end])

    def sync(self) -> None:
        """Waits until what was written is on the disk."""
        with writing(self._file):
            os.fsync(self._descriptor)

    def drop(self) -> None:
        """Waits until what was written has reached the disk, and gives its memory back to the kernel."""
        with writing(self._file):
            write_back(self._descriptor, self._file)
            forget_pages(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def sum_array(file: Path) -> tuple[int, ...]:
    """The checksums of an array that was written by rows; reads all of it."""
    with open_regular(file) as stream:
        return sums_of(stream.fileno())


def num_sums(dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    """How many checksums an array has."""
    return len(chunk_begins(_size(dtype, shape)))


def record_of(dtype: torch.dtype, shape: tuple[int, ...], checksums: Sequence[int]) -> FileRecord:
    """The record of an array; `checksums` are those of its chunks, in order, from here or from other hosts."""
    size = _size(dtype, shape)
    return FileRecord(dtype=numpy_name(dtype), shape=shape, bytes=size, checksums=tuple(map(hexadecimal, checksums)))


def read_rows(file: Path, shape: tuple[int, ...], first: int, out: Tensor) -> None:
    """Reads consecutive rows of an array that was written here, and lets the page cache keep none.

    Args:
        shape: of the whole array.
        first: where they begin.
        out: where they go: contiguous, of the array's dtype.

    Raises:
        IncompleteDatasetError: the file ends before.
    """
    data = bytes_of(out)
    place = len(head_of(out.dtype, shape)) + first * out.dtype.itemsize * math.prod(shape[1:])
    with open_regular(file) as stream:
        while data:
            count = os.preadv(stream.fileno(), [data], place)
            if not count:
                raise IncompleteDatasetError(f"{file} ends before its row {first + len(out) - 1}; build again")
            data, place = data[count:], place + count
        forget_pages(stream.fileno())


def head_of(dtype: torch.dtype, shape: tuple[int, ...]) -> bytes:
    """The bytes of an array's file before its first row."""
    return _header(numpy_name(dtype), shape)


def map_array(file: Path, record: FileRecord, dtype: torch.dtype) -> Tensor:
    """The file's array as a tensor of `dtype` over the file's own pages.

    Raises:
        IncompleteDatasetError: there is no such file.
        DatasetError: the operating system cannot open or map it.
        CorruptDatasetError: no regular file, or another size or header than recorded.
    """
    header = _header(record.dtype, record.shape)
    try:
        stream = open_regular(file)
    except FileNotFoundError:
        raise IncompleteDatasetError(f"{file} is missing; copy the partition again") from None
    with stream:
        size = os.fstat(stream.fileno()).st_size
        if size != record.bytes:
            raise CorruptDatasetError(f"{file} has {size} bytes, the manifest says {record.bytes}; copy it again")
        if stream.read(len(header)) != header:
            raise CorruptDatasetError(
                f"{file} is not a {record.dtype} array of shape {record.shape}, as the manifest says; copy it again"
            )
        data = map_privately(stream.fileno(), size, file)[len(header) :]
    return torch.from_numpy(data).view(dtype).view(record.shape)


def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The beginning of a `.npy` file, format 1.0, padded so that the data begins at a multiple of 64 bytes."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor."""
    if tensor.numel() == 0:
        return memoryview(b"")
    # A single entry may have any stride and still pass for contiguous; as bytes it would not.
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy().data


def _plain_bytes(tensor: Tensor) -> memoryview:
    """The values of a tensor, whatever its memory holds."""
    return bytes_of(tensor.detach().resolve_conj().resolve_neg().contiguous())


def _size(dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    return len(_header(numpy_name(dtype), shape)) + dtype.itemsize * math.prod(shape)
