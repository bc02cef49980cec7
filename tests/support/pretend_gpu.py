"""A GPU that is not there: tensors that behave like those of CUDA, but whose memory is the host's, so that Triton's interpreter
works on them.

What would fail or wait on a GPU fails here: NumPy's view of such a tensor, an operation on it and a tensor of the CPU, every
operation by which the host would wait for the device, but `DevicePool.numbers`, and the use of a tensor by a stream that has not
waited for the one on which it was last written, by torch or by a kernel. (Atomic operations of kernels on what several streams
count in are left out.)
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import torch
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

from halohop.ops.device import DevicePool, device_pool
from halohop.ops.locked import LockedMemory
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
    "argwhere",
    "unique_consecutive",
    "equal",
    "allclose",
    "is_nonzero",
    "__contains__",
)
"""Torch's functions by which the host waits for a device: their results are numbers, or have a size, that only it knows."""

LOOKS = (
    "__get__",
    "__len__",
    "size",
    "dim",
    "stride",
    "numel",
    "element_size",
    "is_contiguous",
    "data_ptr",
    "as_subclass",
    "detach",
)
"""What the host does with a tensor without its contents."""

COPIES = ("copy_", "to", "cpu", "set_", "__get__", "device", "is_pinned", "new_empty")
"""Torch's functions that may see tensors of two devices."""


class PretendStream:
    """Counts what is launched on it, and knows what others had launched when it waited for them."""

    def __init__(self) -> None:
        self.launched = 0
        self.seen: dict[PretendStream, int] = {}
        self.waited = 0

    def synchronize(self) -> None:
        """The host has waited, so whatever is launched later, on any stream, comes after what was launched here."""
        _host_sees(self.seen | {self: self.launched})

    def wait_event(self, event: "PretendEvent") -> None:
        self.waited += 1
        for stream, number in event.seen.items():
            self.seen[stream] = max(number, self.seen.get(stream, 0))

    def has_waited_for(self, stream: "PretendStream", number: int) -> bool:
        return stream is self or max(self.seen.get(stream, 0), host_has_seen.get(stream, 0)) >= number


class PretendEvent:
    """A moment of a stream: what had been launched there, and what the stream had waited for. All that is launched has ended."""

    clock = count()

    def __init__(self, timed: bool) -> None:
        self.timed = timed
        self.seen: dict[PretendStream, int] = {}
        self.time = -1

    def record(self, stream: PretendStream) -> None:
        self.seen = stream.seen | {stream: stream.launched}
        self.time = next(self.clock)

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """The host has waited, as of a stream."""
        _host_sees(self.seen)

    def elapsed_time(self, last: "PretendEvent") -> float:
        assert self.timed
        assert last.timed
        assert 0 <= self.time < last.time
        return 1.0


DEFAULT_STREAM = PretendStream()
host_has_seen: WeakKeyDictionary[PretendStream, int] = WeakKeyDictionary()
written: dict[int, tuple[PretendStream, int]] = {}
"""By the address of memory, the stream that wrote there last, and how much had been launched on it by then."""
_of_thread = threading.local()


def _host_sees(seen: dict[PretendStream, int]) -> None:
    for stream, number in seen.items():
        host_has_seen[stream] = max(number, host_has_seen.get(stream, 0))


def current_stream() -> PretendStream:
    """That of the calling thread."""
    return getattr(_of_thread, "stream", DEFAULT_STREAM)


@contextmanager
def _upon(stream: PretendStream) -> Iterator[None]:
    before = current_stream()
    _of_thread.stream = stream
    try:
        yield
    finally:
        _of_thread.stream = before


class PretendTensor(Tensor):
    """A tensor on the pretended GPU.

    Attributes:
        used_by: other streams for which its memory is kept.
        gpu: the index of its GPU, where that is not 0.
    """

    used_by: list[PretendStream]
    gpu: int

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", 0)

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

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        place = kwargs.get("device", args[0] if args else None)
        if isinstance(place, torch.device | str) and torch.device(place).type == "cuda":
            return self
        return super().to(*args, **kwargs)

    def record_stream(self, stream: PretendStream) -> None:  # type: ignore[override]
        self.used_by = [*getattr(self, "used_by", []), stream]

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in LOOKS:
            return super().__torch_function__(func, types, args, kwargs or {})
        given = [one for one in _flat((*args, *(kwargs or {}).values())) if isinstance(one, PretendTensor)]
        _refuse_unjoined(name, given)
        with torch._C.DisableTorchFunctionSubclass():
            if name in WAITS or _waits(name, args, kwargs or {}):
                raise AssertionError(f"the host waits for the device: {name}; use DevicePool.numbers")
            if name == "__getitem__" and _is_mask(args[1]):
                raise AssertionError("the host waits for the device: a mask as an index; use DevicePool.numbers")
            if name not in COPIES:
                _refuse_mixed(name, (*args, *(kwargs or {}).values()))
        result = super().__torch_function__(func, types, args, kwargs or {})
        _launched(name, result, given, args, kwargs or {})
        return result


