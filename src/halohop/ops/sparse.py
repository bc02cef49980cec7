"""Rows of numbers of which most are zero, as lists of those that are not (CSR): what a column of wide features is stored as.

Lists of entries are what lists of neighbours are to the kernels, so the same ones find and copy them.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops import cpu_sparse
from halohop.ops.lists import stitch
from halohop.ops.pieces import Pieces
from halohop.ops.pool import Pool, empty
from halohop.ops.rows import gather_rows
from halohop.ops.sample import sample_neighbors

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseRows:
    """Some rows of `width` numbers each.

    Args:
        indptr: int32 or int64 ``[n + 1]``: the entries of row v are those from ``indptr[v]`` to ``indptr[v + 1]``.
        indices: in which place of its row an entry is, int16 or int32 ``[num_entries]``; ascending within a row.
        values: of the entries, any dtype ``[num_entries]``; or ``[1]``: all have this one.
        width: numbers in a row.
    """

    indptr: Tensor
    indices: Tensor
    values: Tensor
    width: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_bytes(self) -> int:
        """What it weighs."""
        return self.indptr.nbytes + self.indices.nbytes + self.values.nbytes

    def moved(self, move: Callable[[Tensor], Tensor]) -> "SparseRows":
        """With its tensors elsewhere."""
        return replace(self, indptr=move(self.indptr), indices=move(self.indices), values=move(self.values))

    @property
    def is_constant(self) -> bool:
        """Whether all entries have one value, which is stored once."""
        return len(self.values) == 1

    @classmethod
    def of(cls, matrix: Tensor) -> "SparseRows":
        """The rows of a matrix, dense or in torch's sparse layouts (COO, CSR), as narrow as they can be stored.

        What is not zero bit by bit is an entry of a dense matrix (so -0.0 is one), and what is stored one of a sparse matrix.

        Raises:
            InputError: no two dimensions, one of them dense and one sparse, a layout in blocks, rows of more than 2**31 numbers,
                or entries outside.

        Example:
            >>> rows = SparseRows.of(torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]]))
            >>> rows.indptr.tolist(), rows.indices, rows.values
            ([0, 1, 1], tensor([1], dtype=torch.int16), tensor([2.]))
        """
        known = matrix.layout == torch.strided or (
            matrix.layout in (torch.sparse_coo, torch.sparse_csr) and matrix.dense_dim() == 0
        )
        if matrix.dim() != 2 or not known:
            raise InputError(
                f"a {matrix.layout} tensor of shape {tuple(matrix.shape)} is no matrix of rows; "
                "use COO or CSR, sparse in both dimensions"
            )
        if matrix.shape[1] > 2**31:
            raise InputError(f"rows of {matrix.shape[1]} numbers are too wide to store; at most 2**31 can be")
        matrix = matrix.detach()
        if matrix.layout == torch.strided:
            words = matrix.contiguous().view(torch.uint8).view(len(matrix), matrix.shape[1], matrix.element_size())
            row, column = words.any(dim=2).nonzero(as_tuple=True)
            values, counts = matrix[row, column], torch.bincount(row, minlength=len(matrix))
        else:
            matrix = matrix if matrix.layout == torch.sparse_coo else _as_coo(matrix)
            _require_inside(matrix)
            matrix = matrix.coalesce()
            row, column = matrix.indices()
            values, counts = matrix.values(), torch.bincount(row, minlength=len(matrix))
        return cls(
            indptr=_ends(counts),
            indices=column.to(index_dtype(matrix.shape[1])),
            values=_shared(values),
            width=matrix.shape[1],
        )

    def dense(self, pool: Pool | None = None) -> Tensor:
        """``[n, width]``, with zeros between the entries.

        Raises:
            IdError: an entry lies outside its row.
        """
        out = empty(pool, (len(self), self.width), self.values.dtype)
        if self.values.dtype.itemsize not in _WORDS:  # complex128
            out.zero_()
            out[self._row_numbers(), self.indices.long()] = self._all_values()
            return out
        words = out.view(_WORDS[out.dtype.itemsize]).view(-1).numpy()
        words[...] = 0
        values = self.values.contiguous().view(_WORDS[out.dtype.itemsize]).numpy()
        step = 0 if self.is_constant else 1
        if not self.is_constant and len(values) != len(self.indices):
            raise IdError(f"{len(self.indices)} entries have {len(values)} values; the rows are damaged")
        done = cpu_sparse.fill_rows(self.indptr.numpy().astype(np.int64), self.indices.numpy(), values, self.width, step, words)
        if done < len(self):
            raise IdError(f"row {done} has an entry outside its {self.width} places; the rows are damaged")
        return out

    def csr(self) -> Tensor:
        """As torch's sparse CSR tensor ``[n, width]``, for `torch.sparse` and ``x @ weight``.

        Raises:
            IdError: an entry lies outside its row.
        """
        size = (len(self), self.width)
        wide = torch.int32 if max(*size, len(self.indices)) < 2**31 else torch.int64
        parts = (self.indptr.to(wide), self.indices.to(wide), self._all_values())
        try:
            return torch.sparse_csr_tensor(*parts, size=size, dtype=self.values.dtype, check_invariants=True)
        except RuntimeError as error:
            raise IdError(f"entries lie outside their rows of {self.width} places; the rows are damaged ({error})") from error

    def padded(self, gid: Tensor) -> "SparseRows":
        """With an empty row wherever `gid` (int64 ``[m]``) is -1; the rows are those of the other places, in order."""
        counts = np.zeros(len(gid), np.int64)
        counts[gid.numpy() >= 0] = np.diff(self.indptr.numpy())
        return replace(self, indptr=_ends(torch.from_numpy(counts), self.indptr.dtype))

    def _row_numbers(self) -> Tensor:
        return torch.from_numpy(np.repeat(np.arange(len(self)), np.diff(self.indptr.numpy())))

    def _all_values(self) -> Tensor:
        return self.values.expand(len(self.indices)).clone() if self.is_constant else self.values


class SparsePieces:
    """Rows in pieces, as `Pieces` are: those of piece p have the numbers bounds[p] to bounds[p + 1] - 1; None is not here.

    Example:
        >>> rows = SparseRows.of(torch.eye(3))
        >>> SparsePieces([rows], [0, 3]).take(torch.tensor([2, 0])).dense().tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    def __init__(self, rows: Sequence[SparseRows | None], bounds: Sequence[int], *, disk_arrays: Collection[int] = ()) -> None:
        here = [piece for piece in rows if piece is not None]
        if len({(piece.width, piece.values.dtype, piece.indices.dtype) for piece in here}) != 1:
            raise InputError("pieces of sparse rows differ in width or dtype")
        for piece, (low, high) in zip(rows, pairwise(bounds), strict=True):
            if piece is not None and len(piece) != high - low:
                raise InputError(f"a piece for the rows {low} to {high - 1} has {len(piece)} rows")
        self.width, self.dtype = here[0].width, here[0].values.dtype
        self.row_shape = (self.width,)
        sizes = [0 if piece is None else len(piece.indices) for piece in rows]
        self._entry_bounds = tuple(accumulate(sizes, initial=0))
        self._indptr = Pieces(
            [None if piece is None else piece.indptr for piece in rows], bounds, extra=1, disk_arrays=disk_arrays
        )
        entries = partial(Pieces, bounds=self._entry_bounds, disk_arrays=disk_arrays)
        self._indices = entries([None if piece is None else piece.indices for piece in rows])
        self._constant = _common([piece for piece in here if len(piece.indices)] or here)
        if self._constant is None:
            self._values = entries([None if piece is None else piece._all_values() for piece in rows])

    def take(self, rows: Tensor, *, padded: bool = False, pool: Pool | None = None) -> SparseRows:
        """Some rows, int64 or int32 ``[n]``, in an order and number of your choice; if `padded`, -1 is an empty one.

        Raises:
            IdError: a row that is not here.
        """
        known = torch.from_numpy(rows.numpy()[rows.numpy() >= 0]) if padded else rows
        bounds = self._entry_bounds
        counts, positions = sample_neighbors(self._indptr, known, known, -1, 0, edge_bounds=bounds, pool=pool)
        taken = SparseRows(
            indptr=_ends(counts, _ends_dtype(len(positions))),
            indices=gather_rows(self._indices, positions, pool=pool),
            values=self._constant if self._constant is not None else gather_rows(self._values, positions, pool=pool),
            width=self.width,
        )
        return taken.padded(rows) if padded else taken


