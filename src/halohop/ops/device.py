"""A GPU as the operations see it: a pool whose tensors lie there, and the few numbers that the host waits for."""

from enum import IntEnum
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops.lanes import Lanes, Mark
from halohop.ops.pool import Pool
from halohop.ops.weighted import WeightError
from halohop.telemetry import Counters

NO_FAULT = -(2**63)
"""What `DevicePool.faults` holds at first: kernels raise it, atomically, to the number that they cannot work with."""


class Fault(IntEnum):
    """What can be wrong, by its place in `DevicePool.faults`."""

    ROW = 0
    WEIGHT = 1


class DevicePool(Lanes, Pool):
    """Memory of one GPU, from torch's caching allocator, by the interface of `Pool`: what gets this pool works on the device.

    Kernels are launched on the calling thread's current stream (see `Lanes`), and nothing here waits for them but `numbers`.

    Args:
        device: the GPU, with its index.
        counters: of the times that the host waited for numbers ("device_waits"), and of the bytes that were copied to the device
            ("device_put_bytes").

    Attributes:
        device: the GPU.
        counters: what is counted.
        faults: what kernels found wrong, a number for each of `Fault` (see `check`), int64 on the device.
    """

    def __init__(self, device: torch.device, counters: Counters | None = None) -> None:
        Lanes.__init__(self)
        Pool.__init__(self, limit_bytes=0)
        self.device = device
        self.counters = counters or Counters()
        self.faults = self._no_faults()

    def _no_faults(self) -> Tensor:
        return self.empty((len(Fault),), torch.int64).fill_(NO_FAULT)

    def check(self) -> None:
        """Waits for what was launched, and says what kernels found wrong since the last time: they cannot raise.

        Raises:
            IdError: a row that is not there.
            WeightError: a weight that is negative or not finite, by its position.
        """
        self._refuse(self.numbers(self.faults))

    def mark(self) -> Mark:
        """The end of what this thread has launched, with what is found wrong until then: nobody waits (see `look`)."""
        faults = self.page_locked(torch.full((len(Fault),), NO_FAULT))
        faults.copy_(self.faults, non_blocking=True)
        return Mark(event=self.now(), faults=faults)

    def look(self, mark: Mark) -> None:
        """Says what had been found wrong by a mark whose event has come.

        Raises:
            IdError, WeightError: as of `check`.
        """
        self._refuse(mark.faults.tolist())

    def _refuse(self, found: list[int]) -> None:
        if max(found) > NO_FAULT:
            self.faults = self._no_faults()
            if (row := found[Fault.ROW]) > NO_FAULT:
                raise IdError(f"row {row} is not there")
            raise WeightError(None, found[Fault.WEIGHT])

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

    def settle(self) -> None:
        """Waits until what the current stream has put lies there. For what is put once, such as a column: every stream reads it
        from then on, and none of them waits for the one that put it."""
        torch.cuda.current_stream(self.device).synchronize()

    def reach(self, peer: "DevicePool") -> None:
        """Lets kernels of this device read the memory of another one of the host.

        Raises:
            InputError: they cannot.
        """
        if peer.device == self.device:
            return
        if not torch.cuda.can_device_access_peer(self.device, peer.device):
            raise InputError(f"{self.device} cannot read the memory of {peer.device}; give each device a cache of its own")
        peer.empty((1,), torch.uint8).to(self.device)  # by which torch turns it on

    def numbers(self, tensor: Tensor) -> list[int]:
        """What a tensor of the device holds, int64 ``[n]``: the one way by which the host waits for it."""
        self.counters.add("device_waits", 1)
        found: list[int] = tensor.tolist()
        return found

    def bring(self, tensor: Tensor) -> Tensor:
        """The tensor on the CPU; the host waits for it."""
        if tensor.is_cpu:
            return tensor
        self.counters.add("device_waits", 1)
        return tensor.cpu()

    def page_locked(self, tensor: Tensor) -> Tensor:
        """A copy of a CPU tensor that the device reads by itself over the bus.

        Raises:
            InputError: the system does not lock so much memory.
        """
        try:
            with torch.cuda.device(self.device):  # naming it is deprecated
                return tensor.pin_memory()
        except RuntimeError as error:
            raise InputError(
                f"{tensor.nbytes} bytes of memory cannot be locked for {self.device} ({error}); raise the limit (ulimit -l), or "
                "take mode='cpu'"
            ) from error

    def free_bytes(self) -> int:
        """What is free on the device now."""
        return torch.cuda.mem_get_info(self.device)[0]

    def trim(self) -> None:
        """Gives memory that lies idle back to the device."""
        torch.cuda.empty_cache()


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
