"""A GPU that is not there: tensors that behave like those of CUDA, but whose memory is the host's, so that Triton's interpreter
works on them.

What would fail or wait on a GPU fails here: NumPy's view of such a tensor, an operation on it and a tensor of the CPU, and every
operation by which the host would wait for the device, but `DevicePool.numbers`.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from halohop.ops.device import DevicePool, device_pool
from halohop.telemetry import Counters

WAITS = (
    "item",
    "tolist",
    "nonzero",
    "unique",
    "masked_select",
    "__bool__",
    "__int__",
    "__index__",
    "__float__",
    "bincount",
    "isin",
)
"""Torch's functions by which the host waits for a device: their results are numbers, or have a size, that only it knows."""

COPIES = ("copy_", "to", "cpu", "set_", "__get__", "device", "is_pinned", "new_empty")
"""Torch's functions that may see tensors of two devices."""


class PretendTensor(Tensor):
    """A tensor on the pretended GPU."""

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]
        return False

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy()

    def cpu(self, *args: Any, **kwargs: Any) -> Tensor:
        return home(self).clone()

    def pin_memory(self, *args: Any, **kwargs: Any) -> Tensor:
        raise AssertionError("cannot pin 'torch.cuda.LongTensor' only dense CPU tensors can be pinned")

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        with torch._C.DisableTorchFunctionSubclass():
            if name in WAITS:
                raise AssertionError(f"the host waits for the device: {name}; use DevicePool.numbers")
            if name == "__getitem__" and _is_mask(args[1]):
                raise AssertionError("the host waits for the device: a mask as an index; use DevicePool.numbers")
            if name not in COPIES:
                _refuse_mixed(name, (*args, *(kwargs or {}).values()))
        return super().__torch_function__(func, types, args, kwargs or {})


def pretended(tensor: Tensor) -> Tensor:
    """The tensor as one of the GPU; it shares the memory."""
    return tensor.as_subclass(PretendTensor)  # type: ignore[no-any-return]


def home(tensor: Tensor) -> Tensor:
    """The tensor as one of the CPU; it shares the memory of the pretended GPU, and is a copy of a real one's."""
    if tensor.is_cuda and not isinstance(tensor, PretendTensor):
        return tensor.cpu()
    return tensor.as_subclass(Tensor)  # type: ignore[no-any-return]


class PretendPool(DevicePool):
    """The pool of the pretended GPU.

    Args:
        free: bytes that it says are free.
    """

    def __init__(self, counters: Counters | None = None, *, free: int = 1 << 30) -> None:
        self.free = free
        super().__init__(torch.device("cuda", 0), counters)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return pretended(torch.empty(shape, dtype=dtype))

    def arange(self, count: int) -> Tensor:
        return pretended(torch.arange(count))

    def put(self, tensor: Tensor) -> Tensor:
        if tensor.is_cuda:
            return tensor
        self.counters.add("device_put_bytes", tensor.nbytes)
        return pretended(tensor.clone())

    def settle(self) -> None:
        """What is put lies there."""

    def reach(self, peer: DevicePool) -> None:
        """All memory is the host's."""

    def numbers(self, tensor: Tensor) -> list[int]:
        assert tensor.is_cuda
        self.counters.add("device_waits", 1)
        found: list[int] = home(tensor).tolist()
        return found

    def page_locked(self, tensor: Tensor) -> Tensor:
        return tensor.clone()

    def free_bytes(self) -> int:
        return self.free

    def trim(self) -> None:
        """Nothing lies idle."""


def any_pool(counters: Counters | None = None) -> DevicePool:
    """A GPU's pool where kernels are compiled (`make test-gpu`), the pretended one's where they are interpreted."""
    interpreted = os.environ.get("TRITON_INTERPRET", "0") != "0"
    return PretendPool(counters) if interpreted else device_pool("cuda", counters)


def _refuse_mixed(name: str, arguments: tuple[Any, ...]) -> None:
    found = [one for one in _flat(arguments) if isinstance(one, Tensor) and one.dim() > 0]
    if any(not isinstance(one, PretendTensor) for one in found) and any(isinstance(one, PretendTensor) for one in found):
        raise AssertionError(
            f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! ({name})"
        )


def _flat(values: Any) -> list[Any]:
    return [one for value in values for one in (_flat(value) if isinstance(value, tuple | list) else [value])]


def _is_mask(index: Any) -> bool:
    return any(isinstance(one, Tensor) and one.dtype in (torch.bool, torch.uint8) for one in _flat((index,)))
