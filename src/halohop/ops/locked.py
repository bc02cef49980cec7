"""Memory of the host that is locked where it lies, so that a GPU reads it by itself and nothing is copied.

Copying columns to page-locked memory needs their bytes twice, which can end the process. If locking fails and a copy is made,
it is ordinary memory that is locked: torch's page-locked allocator rounds 33 GB up to 64. Whether the system allows it is asked
of CUDA, because NVIDIA's driver mostly ignores RLIMIT_MEMLOCK. Columns of a PyG object are locked only with `feature_cache`,
since a user who writes to one during a kernel would get mixed rows.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import finalize

import torch
from torch import Tensor

_READ_ONLY = 8
"""CUDA's cudaHostRegisterReadOnly, which torch has no name for."""


class LockedMemory:
    """What is locked for one device. It is kept until it is unlocked: here, or when nobody refers to this any more.

    Args:
        lock: locks so many bytes from an address on, and says whether the system has.
        unlock: unlocks what begins at these addresses, after the device has read it.
    """

    def __init__(self, lock: Callable[[int, int], bool], unlock: Callable[[list[int]], None]) -> None:
        self._lock = lock
        self._mutex = threading.Lock()
        self._held: dict[int, Tensor] = {}
        self._process = os.getpid()
        self._end = finalize(self, _unlock, self._held, unlock, self._process)
        self._end.atexit = False  # with the process it ends anyway
        self._unlock = unlock

    def add(self, tensor: Tensor) -> bool:
        """Whether a tensor of the CPU is locked now. One that was before, for this device, is kept once."""
        address = tensor.data_ptr()
        with self._mutex:
            known = self._held.get(address)
            if known is not None and known.nbytes >= tensor.nbytes:
                return True
            if known is not None or not self._lock(address, tensor.nbytes):
                return False
            self._held[address] = tensor
            return True

    @property
    def num_bytes(self) -> int:
        """How much is locked."""
        with self._mutex:
            return sum(tensor.nbytes for tensor in self._held.values())

    def release(self) -> None:
        """Unlocks all of it."""
        with self._mutex:
            _unlock(self._held, self._unlock, self._process)


def _unlock(held: dict[int, Tensor], unlock: Callable[[list[int]], None], process: int) -> None:
    if held and process == os.getpid():  # CUDA does nothing in a process that was forked
        unlock(list(held))
        held.clear()


def lock_in_place(device: torch.device, address: int, num_bytes: int) -> bool:
    """Has CUDA lock memory of this process (`cudaHostRegister`): as what the device only reads, which may be a mapped file, or
    else, where it cannot tell these apart, as any other. Whether it has."""
    cudart = torch.cuda.cudart()
    with torch.cuda.device(device):
        for flags in (_READ_ONLY, 0):
            if int(cudart.cudaHostRegister(address, num_bytes, flags)) == 0:
                return True
            with suppress(RuntimeError):  # CUDA says an error again after the next kernel, whosever that is
                torch.empty(1, device=device).fill_(1.0)
    return False


def unlock_in_place(device: torch.device, addresses: list[int]) -> None:
    """The end of `lock_in_place`, once the device has done what was launched."""
    cudart = torch.cuda.cudart()
    with torch.cuda.device(device):
        torch.cuda.synchronize()
        for address in addresses:
            cudart.cudaHostUnregister(address)


def locked_limit() -> str:
    """How much memory a process of this user may lock, as text, by the system's limit (`ulimit -l`)."""
    if sys.platform == "win32":
        return "without a limit"
    import resource

    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return "without a limit" if limit == resource.RLIM_INFINITY else f"{limit} bytes"
