"""CUDA streams for threads that make batches at the same time: each thread launches on a stream of its own."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point in the work of a stream: the end of a batch, for instance.

    Args:
        event: CUDA's event, which is recorded there. It has come when the device has done all that was launched before.
        faults: what kernels have found wrong up to there, in page-locked memory; to be read once the event has come.
    """

    event: Any
    faults: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A stream, and the memory into which its kernels write what they find wrong (see `DevicePool.faults`)."""

    stream: Any
    faults: Tensor


class _Held:
    """The lane of a thread, as long as there is the thread."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane


class Lanes:
    """The streams of one device, one for each thread that asks for one.

    A stream does what is launched on it in order; two streams run beside each other unless one is told to wait for an event of
    the other (`join`, `lane`). The host waits for a stream in `for_all_lanes` and in `wait_for` only.

    A thread gets the same stream every time, as it may keep memory to work in from one batch to the next. When the thread ends,
    another one gets the stream: torch keeps free memory by stream, and would give each new stream memory of its own.
    """

    device: torch.device

    def __init__(self) -> None:
        self._idle_lanes: deque[Lane] = deque()
        self._of_thread = threading.local()

    @contextmanager
    def lane(self, after: Any = None) -> Iterator[None]:
        """Inside, the calling thread launches on its own stream.

        Args:
            after: an event that the stream waits for first; None: it begins at once.
        """
        held: _Held | None = getattr(self._of_thread, "held", None)
        if held is None:
            held = self._of_thread.held = _Held(self._lent())
            finalize(held, self._idle_lanes.append, held.lane).atexit = False
        if after is not None:
            held.lane.stream.wait_event(after)
        around, self._of_thread.inside = self._inside(), held.lane
        try:
            with self._upon(held.lane.stream):
                yield
        finally:
            self._of_thread.inside = around

    @contextmanager
    def for_all_lanes(self) -> Iterator[None]:
        """For what is made once and read by all batches, such as a column: the host waits for it, so that no stream has to."""
        yield
        self._stream().synchronize()

    def now(self, *, timed: bool = False) -> Any:
        """An event behind what this thread has launched so far.

        Args:
            timed: whether its time is to be known (`seconds_between`).
        """
        event = self._new_event(timed)
        event.record(self._stream())
        return event

    def join(self, event: Any, tensors: Iterable[Tensor]) -> None:
        """This thread's stream waits for an event of another stream, and may use tensors that were made there.

        Their memory is given to others only after what this thread launches until it drops them.
        """
        stream = self._stream()
        stream.wait_event(event)
        for tensor in tensors:
            if tensor.is_cuda:
                tensor.record_stream(stream)

    def seconds_between(self, first: Any, last: Any) -> float:
        """Between two timed events that have come, on the device."""
        return float(first.elapsed_time(last)) / 1e3

    def _inside(self) -> Lane | None:
        """The lane on which the calling thread launches now; None where it launches on torch's current stream."""
        return getattr(self._of_thread, "inside", None)

    def _lent(self) -> Lane:
        try:
            return self._idle_lanes.popleft()
        except IndexError:
            stream = self._new_stream()
            with self._upon(stream):
                return Lane(stream=stream, faults=self._no_faults())

    def _no_faults(self) -> Tensor:
        raise NotImplementedError

    def _new_stream(self) -> Any:
        return torch.cuda.Stream(self.device)

    def _stream(self) -> Any:
        return torch.cuda.current_stream(self.device)

    def _upon(self, stream: Any) -> AbstractContextManager[Any]:
        return torch.cuda.stream(stream)

    def _new_event(self, timed: bool) -> Any:
        return torch.cuda.Event(enable_timing=timed)
