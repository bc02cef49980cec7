"""Objects between a trainer and its forked workers: pickled, but for tensors, which stay where they are: in memory that both map.

A worker's pool makes its buffers in shared memory, so features are gathered straight to where the trainer reads them, and a batch
on its way is a small pickle that names buffers. The worker leaves a buffer of a sent batch alone until the trainer gives it back,
which it does when the last tensor in it is gone.

Shared memory has no name here (memfd_create): it goes with the last process that maps it, however that process ends, and limits
of /dev/shm do not apply. Pickle serves between a process and its own child on a private line, and nowhere else.
"""

import io
import os
import pickle
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halohop import ops
from halohop.files.mapping import map_shared_file
from halohop.linux import memory_file
from halohop.ops.pool import SMALL, Buffer

Placement = Callable[[Tensor], tuple[Tensor, int] | None]
"""Where a tensor lies: itself or a copy of it, in the buffer of that number; None if it is better pickled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """The part of a buffer that a packed value uses: its first bytes."""

    number: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A value in bytes, and in buffers of the worker that packed it."""

    data: bytes
    loans: tuple[Loan, ...] = ()


class Lender:
    """The worker's side: makes the buffers of its pool, and packs what lies in them without a copy.

    Args:
        pool: gets its buffers from here from now on.
        announce: sends the trainer a new buffer's number, size and descriptor.
    """

    def __init__(self, pool: ops.Pool, announce: Callable[[Loan, int], None]) -> None:
        self._pool = pool
        self._announce = announce
        self._made = 0
        self._numbers: dict[int, int] = {}  # by address
        self._lent: dict[int, list[torch.UntypedStorage]] = {}
        self._freed: deque[tuple[int, int]] = deque()  # finalizers append to it, and do no more: see Pool
        self._forgotten: list[int] = []
        pool.start_over(self._make)

    def pack(self, value: Any) -> Packed:
        """The value for the trainer. Large tensors that lie in no buffer are copied into one; aliases among those become copies.

        Raises:
            whatever pickling the value's parts raises.
        """
        storages: dict[int, torch.UntypedStorage] = {}

        def place(tensor: Tensor) -> tuple[Tensor, int] | None:
            number = self._number_of(tensor)
            if number is None and tensor.nbytes >= SMALL:
                tensor = _dense(tensor, self._pool.empty((tensor.numel(),), tensor.dtype))
                number = self._number_of(tensor)
            if number is None:
                return None
            storages[number] = tensor.untyped_storage()
            return tensor, number

        data = pack(value, place)
        for number, storage in storages.items():
            self._lent.setdefault(number, []).append(storage)
        loans = (Loan(number=number, num_bytes=storage.nbytes()) for number, storage in storages.items())
        return Packed(data=data, loans=tuple(loans))

    def take_back(self, numbers: Iterable[int]) -> None:
        """The trainer has given these back; one that was lent for several values occurs as often."""
        for number in numbers:
            self._lent[number].pop()
            if not self._lent[number]:
                del self._lent[number]

    def forgotten(self) -> list[int]:
        """Numbers of buffers that the pool has freed since the last call; the trainer need not map them any longer."""
        self._forget_freed()
        numbers, self._forgotten = self._forgotten, []
        return numbers

    def _make(self, size: int) -> Buffer:
        descriptor = memory_file("halohop", size)
        try:
            buffer = map_shared_file(descriptor, size, "shared memory")
            self._made += 1
            self._announce(Loan(number=self._made, num_bytes=size), descriptor)
        finally:
            os.close(descriptor)  # a batch that is kept keeps its buffers, and descriptors are few
        self._numbers[buffer.ctypes.data] = self._made
        weakref.finalize(buffer, self._freed.append, (buffer.ctypes.data, self._made)).atexit = False
        return buffer

    def _number_of(self, tensor: Tensor) -> int | None:
        self._forget_freed()  # else new memory at an old address would pass for the old buffer
        return self._numbers.get(tensor.untyped_storage().data_ptr())

    def _forget_freed(self) -> None:
        while self._freed:
            address, number = self._freed.popleft()
            if self._numbers.get(address) == number:
                del self._numbers[address]
            self._forgotten.append(number)


