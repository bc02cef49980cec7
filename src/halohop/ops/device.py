"""A GPU as the operations see it: a pool whose tensors lie there, and the few numbers that the host waits for."""

import os
from collections import deque
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops.lanes import Lanes, Mark
from halohop.ops.locked import LockedMemory, lock_in_place, locked_limit, unlock_in_place
from halohop.ops.pool import SMALL, Pool, page_locked
from halohop.telemetry import Counters

NO_FAULT = -(2**63)
"""What `DevicePool.faults` holds at first. A kernel raises it, atomically, to a number that it cannot work with."""


class Fault(IntEnum):
    """What can be wrong, by its place in `DevicePool.faults`."""

    ROW = 0
    ORDER = 1
    ROOM = 2


class DevicePool(Lanes, Pool):
    """Memory of one GPU, from torch's caching allocator, by the interface of `Pool`: what gets this pool works on the device.

    Kernels are launched on the calling thread's current stream (see `Lanes`). The host waits for them in `numbers`, `bring`,
    `check` and `wait_for`, and where something is made that all streams read (`for_all_lanes`).

    Args:
        device: the GPU, with its index.
        counters: of the times that the host waited for the device ("device_waits"), and of the bytes that were copied there
            ("device_put_bytes") and from there ("device_brought_bytes").

    Attributes:
        device: the GPU.
        counters: what is counted.
        least_locked: bytes of tensors from which `lock` leaves them where they lie.
    """

    least_locked = SMALL

    def __init__(self, device: torch.device, counters: Counters | None = None) -> None:
        Lanes.__init__(self)
        Pool.__init__(self, limit_bytes=0)
        self.device = device
        self.counters = counters or Counters()
        self._faults = self._no_faults()
        self._idle_marks: deque[Tensor] = deque()
        self._locked = self._locking()
        self._process = os.getpid()

    @property
    def faults(self) -> Tensor:
        """What kernels found wrong, as they cannot raise: a number for each of `Fault`, int64 on the device. Those of a lane have
        memory of their own, which says of which batch it is."""
        lane = self._inside()
        return self._faults if lane is None else lane.faults

    def _locking(self) -> LockedMemory:
        return LockedMemory(partial(lock_in_place, self.device), partial(unlock_in_place, self.device))

    def _no_faults(self) -> Tensor:
        return self.empty((len(Fault),), torch.int64).fill_(NO_FAULT)

    def check(self) -> None:
        """Waits for what this thread has launched, and raises what its kernels found wrong since the last `check` or `mark`.

        Raises:
            IdError: a row that is not there.
            InputError: more than a padded batch has places for.
        """
        found = self.numbers(self.faults)
        if max(found) > NO_FAULT:
            self.faults.fill_(NO_FAULT)
            _refuse(found)

    def require(self, found: Tensor, most: int) -> None:
        """Notes as a fault that a number of nodes or edges, int64 ``[1]`` on the device, is larger than that of their places."""
        known = self.faults[Fault.ROOM : Fault.ROOM + 1]
        known.copy_(torch.maximum(known, torch.where(found > most, found, NO_FAULT)))

    def mark(self) -> Mark:
        """The end of what this thread has launched so far, and what its kernels find wrong between the last mark and this one.
        The host does not wait for it; see `wait_for` and `raise_faults`."""
        try:
            found = self._idle_marks.popleft()
        except IndexError:
            found = self.page_locked(torch.full((len(Fault),), NO_FAULT))
        faults = self.faults
        found.copy_(faults, non_blocking=True)
        faults.fill_(NO_FAULT)
        return Mark(event=self.now(), faults=found)

    def wait_for(self, mark: Mark) -> None:
        """The host waits until the device has come to a mark."""
        if not mark.event.query():
            self.counters.add("device_waits", 1)
            mark.event.synchronize()

    def raise_faults(self, mark: Mark) -> None:
        """Raises what kernels found wrong up to a mark to which the device has come. Each mark is asked once.

        Raises:
            IdError, InputError: as of `check`.
        """
        found = mark.faults.tolist()
        self._idle_marks.append(mark.faults)
        _refuse(found)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A contiguous tensor on the device with arbitrary contents."""
        return torch.empty(shape, dtype=dtype, device=self.device)

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A contiguous tensor on the device, of zeros."""
        return self.empty(shape, dtype).zero_()

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """
        Raises:
            AssertionError: always; a device has no arrays of NumPy's.
        """
        raise AssertionError("a kernel of the CPU was given memory of a device")

    def arange(self, count: int) -> Tensor:
        """The numbers from 0 on, int64 ``[count]``."""
        return torch.arange(count, device=self.device)

    def put(self, tensor: Tensor) -> Tensor:
        """The tensor on the device; the host goes on before page-locked memory is copied."""
        if tensor.is_cuda:
            return tensor
        self.counters.add("device_put_bytes", tensor.nbytes)
        return tensor.to(self.device, non_blocking=True)

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor lies on this device."""
        return tensor.is_cuda and tensor.device == self.device

    def reach(self, peer: "DevicePool") -> None:
        """Lets kernels of this device read the memory of another one of the host.

        Raises:
            InputError: they cannot.
        """
        if peer.device == self.device:
            return
        if not torch.cuda.can_device_access_peer(self.device, peer.device):
            raise InputError(f"{self.device} cannot read the memory of {peer.device}; give each device a cache of its own")
        self.empty((1,), torch.uint8).to(peer.device)  # a copy by this device, for which torch lets it reach the other's memory

    def numbers(self, tensor: Tensor) -> list[int]:
        """What a tensor of the device holds, int64 ``[n]``: the one way by which the host waits for it."""
        self.counters.add("device_waits", 1)
        found: list[int] = tensor.tolist()
        return found

    def bring(self, tensor: Tensor) -> Tensor:
        """The tensor on the CPU, in page-locked memory; the host waits for what this thread has launched."""
        if tensor.is_cpu:
            return tensor
        self.counters.add_all({"device_waits": 1, "device_brought_bytes": tensor.nbytes})
        near = self.page_locked_bytes(tensor.nbytes).view(tensor.dtype).view(tensor.shape)
        near.copy_(tensor, non_blocking=True)
        self._stream().synchronize()
        return near

    def lock(self, tensor: Tensor) -> Tensor:
        """A CPU tensor, as the device reads it by itself over the bus for as long as the pool is open: the same, locked where it
        lies, or a copy, if it is small or the system does not lock it there (because another graph has, for instance).

        Raises:
            InputError: the system does not lock so much memory.
        """
        if tensor.nbytes >= self.least_locked:
            if self._locked.add(tensor):
                return tensor
            copy = tensor.clone()  # torch's own page-locked memory has a power of two of bytes, and is never given back
            if self._locked.add(copy):
                return copy
        return self.page_locked(tensor)

    def page_locked(self, tensor: Tensor) -> Tensor:
        """A copy of a CPU tensor that the device reads by itself over the bus.

        Raises:
            InputError: the system does not lock so much memory.
        """
        try:
            return self.page_locked_bytes(tensor.nbytes).view(tensor.dtype).view(tensor.shape).copy_(tensor)
        except RuntimeError as error:
            raise InputError(
                f"{tensor.nbytes} bytes of memory cannot be locked for {self.device} ({error}), and this process may lock "
                f"{locked_limit()}; raise that (ulimit -l), or leave device out"
            ) from error

    def page_locked_bytes(self, num_bytes: int) -> Tensor:
        """Memory of the host from which the device copies without a stop on the way, uint8 ``[num_bytes]``."""
        with torch.cuda.device(self.device):
            return page_locked(num_bytes)

    def close(self) -> None:
        """Waits for the device, and gives back its memory that nobody uses, and what was locked for it. Nothing in a process that
        was forked, where CUDA does nothing."""
        if os.getpid() != self._process:
            return
        self.finish()
        self._locked.release()
        self.trim()

    def finish(self) -> None:
        """Waits until the device has done all that was launched."""
        torch.cuda.synchronize(self.device)

    def free_bytes(self) -> int:
        """What is free on the device now, with what torch keeps idle to give it to tensors."""
        idle = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return torch.cuda.mem_get_info(self.device)[0] + idle

    def trim(self) -> None:
        """Gives memory that lies idle back to the device."""
        torch.cuda.empty_cache()


def _refuse(found: list[int]) -> None:
    """
    Raises:
        IdError, InputError: a number of `DevicePool.faults` is one.
    """
    if (row := found[Fault.ROW]) > NO_FAULT:
        raise IdError(f"row {row} is not there")
    if (position := found[Fault.ORDER]) > NO_FAULT:
        raise InputError(f"excluded falls to entry {position}; give it sorted")
    if (count := found[Fault.ROOM]) > NO_FAULT:
        raise InputError(
            f"{count} nodes or edges are more than the padded batch has places for; give more in Padding(nodes=, edges=), leave "
            "them out, or take caps='measured', which grows"
        )


def device_pool(name: str | torch.device, counters: Counters | None = None) -> DevicePool:
    """The pool of a GPU, such as ``"cuda"`` (the current one) or ``"cuda:1"``.

    Raises:
        InputError: it is no GPU, or torch reaches none.

    Example:
        >>> device_pool("cpu")
        Traceback (most recent call last):
            ...
        halohop.errors.InputError: device='cpu' is no GPU; give 'cuda' or 'cuda:N', or leave device out
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("cpu")
    if device.type != "cuda":
        raise InputError(f"device={str(name)!r} is no GPU; give 'cuda' or 'cuda:N', or leave device out")
    count = torch.cuda.device_count()
    index = device.index if device.index is not None else torch.cuda.current_device() if count else 0
    if index >= count:
        have = f"has {count} GPUs" if count else "reaches no GPU"
        raise InputError(f"device={str(name)!r} is not here: torch {torch.__version__} {have}; leave device out to use the CPU")
    return DevicePool(torch.device("cuda", index), counters)