def merge_sparse(pieces: Sequence[SparseRows], order: Tensor, *, pool: Pool | None = None) -> SparseRows:
    """The rows of all pieces, end to end, of which row j comes to place ``order[j]`` (int64 ``[n]``, every place once)."""
    counts = torch.from_numpy(np.concatenate([np.diff(piece.indptr.numpy()) for piece in pieces]).astype(np.int64))
    placed, source = stitch(counts, order, pool=pool)
    constant = _common([piece for piece in pieces if len(piece.indices)] or list(pieces))
    values = constant if constant is not None else gather_rows(torch.cat([piece._all_values() for piece in pieces]), source)
    return SparseRows(
        indptr=_ends(placed, _ends_dtype(len(source))),
        indices=gather_rows(torch.cat([piece.indices for piece in pieces]), source, pool=pool),
        values=values,
        width=pieces[0].width,
    )


def _as_coo(matrix: Tensor) -> Tensor:
    """A CSR matrix in COO. (torch takes the lists of all rows for ascending, which it does not check.)

    Raises:
        InputError: lists that overlap, or that have no end.
    """
    ends, column = matrix.crow_indices(), matrix.col_indices().long()
    if int(ends[0]) != 0 or int(ends[-1]) != len(column) or bool((ends.diff() < 0).any()):
        raise InputError(f"crow_indices do not rise from 0 to {len(column)}, the number of entries; make the matrix anew")
    row = torch.repeat_interleave(ends.diff().long())
    ascending = bool(((row[1:] > row[:-1]) | (column[1:] > column[:-1])).all())
    ends = torch.stack([row, column])
    return torch.sparse_coo_tensor(ends, matrix.values(), matrix.shape, is_coalesced=ascending, check_invariants=False)