class Borrower:
    """The trainer's side: maps each buffer once, unpacks values, and notes which buffers they need no more."""

    def __init__(self) -> None:
        self._buffers: dict[int, Buffer] = {}
        self._returned: deque[int] = deque()  # finalizers append to it, and do no more: see Pool

    def map(self, loan: Loan, descriptor: int) -> None:
        """Maps a buffer that the worker has announced; closes the descriptor."""
        self._buffers[loan.number] = map_shared_file(descriptor, loan.num_bytes, "shared memory")
        os.close(descriptor)

    def forget(self, numbers: Iterable[int]) -> None:
        """The worker has freed these buffers."""
        for number in numbers:
            self._buffers.pop(number, None)

    def unpack(self, packed: Packed) -> Any:
        """The value. Its tensors are valid as long as they are kept, even if the worker is gone."""
        return unpack(packed.data, {loan.number: self._borrow(loan) for loan in packed.loans})

    def decline(self, packed: Packed) -> None:
        """Gives back the buffers of a value that is not needed any more."""
        self._returned.extend(loan.number for loan in packed.loans)

    def returned(self) -> list[int]:
        """Numbers of the buffers that values have ceased to use since the last call."""
        numbers = []
        while self._returned:
            numbers.append(self._returned.popleft())
        return numbers

    def _borrow(self, loan: Loan) -> Tensor:
        memory = self._buffers[loan.number][: loan.num_bytes]
        weakref.finalize(memory, self._returned.append, loan.number).atexit = False
        return torch.from_numpy(memory)


def pack(value: Any, place: Placement = lambda tensor: None) -> bytes:
    """The value in bytes, without the tensors that `place` finds a place for.

    Example:
        >>> unpack(pack({"x": torch.tensor([1, 2])}))
        {'x': tensor([1, 2])}
    """
    stream = io.BytesIO()
    _Packer(stream, place).dump(value)
    return stream.getvalue()


def unpack(data: bytes | bytearray, buffers: Mapping[int, Tensor] | None = None) -> Any:
    """The value, given the buffers that its tensors lie in: uint8 ``[num_bytes]`` each, by number."""
    return _Unpacker(data, buffers or {}).load()


class _Packer(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, place: Placement) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self._place = place

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not Tensor or not _is_plain(value):
            return NotImplemented
        placed = self._place(value)
        if placed is None:
            flat = torch.empty(value.numel(), dtype=value.dtype)
            dense = _dense(value, flat)
            return _in_bytes, (flat.view(torch.uint8).numpy().tobytes(), value.dtype, value.shape, dense.stride())
        tensor, number = placed
        return _in_buffer, (number, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())


class _Unpacker(pickle.Unpickler):
    def __init__(self, data: bytes | bytearray, buffers: Mapping[int, Tensor]) -> None:
        super().__init__(io.BytesIO(data))
        self._buffers = buffers

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (__name__, _in_buffer.__name__):
            buffers = self._buffers  # a function that knew `self` would be a cycle, and all tensors would wait for the collector
            return lambda number, *where: _in_buffer(buffers[number], *where)
        return super().find_class(module, name)


def _in_buffer(buffer: Tensor, dtype: torch.dtype, shape: torch.Size, stride: tuple[int, ...], offset: int) -> Tensor:
    return torch.empty(0, dtype=dtype).set_(buffer.untyped_storage(), offset, shape, stride)


def _in_bytes(data: bytes, dtype: torch.dtype, shape: torch.Size, stride: tuple[int, ...]) -> Tensor:
    flat = torch.empty(len(data), dtype=torch.uint8)
    flat.numpy().data[:] = data
    return flat.view(dtype).as_strided(shape, stride)


def _is_plain(tensor: Tensor) -> bool:
    """Whether dtype, shape, strides and bytes say everything about it. (Other tensors are pickled as torch does it.)"""
    return (
        tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.__dict__)
    )


def _dense(tensor: Tensor, memory: Tensor) -> Tensor:
    """A copy in `memory`, ``[numel]``: with the same order of dimensions if `tensor` has no gaps, contiguous otherwise."""
    stride = torch.empty_like(tensor, device="meta").stride()
    return memory.as_strided(tensor.shape, stride).copy_(tensor)