def pretended(tensor: Tensor) -> Tensor:
    """The tensor as one of the GPU; it shares the memory."""
    there: PretendTensor = tensor.as_subclass(PretendTensor)
    _stamp([there], _next())
    return there


def home(tensor: Tensor) -> Tensor:
    """The tensor as one of the CPU; it shares the memory of the pretended GPU, and is a copy of a real one's."""
    if tensor.is_cuda and not isinstance(tensor, PretendTensor):
        return tensor.cpu()
    return tensor.as_subclass(Tensor)  # type: ignore[no-any-return]


class PretendPool(DevicePool):
    """The pool of the pretended GPU.

    Args:
        free: bytes that it says are free.
        index: of the GPU.
        locks: whether the system locks memory in place.

    Attributes:
        locked: bytes that are locked in place, by address.
        page_locked_at: where page-locked memory was made.
        finished: how often the host waited for all that was launched.
    """

    least_locked = 1

    def __init__(self, counters: Counters | None = None, *, free: int = 1 << 30, index: int = 0, locks: bool = True) -> None:
        self.free, self.locks = free, locks
        self.locked: dict[int, int] = {}
        self.page_locked_at: set[int] = set()
        self.finished = 0
        super().__init__(torch.device("cuda", index), counters)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return pretended(torch.empty(shape, dtype=dtype))

    def arange(self, count: int) -> Tensor:
        return pretended(torch.arange(count))

    def put(self, tensor: Tensor) -> Tensor:
        if tensor.is_cuda:
            return tensor
        self.counters.add("device_put_bytes", tensor.nbytes)
        return pretended(tensor.clone())

    def reach(self, peer: DevicePool) -> None:
        """All memory is the host's."""

    def numbers(self, tensor: Tensor) -> list[int]:
        assert isinstance(tensor, PretendTensor)
        _refuse_unjoined("numbers", [tensor])
        self.counters.add("device_waits", 1)
        found: list[int] = home(tensor).tolist()
        return found

    def _new_stream(self) -> PretendStream:
        return PretendStream()

    def _stream(self) -> PretendStream:
        return current_stream()

    def _upon(self, stream: PretendStream) -> AbstractContextManager[Any]:
        return _upon(stream)

    def _new_event(self, timed: bool) -> PretendEvent:
        return PretendEvent(timed)

    def _locking(self) -> LockedMemory:
        return LockedMemory(partial(_lock, self.locked, self.locks), partial(_unlock, self.locked))

    def page_locked_bytes(self, num_bytes: int) -> Tensor:
        memory = torch.empty(num_bytes, dtype=torch.uint8)
        self.page_locked_at.add(memory.data_ptr())
        return memory

    def holds(self, tensor: Tensor) -> bool:
        return isinstance(tensor, PretendTensor) and getattr(tensor, "gpu", 0) == self.device.index

    def finish(self) -> None:
        """All that is launched has ended."""
        self.finished += 1

    def free_bytes(self) -> int:
        return self.free

    def trim(self) -> None:
        """Nothing lies idle."""


def _lock(locked: dict[int, int], locks: bool, address: int, num_bytes: int) -> bool:
    if locks:
        assert address not in locked
        locked[address] = num_bytes
    return locks


def _unlock(locked: dict[int, int], addresses: list[int]) -> None:
    for address in addresses:
        del locked[address]


def any_pool(counters: Counters | None = None) -> DevicePool:
    """A GPU's pool where kernels are compiled (`make test-gpu`), the pretended one's where they are interpreted."""
    interpreted = os.environ.get("TRITON_INTERPRET", "0") != "0"
    return PretendPool(counters) if interpreted else device_pool("cuda", counters)


def _next() -> tuple[PretendStream, int]:
    stream = current_stream()
    stream.launched += 1
    return stream, stream.launched


def _refuse_unjoined(name: str, given: list["PretendTensor"]) -> None:
    for one in given:
        stream, number = written.get(_memory(one), (DEFAULT_STREAM, 0))
        if not current_stream().has_waited_for(stream, number):
            raise AssertionError(f"a stream uses what another makes, and has not waited for it ({name}); see DevicePool.join")


def _launched(name: str, result: Any, given: list["PretendTensor"], args: Any, kwargs: dict[str, Any]) -> None:
    """Notes where something is written: into a result, unless it is a view, and where torch's function writes in place."""
    now = _next()
    known = {_memory(one) for one in given}
    _stamp([one for one in _flat((result,)) if isinstance(one, PretendTensor) and _memory(one) not in known], now)
    if name == "__setitem__" or (name.endswith("_") and not name.endswith("__")):
        _stamp(args[:1], now)
    if "out" in kwargs:
        _stamp(_flat((kwargs["out"],)), now)