def _require_inside(matrix: Tensor) -> None:
    """
    Raises:
        InputError: an entry of a COO matrix lies in no row or column of it, which torch does not check either.
    """
    for name, numbers, count in zip(("row", "column"), matrix._indices(), matrix.shape, strict=True):
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < count:
            raise InputError(f"entries from {name} {numbers.min()} to {numbers.max()} are not all in one of {count}; remove them")


def _common(pieces: Sequence[SparseRows]) -> Tensor | None:
    """The value of all entries, ``[1]``; None if they differ."""
    first = pieces[0].values
    alike = all(piece.is_constant and _same(piece.values, first) for piece in pieces)
    return first if alike else None


def _same(value: Tensor, other: Tensor) -> bool:
    """Bit by bit: NaN is like itself, and -0.0 is not like 0.0."""
    return torch.equal(value.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def _shared(values: Tensor) -> Tensor:
    """``[1]`` where all values are alike, or there is none."""
    if not len(values):
        return torch.zeros(1, dtype=values.dtype)
    words = values.contiguous().view(torch.uint8).view(len(values), -1)
    return values[:1].clone() if bool((words == words[:1]).all()) else values.contiguous()


def _ends(counts: Tensor, dtype: torch.dtype = torch.int64) -> Tensor:
    ends = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts.numpy(), out=ends[1:])
    return torch.from_numpy(ends if dtype == torch.int64 else ends.astype(np.int32))


def _ends_dtype(num_entries: int) -> torch.dtype:
    return torch.int32 if num_entries < 2**31 else torch.int64


def index_dtype(count: int) -> torch.dtype:
    """The smaller dtype that holds the numbers 0 to count - 1."""
    return torch.int16 if count <= 2**15 else torch.int32
