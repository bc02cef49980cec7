"""The partitions of a table that an owner has: which of them a row is in, and where in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import IdError
from halohop.tables.arrays import TableArrays
from halohop.tables.beginnings import Begins
from halohop.tables.spec import TableSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A partition's rows of a table.

    Args:
        part: the partition.
        arrays: the rows, and the state of the optimiser.
        begins: what rows are that were never written; None: zeros.
    """

    part: int
    arrays: TableArrays
    begins: Begins | None


class Held:
    """Some partitions of a table.

    Args:
        spec: of the table.
        bounds: of all partitions: the gid of the first row of each, and how many rows there are.
        pieces: those that are here, at least one.

    Attributes:
        bounds: as given.
    """

    def __init__(self, spec: TableSpec, bounds: tuple[int, ...], pieces: Sequence[Piece]) -> None:
        self._spec, self.bounds, self._pieces = spec, bounds, pieces
        self._piece_of_part = [len(pieces)] * (len(bounds) - 1)
        for index, piece in enumerate(pieces):
            self._piece_of_part[piece.part] = index

    def divided(self, gid: Tensor) -> list[tuple[Piece, Tensor, Tensor]]:
        """By partition that has some of the rows (int64 ``[n]``): their lids, and their positions, ascending.

        Raises:
            IdError: a row that is not here.
        """
        if (only := self._only_piece(gid)) is not None:
            return [(only, torch.from_numpy(gid.numpy() - self.bounds[only.part]), torch.arange(len(gid)))]
        buckets = self._buckets(gid)
        absent = len(self._pieces)
        if found := len(gid) - buckets.starts[absent]:
            row = int(gid[buckets.order[-1]])
            raise IdError(f"{found} of {len(gid)} rows of table {self._spec.name!r} are not held here, row {row} among them")
        divided = []
        for piece, (begin, end) in zip(self._pieces, pairwise(buckets.starts), strict=False):
            if end > begin:
                order = buckets.order[begin:end]
                lid = ops.pick_rows(gid, order).numpy() - self.bounds[piece.part]
                divided.append((piece, torch.from_numpy(lid), order))
        return divided

    def _only_piece(self, gid: Tensor) -> Piece | None:
        """The piece that has all of the rows; None where there are several, or none."""
        part = ops.only_part(gid, self.bounds)
        if part is None or (index := self._piece_of_part[part]) == len(self._pieces):
            return None
        return self._pieces[index]

    def _buckets(self, gid: Tensor) -> ops.Buckets:
        try:
            return ops.bucket(gid, self.bounds, self._piece_of_part)
        except IdError as error:
            raise IdError(f"table {self._spec.name!r} has {self._spec.num_rows} rows: {error}") from error

    def joined(self, tensors: Sequence[Tensor]) -> ops.Pieces:
        """An array of all partitions here as one, by gid; `tensors` are those of the pieces."""
        by_part: list[Tensor | None] = [None] * (len(self.bounds) - 1)
        for piece, tensor in zip(self._pieces, tensors, strict=True):
            by_part[piece.part] = tensor
        on_disk = [tensor.data_ptr() for piece, tensor in zip(self._pieces, tensors, strict=True) if piece.arrays.on_disk]
        return ops.Pieces(by_part, self.bounds, disk_arrays=on_disk)
