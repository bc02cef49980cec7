"""DGL's binary files, mapped: dictionaries of tensors (``node_feat.dgl``) and the graph of a partition (``graph.dgl``).

Numbers are little-endian. A tensor has a head (magic, reserved, device, dimensions, dtype, shape, size in bytes), then its data;
a list has its length, 8 bytes, then its entries; a string its length, then its bytes.
"""

import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import IncompleteDatasetError, InputError
from halohop.files.mapping import map_privately
from halohop.files.reading import open_regular

TENSORS, TENSOR = 0xDD5A9FBE3FA2443F, 0xDD5E40F096B4A13F
GRAPHS, HETERO = 0xDD2E4FF046B4A13F, 0xDD589FBE35224ABF
META_GRAPH, RELATION = 0xDD3C5FFE20046ABF, 0xDD2E60F0F6B4A127
CSR, COO = 0xDD6CD31205DFF127, 0xDD61FFD305DFF127
GRAPHS_BEGIN = 4096
_AS_COO, _AS_CSR, _AS_CSC = (1,), (2,), (3, 4)  # older versions, newer ones
_MOST_DIMENSIONS = 64

DTYPES = {
    **{(0, 8 * width): dtype for width, dtype in ((1, torch.int8), (2, torch.int16), (4, torch.int32), (8, torch.int64))},
    (1, 8): torch.uint8,
    **{(2, 8 * width): dtype for width, dtype in ((2, torch.float16), (4, torch.float32), (8, torch.float64))},
    (4, 16): torch.bfloat16,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A tensor in a file, at any address.

    Args:
        data: its bytes, mapped, uint8.
        dtype, shape: of the tensor.
    """

    data: NDArray[np.uint8]
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def rows(self) -> Tensor:
        """Its rows as bytes, ``[rows, bytes of a row]``: the file's own pages, which may begin anywhere."""
        return torch.from_numpy(self.data).view(self.shape[0], self.dtype.itemsize * math.prod(self.shape[1:]))

    def typed(self, rows: Tensor) -> Tensor:
        """Rows of bytes as what they are."""
        if not rows.numel():
            return torch.empty(len(rows), *self.shape[1:], dtype=self.dtype)
        if rows.data_ptr() % self.dtype.itemsize:  # in the file they may begin anywhere
            rows = rows.clone()
        return rows.view(self.dtype).view(len(rows), *self.shape[1:])

    def tensor(self) -> Tensor:
        """A copy in memory."""
        return self.typed(self.rows.clone())


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGraph:
    """The graph of a partition, by its own numbers.

    Args:
        src, dst: ends of each edge, by the edge's number.
        nodes, edges: columns of nodes and of edges.
    """

    src: Tensor
    dst: Tensor
    nodes: dict[str, Stored]
    edges: dict[str, Stored]


def read_tensors(file: Path) -> dict[str, Stored]:
    """The tensors that `dgl.data.utils.save_tensors` wrote.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: it is not such a file, or ends early.
    """
    reader = _Reader(file)
    reader.expect(TENSORS, "a file of tensors")
    reader.number()
    return reader.named_tensors()


def read_graph(file: Path) -> LocalGraph:
    """The graph of a partition, of one node type and one relation, as `dgl.save_graphs` wrote it.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: it is not such a file, ends early, or holds several graphs or types.
    """
    reader = _Reader(file)
    reader.expect(GRAPHS, "a file of graphs")
    version, kind, count = (reader.number() for _ in range(3))
    if (version, kind, count) != (2, 2, 1):
        raise InputError(f"{file} is of version {version}, kind {kind}, with {count} graphs; write it with DGL 0.5 or newer")
    reader.go(GRAPHS_BEGIN)
    reader.go(reader.number())
    reader.expect(HETERO, "a graph")
    reader.meta_graph()
    if (relations := reader.number()) != 1:
        raise InputError(f"{file} has {relations} relations; the graph of a partition is a homogeneous one")
    src, dst = reader.relation()
    for _ in range(reader.number()):
        reader.number()
    nodes, edges = ([reader.named_tensors() for _ in range(reader.number())] for _ in range(2))
    return LocalGraph(src=src, dst=dst, nodes=nodes[0], edges=edges[0])


class _Reader:
    """A mapped file and a place in it."""

    def __init__(self, file: Path) -> None:
        try:
            stream = open_regular(file)
        except FileNotFoundError:
            raise IncompleteDatasetError(f"there is no file {file}; copy the whole folder") from None
        with stream:
            size = os.fstat(stream.fileno()).st_size
            self._data = map_privately(stream.fileno(), size, file) if size else np.empty(0, np.uint8)
        self._file, self._at = file, 0

    def go(self, place: int) -> None:
        """Goes to a byte of the file."""
        self._at = min(place, len(self._data))

    def expect(self, magic: int, what: str) -> None:
        found = self.number()
        if found != magic:
            raise InputError(
                f"{self._file} is not {what} that DGL 0.5 or newer wrote: 0x{found:X} where 0x{magic:X} was expected"
            )

    def number(self) -> int:
        """Eight bytes."""
        (value,) = struct.unpack("<Q", self._bytes(8).tobytes())
        return int(value)

    def meta_graph(self) -> None:
        """The graph whose nodes are the node types; which it are, `part_config.json` says, too."""
        self.expect(META_GRAPH, "a graph of types")
        self._compressed()

    def relation(self) -> tuple[Tensor, Tensor]:
        """Sources and destinations of all edges, in the order of their numbers."""
        self.expect(RELATION, "a relation")
        saved = self.number() & 0xFFFFFFFF
        self.number()  # the forms that DGL may make of it
        self.meta_graph()
        if saved not in (*_AS_COO, *_AS_CSR, *_AS_CSC):
            raise InputError(f"{self._file} has edges of form {saved}; it was written by a version of DGL that is not known here")
        if saved in _AS_COO:
            return self._coordinates()
        owner, other = self._compressed()
        return (owner, other) if saved in _AS_CSR else (other, owner)

    def named_tensors(self) -> dict[str, Stored]:
        return {self._text(): self._tensor() for _ in range(self.number())}

    def _coordinates(self) -> tuple[Tensor, Tensor]:
        self.expect(COO, "a list of edges")
        self._bytes(16)  # number of columns, number of rows
        rows, columns, number = (self._tensor().tensor().long() for _ in range(3))
        self._bytes(2)  # whether rows and columns ascend
        return _numbered(rows, number), _numbered(columns, number)

    def _compressed(self) -> tuple[Tensor, Tensor]:
        """Of a compressed matrix, the row and the column of each edge."""
        self.expect(CSR, "a compressed matrix")
        self._bytes(16)
        begin, columns, number = (self._tensor().tensor().long() for _ in range(3))
        self._bytes(1)
        rows = torch.repeat_interleave(begin.diff())
        return _numbered(rows, number), _numbered(columns, number)

    def _tensor(self) -> Stored:
        self.expect(TENSOR, "a tensor")
        self._bytes(16)  # reserved, and the device, which is always the CPU
        ndim, code, bits, lanes = struct.unpack("<iBBH", self._bytes(8).tobytes())
        if (code, bits) not in DTYPES or lanes != 1 or not 0 < ndim <= _MOST_DIMENSIONS:
            raise InputError(f"{self._file} holds a tensor of {ndim} dimensions, type {code} of {bits} bits: halohop has no such")
        shape = struct.unpack(f"<{ndim}q", self._bytes(8 * ndim).tobytes())
        dtype, size = DTYPES[code, bits], self.number()
        if min(shape) < 0 or size != dtype.itemsize * math.prod(shape):
            raise InputError(f"{self._file} is damaged: {size} bytes for a tensor of shape {shape}; copy it again")
        return Stored(data=self._bytes(size), dtype=dtype, shape=shape)

    def _text(self) -> str:
        return self._bytes(self.number()).tobytes().decode(errors="replace")

    def _bytes(self, count: int) -> NDArray[np.uint8]:
        if count > len(self._data) - self._at:
            raise InputError(f"{self._file} ends early, after {len(self._data)} bytes; copy it again")
        found = self._data[self._at : self._at + count]
        self._at += count
        return found


def _numbered(values: Tensor, number: Tensor) -> Tensor:
    """Values of edges in the order of the edges' numbers, which are none where that is the order already."""
    if not len(number):
        return values
    ordered = torch.empty_like(values)
    ordered[number] = values
    return ordered
