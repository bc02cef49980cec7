"""One tensor in one `.npy` file: written with a checksum, at once or by rows, and read by mapping.

The header is written here and compared byte by byte when reading: whatever else a file holds, it is not the array that was
written.
"""

import ctypes
import math
import mmap
import os
import struct
import sys
import weakref
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import CorruptDatasetError, DatasetError, IncompleteDatasetError, InputError
from halohop.store.manifest import FileRecord

_CHUNK = 1 << 20

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

# Python's mmap names the Linux flag only since 3.13; elsewhere it is either named or not needed.
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


def numpy_name(dtype: torch.dtype) -> str:
    """The NumPy type that a column is stored as: its own, or unsigned integers of its width (bfloat16, float8, ...).

    Example:
        >>> numpy_name(torch.float32), numpy_name(torch.bfloat16)
        ('<f4', '<u2')
    """
    return _NUMPY_NAMES.get(dtype) or _UNSIGNED[dtype.itemsize]


def write_array(file: Path, tensor: Tensor) -> FileRecord:
    """Writes a new file, through to the disk.

    Raises:
        InputError: the tensor is not a dense one on the CPU.
        FileExistsError: there is such a file; two names may differ only in case, where the file system ignores it.
    """
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        raise InputError(
            f"{file.stem!r} is a {tensor.layout} {tensor.dtype} tensor on {tensor.device}; store a dense one on the CPU"
        )
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    dtype, shape = numpy_name(tensor.dtype), tuple(tensor.shape)
    header = _header(dtype, shape)
    data = _bytes_of(tensor)
    checksum = zlib.crc32(header)
    with file.open("xb") as stream:
        stream.write(header)
        for begin in range(0, len(data), _CHUNK):
            chunk = data[begin : begin + _CHUNK]
            checksum = zlib.crc32(chunk, checksum)
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    return FileRecord(dtype=dtype, shape=shape, bytes=len(header) + len(data), crc32=f"{checksum:08x}")


def reserve_array(file: Path, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Makes the file of an array of zeros, for `write_rows` to fill; it appears under its name when it has its full size."""
    header = _header(numpy_name(dtype), shape)
    partial = file.with_name(f"{file.name}.new")
    with partial.open("wb") as stream:
        stream.write(header)
        stream.truncate(len(header) + dtype.itemsize * math.prod(shape))
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)


def write_rows(file: Path, shape: tuple[int, ...], first: int, rows: Tensor) -> None:
    """Writes some rows of a reserved array of this shape, through to the disk; `first` is where they begin."""
    with file.open("r+b") as stream:
        stream.seek(len(_header(numpy_name(rows.dtype), shape)) + first * rows.dtype.itemsize * math.prod(shape[1:]))
        stream.write(_bytes_of(rows.detach().contiguous()))
        stream.flush()
        os.fsync(stream.fileno())


def sum_array(file: Path, dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    """The checksum of an array that was written by rows; reads all of it."""
    header = _header(numpy_name(dtype), shape)
    with file.open("rb", buffering=0) as stream:
        stream.seek(len(header))
        return _rest_of_sum(stream.fileno(), header)


def record_of(dtype: torch.dtype, shape: tuple[int, ...], checksum: int) -> FileRecord:
    """The record of an array that was written by rows, here or on another host."""
    size = len(_header(numpy_name(dtype), shape)) + dtype.itemsize * math.prod(shape)
    return FileRecord(dtype=numpy_name(dtype), shape=shape, bytes=size, crc32=f"{checksum:08x}")


def map_array(file: Path, record: FileRecord, dtype: torch.dtype, *, verify: bool) -> Tensor:
    """The file's array as a tensor of `dtype` over the file's own pages; with `verify` all of it is read and checked first.

    Raises:
        IncompleteDatasetError: there is no such file.
        DatasetError: the operating system cannot map it.
        CorruptDatasetError: another size or header than recorded, or (with `verify`) another checksum.
    """
    header = _header(record.dtype, record.shape)
    try:
        stream = file.open("rb", buffering=0)
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
        if verify:
            _check_sum(stream.fileno(), file, header, record)
        data = _map(stream.fileno(), size, file)[len(header) :]
    return torch.from_numpy(data).view(dtype).view(record.shape)


def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The beginning of a `.npy` file, format 1.0, padded so that the data begins at a multiple of 64 bytes."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def _bytes_of(tensor: Tensor) -> memoryview:
    if tensor.numel() == 0:
        return memoryview(b"")
    # A single entry may have any stride and still pass for contiguous; as bytes it would not.
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy().data


def _rest_of_sum(descriptor: int, header: bytes) -> int:
    """The checksum of a file that is open behind its header."""
    checksum = zlib.crc32(header)
    while chunk := os.read(descriptor, _CHUNK):
        checksum = zlib.crc32(chunk, checksum)
    return checksum


def _check_sum(descriptor: int, file: Path, header: bytes, record: FileRecord) -> None:
    checksum = _rest_of_sum(descriptor, header)
    if f"{checksum:08x}" != record.crc32:
        raise CorruptDatasetError(f"{file} has checksum {checksum:08x}, the manifest says {record.crc32}; copy it again")


def _map(descriptor: int, size: int, file: Path) -> NDArray[np.uint8]:
    """All bytes of a file that is open for reading.

    The pages are private and writable: torch wants writable memory and has no read-only tensors, and a stray write then gets a
    copy of its page, which no other process and no file ever sees. Pages that are only read are the page cache's own, shared by
    all processes. Without a reservation a file may be larger than RAM: the kernel need not promise a copy of every page.

    Python's `mmap` keeps a descriptor open for each mapping, and a graph of many relations has thousands of arrays; hence libc.
    """
    libc = _libc()
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    address = libc.mmap(None, size, protection, mmap.MAP_PRIVATE | _NORESERVE, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise DatasetError(f"cannot map the {size} bytes of {file}: {os.strerror(ctypes.get_errno())}")
    if hasattr(mmap, "MADV_HUGEPAGE"):
        libc.madvise(address, size, mmap.MADV_HUGEPAGE)  # a wish: fewer look-ups of addresses where the system grants it
    memory = (ctypes.c_ubyte * size).from_address(address)
    # Not at exit: a thread may still read then, and the process's end unmaps everything anyway.
    weakref.finalize(memory, libc.munmap, address, size).atexit = False
    return np.ctypeslib.as_array(memory)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return libc
