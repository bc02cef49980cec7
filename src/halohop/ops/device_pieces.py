"""One long array that a GPU reads: pieces on the device, or in page-locked memory of the host."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from halohop.ops.device import DevicePool
from halohop.ops.pieces import Pieces


class DevicePieces(Pieces):
    """`halohop.ops.Pieces` for kernels of a GPU, which find the piece of a row in a table of addresses.

    Args:
        tensors: ``[bounds[p + 1] - bounds[p] + extra, ...]`` each, contiguous, of one dtype and row shape; on the device, or
            page-locked. At least one; all are here.
        bounds: one more than tensors, never falling.
        pool: of the device.
        extra: rows that every tensor has beyond its bounds (1 for the indptr of CSC).

    Attributes:
        tensors: the pieces themselves, whose memory it keeps.
        places: where they begin, addresses, int64 ``[pieces]`` on the device.
        ends: the bounds, int64 ``[pieces + 1]`` on the device.
        bounds, dtype, row_shape, row_bytes: as of `Pieces`.
        device: that of the pool.
    """

    def __init__(self, tensors: Sequence[Tensor], bounds: Sequence[int], *, pool: DevicePool, extra: int = 0) -> None:
        first = tensors[0]
        assert len(bounds) == len(tensors) + 1
        self.dtype, self.row_shape = first.dtype, tuple(first.shape[1:])
        for tensor, (low, high) in zip(tensors, pairwise(bounds), strict=True):
            assert tensor.is_contiguous()
            assert (tensor.dtype, *tensor.shape) == (self.dtype, high - low + extra, *self.row_shape)
        self.row_bytes = first[:0].element_size() * first.shape[1:].numel()
        self.extra = extra
        self.tensors: tuple[Tensor, ...] = tuple(tensors)
        self.on_disk = False
        self.bounds = np.array(bounds, np.int64)
        self.device = pool.device
        with pool.for_all_lanes():  # the pieces, too, as far as this thread has just put them there
            self.places = pool.put(torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.int64))
            self.ends = pool.put(torch.tensor(list(bounds), dtype=torch.int64))

    @classmethod
    def of(cls, pieces: Pieces, pool: DevicePool, *, on_device: bool) -> "DevicePieces":
        """Pieces, all of which are here, copied to the device, or else page-locked (`DevicePool.lock`).

        Raises:
            InputError: the system does not lock so much memory.
            torch.OutOfMemoryError: the device has not so much.
        """
        move = pool.put if on_device else pool.lock
        tensors = [tensor for tensor in pieces.tensors if tensor is not None]
        assert len(tensors) == len(pieces.tensors)
        return cls([move(tensor) for tensor in tensors], pieces.bounds.tolist(), pool=pool, extra=pieces.extra)

    def in_one(self) -> None:
        """None: kernels of the CPU read none of it."""

    @property
    def num_pieces(self) -> int:
        """How many there are."""
        return len(self.tensors)

    @property
    def nbytes(self) -> int:
        """What the pieces weigh."""
        return sum(tensor.nbytes for tensor in self.tensors)
