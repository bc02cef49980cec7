"""Copying rows of tensors of any dtype and shape: to the kernels a row is a number of machine words."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops import cpu_index
from halohop.ops.arguments import ARRAY_DTYPES, integers, require_cpu
from halohop.ops.paging import windows
from halohop.ops.pieces import Pieces, widest_word, words_at
from halohop.ops.pool import SMALL, Pool, empty

if TYPE_CHECKING:
    from halohop.ops.device_pieces import DevicePieces

_BYTE = np.dtype(np.uint8)
_ONE_PIECE = np.zeros(1, np.uint64)


def gather_rows(
    source: "Tensor | Pieces | DevicePieces", rows: Tensor, out: Tensor | None = None, *, pool: Pool | None = None
) -> Tensor:
    """The rows ``source[rows]``, in an order and number of your choice.

    Args:
        source: ``[num_rows, ...]``, any dtype; a row may be a scalar, or have no element. May be mapped from a file, and may
            lie in pieces.
        rows: int64 or int32 ``[n]``.
        out: where to write the result, ``[n, ...]``, contiguous, of the dtype of `source`. Writing into a buffer that was used
            before is several times faster than into a new one, whose pages the operating system has yet to find.
        pool: where the memory of the result comes from, if there is no `out`.

    Returns:
        `out`, or another tensor.

    Raises:
        IdError: a row outside `source`; part of `out` may be written then.
        InputError: wrong dtypes or shapes, `out` not contiguous, a tensor that is not on the CPU.

    Example:
        >>> gather_rows(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0, 1])).tolist()
        [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]
    """
    if rows.is_cuda:
        from halohop.ops import gpu_rows

        return gpu_rows.gather_rows(source, rows, out, pool)
    index = integers(rows, "rows")
    if not isinstance(source, Pieces):
        assert isinstance(source, Tensor)
        return _gather_from_tensor(source, rows, index, out, pool)
    return _gather_from_pieces(source, rows, index, out, pool)


def pick_rows(source: Tensor, rows: Tensor, *, pool: Pool | None = None) -> Tensor:
    """`gather_rows` of ascending rows, each at most once: where they are neighbours a view of `source`, and nothing is copied.

    Example:
        >>> pick_rows(torch.tensor([5, 6, 7]), torch.tensor([1, 2])).tolist()
        [6, 7]
    """
    if rows.is_cuda:
        return gather_rows(source, rows, pool=pool)
    first, end = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
    if end - first == len(rows) and first >= 0 and end <= len(source):
        return source[first:end]
    return gather_rows(source, rows, pool=pool)


def gather_rows_to(
    source: "Tensor | Pieces | DevicePieces", rows: Tensor, positions: Tensor, out: Tensor, *, pool: Pool | None = None
) -> None:
    """Writes row ``rows[i]`` of `source` to row ``positions[i]`` of `out`: a gather and a scatter in one pass.

    Args:
        source, rows: as of `gather_rows`.
        positions: int64 ``[n]``; where one occurs twice, its last row stays (on a device, any of them).
        out: ``[num_rows, ...]``, contiguous, of the dtype of `source`; its other rows stay as they are.
        pool: of the device, which says later that a row is not there; not asked on the CPU.

    Raises:
        IdError: a row outside `source`, or a position outside `out`; part of `out` may be written then.
        InputError: wrong dtypes or shapes, `out` not contiguous, a tensor that is not on the CPU.

    Example:
        >>> out = torch.zeros(3, dtype=torch.int64)
        >>> gather_rows_to(torch.tensor([5, 6]), torch.tensor([1, 1]), torch.tensor([2, 0]), out)
        >>> out.tolist()
        [6, 0, 6]
    """
    if rows.is_cuda:
        from halohop.ops import gpu_rows

        gpu_rows.gather_rows_to(source, rows, positions, out, pool)
        return
    assert isinstance(source, Pieces | Tensor)
    pieces = source if isinstance(source, Pieces) else None
    if pieces is None and isinstance(source, Tensor):
        _require_rows(source, "source")
        pieces = Pieces([source], [0, len(source)]) if _is_plain(source) else None
    row_shape = source.row_shape if isinstance(source, Pieces) else tuple(source.shape[1:])
    _check_out(out, (len(out), *row_shape), source.dtype)
    if pieces is None or pieces.row_bytes == 0 or out.data_ptr() % pieces.word.itemsize:
        scatter_rows(gather_rows(source, rows), positions, out)
        return
    index, places = integers(rows, "rows"), integers(positions, "positions", length=len(rows))
    words, num_rows = _as_words(out, pieces.word), np.uint64(len(out))
    for part in windows(pieces, index):
        some = index[part]
        done = cpu_index.gather_to(pieces.words, pieces.origins, pieces.bounds, pieces.width, some, places[part], num_rows, words)
        if done < len(some):
            at = part.start + int(done)
            _check_range(places[at : at + 1], len(out))
            raise IdError(f"row {int(index[at])} at position {at} is {pieces.explain(int(index[at]))}")


def join_rows(pieces: Sequence[Tensor], *, pool: Pool | None = None) -> Tensor:
    """Rows end to end, in the calling thread alone: torch would share the copy with its intra-op threads (see `copy_ids`).

    Args:
        pieces: ``[n_i, ...]`` each, at least one; of one dtype and row shape.
        pool: where the memory of the result comes from.

    Raises:
        InputError: dtypes or shapes that do not fit together, a tensor that is not on the CPU.

    Example:
        >>> join_rows([torch.tensor([1, 2]), torch.tensor([3])]).tolist()
        [1, 2, 3]
    """
    first = pieces[0]
    if first.is_cuda:
        return torch.cat(list(pieces))
    out = empty(pool, (sum(map(len, pieces)), *first.shape[1:]), first.dtype)
    bytes_out, begin = _as_words(out, _BYTE), 0
    for piece in pieces:
        _require_rows(piece, "a piece")
        if piece.dtype != first.dtype or piece.shape[1:] != first.shape[1:]:
            raise InputError(
                f"rows of {piece.dtype} and shape {tuple(piece.shape[1:])} do not fit behind those of {first.dtype} and shape "
                f"{tuple(first.shape[1:])}"
            )
        words = _as_words(piece.resolve_conj().resolve_neg().contiguous(), _BYTE)
        bytes_out[begin : begin + len(words)] = words
        begin += len(words)
    return out


def scatter_rows(values: Tensor, positions: Tensor, out: Tensor, *, pool: Pool | None = None) -> None:
    """Writes row i of `values` to row ``positions[i]`` of `out`; the inverse of `gather_rows`.

    Args:
        values: ``[n, ...]``, any dtype.
        positions: int64 or int32 ``[n]``; where one occurs twice, its last row stays (on a device, any of them).
        out: ``[num_rows, ...]``, contiguous, of the dtype of `values`; its other rows stay as they are.
        pool: of the device, which says later that a position is outside; not asked on the CPU.

    Raises:
        IdError: a position outside `out`; part of `out` may be written then.
        InputError: wrong dtypes or shapes, `out` not contiguous, a tensor that is not on the CPU.

    Example:
        >>> out = torch.zeros(3)
        >>> scatter_rows(torch.tensor([5.0, 7.0]), torch.tensor([2, 0]), out)
        >>> out.tolist()
        [7.0, 0.0, 5.0]
    """
    if values.is_cuda:
        from halohop.ops import gpu_rows

        gpu_rows.scatter_rows(values, positions, out, pool)
        return
    _require_rows(values, "values")
    _require_rows(out, "out")
    index = integers(positions, "positions", length=len(values))
    _check_out(out, (len(out), *values.shape[1:]), values.dtype)
    row_bytes = _row_bytes(out)
    if row_bytes == 0:
        _check_range(index, len(out))
        return
    values = values.resolve_conj().resolve_neg().contiguous()
    word = widest_word(row_bytes, [values, out])
    width = np.uint64(row_bytes // word.itemsize)
    done = cpu_index.scatter(_as_words(values, word), np.uint64(len(out)), width, index, _as_words(out, word))
    _check_done(done, index, len(out))


def _select(source: Tensor, rows: Tensor, index: NDArray[Any], out: Tensor | None) -> Tensor:
    _check_range(index, len(source))
    selected = source.detach().index_select(0, rows)
    if out is None:
        return selected
    _check_out(out, tuple(selected.shape), source.dtype)
    return out.copy_(selected)


def _gather_from_pieces(source: Pieces, rows: Tensor, index: NDArray[Any], out: Tensor | None, pool: Pool | None) -> Tensor:
    num_rows = len(index)
    shape = (num_rows, *source.row_shape)
    kind = ARRAY_DTYPES.get(source.dtype)
    if out is not None:
        _check_out(out, shape, source.dtype)
    elif kind is not None and 0 < num_rows * source.row_bytes < SMALL:
        array = np.empty(shape, kind)  # what is small needs no pool, and this is the shortest way to it
        _gather_words(source, index, array.reshape(-1).view(source.word))
        return torch.from_numpy(array)
    else:
        out = empty(pool, shape, source.dtype)
    if source.row_bytes == 0:
        _check_range(index, len(source))
    elif out.data_ptr() % source.word.itemsize:  # a user's own memory may begin anywhere
        out.copy_(gather_rows(source, rows))
    else:
        _gather_words(source, index, _as_words(out, source.word))
    return out


def _gather_words(source: Pieces, index: NDArray[Any], words: NDArray[Any]) -> None:
    width = int(source.width)
    for part in windows(source, index) if source.on_disk else (slice(0, len(index)),):
        into = words[part.start * width : part.stop * width]
        done = part.start + cpu_index.gather(source.words, source.origins, source.bounds, source.width, index[part], into)
        if done < part.stop:
            raise IdError(f"row {int(index[done])} at position {int(done)} is {source.explain(int(index[done]))}")


def _gather_from_tensor(source: Tensor, rows: Tensor, index: NDArray[Any], out: Tensor | None, pool: Pool | None) -> Tensor:
    """`gather_rows` of one tensor: the kernel for pieces, and one piece."""
    _require_rows(source, "source")
    if not _is_plain(source):  # gaps between the elements: rare, and torch knows how
        return _select(source, rows, index, out)
    shape = (len(index), *source.shape[1:])
    if out is None:
        out = empty(pool, shape, source.dtype)
    else:
        _check_out(out, shape, source.dtype)
    row_bytes = _row_bytes(source)
    if row_bytes == 0:
        _check_range(index, len(source))
        return out
    word = widest_word(row_bytes, [source, out])
    num_rows = source.shape[0]
    bounds, width = np.array((0, num_rows), np.int64), np.uint64(row_bytes // word.itemsize)
    done = cpu_index.gather(_as_words(source, word), _ONE_PIECE, bounds, width, index, _as_words(out, word))
    _check_done(done, index, num_rows)
    return out


def _require_rows(tensor: Tensor, name: str) -> None:
    require_cpu(tensor, name)
    if tensor.dim() == 0:
        raise InputError(f"{name} is a scalar; it needs a first dimension, the rows")


def _is_plain(tensor: Tensor) -> bool:
    """Its memory holds its values, in order."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def _check_out(out: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    require_cpu(out, "out")
    if tuple(out.shape) != shape or out.dtype != dtype:
        raise InputError(f"out is {out.dtype} of shape {tuple(out.shape)}, expected {dtype} of shape {shape}")
    if not _is_plain(out):
        raise InputError(f"out is not contiguous (strides {out.stride()}); make it with torch.empty")


def _check_range(index: NDArray[Any], num_rows: int) -> None:
    outside = np.flatnonzero((index < 0) | (index >= num_rows))
    _check_done(int(outside[0]) if len(outside) else len(index), index, num_rows)


def _check_done(done: int, index: NDArray[Any], num_rows: int) -> None:
    if done < len(index):
        raise IdError(f"row {int(index[done])} at position {int(done)} is out of range: there are {num_rows} rows")


def _row_bytes(tensor: Tensor) -> int:
    return tensor.element_size() * math.prod(tensor.shape[1:])


def _as_words(tensor: Tensor, word: np.dtype[Any]) -> NDArray[Any]:
    """The memory of a tensor that lies without gaps."""
    if tensor.dtype in ARRAY_DTYPES and not tensor.requires_grad:
        return tensor.numpy().reshape(-1).view(word)  # half the time of the way below, which every dtype can go
    return words_at(tensor.data_ptr(), tensor.nbytes // word.itemsize, word, tensor)
