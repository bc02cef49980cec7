"""DGL's binary files, written a piece at a time; `halohop.datasets.imports.dgl_files` reads them, and describes their form."""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import IO

import torch
from torch import Tensor

from halohop.datasets.imports.dgl_files import (
    COO,
    CSR,
    DTYPES,
    GRAPHS,
    GRAPHS_BEGIN,
    HETERO,
    META_GRAPH,
    RELATION,
    TENSOR,
    TENSORS,
)

_CODES = {dtype: code for code, dtype in DTYPES.items()} | {torch.bool: (1, 8)}  # DGL has no bool: a byte each
_HEAD = 2 * 8  # between `GRAPHS_BEGIN` and the graph: where that is, and how many labels there are
_FORM, _FORMS = 1 | 1 << 32, 7 | 1 << 32  # a list of edges, of which DGL may make any form


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """A tensor that is written a piece at a time.

    Args:
        dtype, shape: of the tensor.
        pieces: its rows, in order, anew at each call.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    pieces: Callable[[], Iterable[Tensor]]

    @classmethod
    def of(cls, tensor: Tensor) -> "Streamed":
        """A tensor in memory."""
        return cls(dtype=tensor.dtype, shape=tuple(tensor.shape), pieces=lambda: [tensor])


def is_known(dtype: torch.dtype) -> bool:
    """Whether DGL's files hold tensors of a dtype."""
    return dtype in _CODES


def write_tensors(stream: IO[bytes], tensors: Mapping[str, Streamed]) -> None:
    """Writes what `dgl.data.utils.load_tensors` reads."""
    _write(stream, chain([_numbers(TENSORS, len(tensors))], _named(tensors)))


def write_graph(
    stream: IO[bytes], num_nodes: int, src: Streamed, dst: Streamed, nodes: Mapping[str, Streamed], edges: Mapping[str, Streamed]
) -> None:
    """Writes what `dgl.load_graphs` reads: one graph, of one node type and one relation.

    Args:
        num_nodes: of it.
        src, dst: ends of each edge, by the edge's number.
        nodes, edges: columns.
    """
    begin = GRAPHS_BEGIN + _HEAD
    none = torch.empty(0, dtype=torch.int64)
    types = [
        _numbers(META_GRAPH, CSR, 1, 1),
        *_tensors(torch.tensor([0, 1]), torch.zeros(1).long(), torch.zeros(1).long()),
        b"\0",
    ]
    _write(
        stream,
        chain(
            [_numbers(GRAPHS, 2, 2, 1).ljust(GRAPHS_BEGIN, b"\0"), _numbers(begin, 0, HETERO), *types, _numbers(1)],
            [_numbers(RELATION, _FORM, _FORMS), *types, _numbers(COO, num_nodes, num_nodes)],
            _streamed(src),
            _streamed(dst),
            _tensors(none),  # the edges' numbers: their places
            [b"\0\0", _numbers(1, num_nodes)],
            [_numbers(1, len(nodes))],
            _entries(nodes),
            [_numbers(1, len(edges))],
            _entries(edges),
            [_numbers(1), _text("_N"), _numbers(1), _text("_E")],
            [_numbers(16, 1, begin, 16)],
        ),
    )


def _write(stream: IO[bytes], pieces: Iterable[bytes | memoryview]) -> None:
    for piece in pieces:
        stream.write(piece)


def _numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def _text(value: str) -> bytes:
    data = value.encode()
    return _numbers(len(data)) + data


def _named(tensors: Mapping[str, Streamed]) -> Iterator[bytes | memoryview]:
    return chain([_numbers(len(tensors))], _entries(tensors))


def _entries(tensors: Mapping[str, Streamed]) -> Iterator[bytes | memoryview]:
    for name, tensor in tensors.items():
        yield _text(name)
        yield from _streamed(tensor)


def _tensors(*tensors: Tensor) -> Iterator[bytes | memoryview]:
    for tensor in tensors:
        yield from _streamed(Streamed.of(tensor))


def _streamed(tensor: Streamed) -> Iterator[bytes | memoryview]:
    code, bits = _CODES[tensor.dtype]
    size = tensor.dtype.itemsize * torch.Size(tensor.shape).numel()
    yield _numbers(TENSOR, 0, 1) + struct.pack(f"<iBBH{len(tensor.shape)}q", len(tensor.shape), code, bits, 1, *tensor.shape)
    yield _numbers(size)
    written = 0
    for piece in tensor.pieces():
        data = piece.contiguous().flatten().view(torch.uint8).numpy().data
        written += len(data)
        yield data
    assert written == size, f"a tensor of {size} bytes came in pieces of {written}"