def _stamp(tensors: Any, now: tuple[PretendStream, int]) -> None:
    for one in tensors:
        if isinstance(one, PretendTensor) and (memory := _memory(one)):
            written[memory] = now


def _memory(tensor: Tensor) -> int:
    """Where its memory begins; 0 where it has none of its own."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else 0


def _refuse_mixed(name: str, arguments: tuple[Any, ...]) -> None:
    found = [one for one in _flat(arguments) if isinstance(one, Tensor) and one.dim() > 0]
    if any(not isinstance(one, PretendTensor) for one in found) and any(isinstance(one, PretendTensor) for one in found):
        raise AssertionError(
            f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! ({name})"
        )


def _flat(values: Any) -> list[Any]:
    return [one for value in values for one in (_flat(value) if isinstance(value, tuple | list) else [value])]


def _waits(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the host waits for what it does not say: the size of a result, or the end of a copy between it and the device."""
    if name == "copy_":
        places = {isinstance(one, PretendTensor) for one in args[:2] if isinstance(one, Tensor)}
        return len(places) > 1 and args[0].numel() > 0 and not (kwargs.get("non_blocking") or any(args[2:3]))
    if name == "repeat_interleave":
        return kwargs.get("output_size") is None and not any(isinstance(one, int) for one in (*args[1:], kwargs.get("repeats")))
    return name == "where" and len(args) == 1


def _is_mask(index: Any) -> bool:
    return any(isinstance(one, Tensor) and one.dtype in (torch.bool, torch.uint8) for one in _flat((index,)))


def _once_per_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Triton's types that is computed once for types of the same names."""
    results: dict[tuple[str, ...], Any] = {}

    def look_up(*types: Any) -> Any:
        names = tuple([one.name for one in types])
        if names not in results:
            results[names] = function(*types)
        return results[names]

    return look_up


class _OneAtATime:
    """Triton's interpreter keeps what it works on in one place for all threads. Notes which memory a kernel has written."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._run = GridExecutor.__call__
        self._store = InterpreterBuilder.create_masked_store
        self._patch = interpreter._patch_lang
        self._patched: dict[frozenset[str], Any] = {}
        self._make = tl.tensor.__init__
        self._made: dict[str, dict[str, Any]] = {}
        self._stored: list[tuple[int, int]] = []

    def install(self) -> None:
        def call(executor: Any, *args: Any, **kwargs: Any) -> Any:
            with self._lock:
                given = [one for one in args if isinstance(one, PretendTensor)]
                _refuse_unjoined("a kernel", given)
                self._stored.clear()
                with torch._C.DisableTorchFunctionSubclass():
                    result = self._run(executor, *args, **kwargs)
                _stamp([one for one in given if self._wrote(one)], _next())
                return result

        def store(builder: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
            if mask.data.any():
                addresses = pointers.data[mask.data]
                self._stored.append((int(addresses.min()), int(addresses.max())))
            return self._store(builder, pointers, value, mask, *rest)

        GridExecutor.__call__ = call
        InterpreterBuilder.create_masked_store = store
        interpreter._patch_lang = self._patch_language
        GridExecutor._init_args_hst = lambda executor, args, kwargs: (args, kwargs)  # memory of the host needs no copies
        GridExecutor._restore_args_dev = lambda executor, *args: None
        interpreter._get_np_dtype = _once_per_name(interpreter._get_np_dtype)
        tl.block_type.with_element_ty = _once_per_name(tl.block_type.with_element_ty)
        tl.tensor.__init__ = lambda tensor, handle, type: self._make_tensor(tensor, handle, type)

    def _make_tensor(self, tensor: Any, handle: Any, kind: Any) -> None:
        """Triton's constructor, which computes the same shape again and again, once for each type."""
        if kind.name not in self._made:
            self._make(tensor, handle, kind)
            self._made[kind.name] = dict(vars(tensor))
        vars(tensor).update(self._made[kind.name], handle=handle, type=kind)

    def _patch_language(self, function: Any) -> Any:
        """Patches what the kernel sees of `triton.language`, once: patching takes longer than most kernels run."""
        seen = frozenset(name for name, value in function.__globals__.items() if value is tl or value is tl.core)
        if seen not in self._patched:
            self._patched[seen] = self._patch(function)
            self._patched[seen].restore = lambda: None
        return self._patched[seen]

    def _wrote(self, tensor: "PretendTensor") -> bool:
        begin, end = home(tensor).data_ptr(), home(tensor).data_ptr() + home(tensor).nbytes
        return any(begin <= first <= last < end for first, last in self._stored)


_OneAtATime().install()
