"""Streams of a device, for those who work side by side: each has a lane of its own, and hands over what it made by an event."""

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
    """A moment of a lane, when what was launched before it will have ended.

    Args:
        event: comes with it.
        faults: what kernels had found wrong by then, in page-locked memory, which is written before the event.
    """

    event: Any
    faults: Tensor


class _Held:
    """The stream of a thread, as long as there is the thread."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream


class Lanes:
    """The streams of one device. The host waits only in `for_all_lanes`, and one lane waits for another only where it says so.

    A thread has the same stream every time, as it may keep memory to work in from one batch to the next. When it ends another
    gets the stream: torch keeps memory by stream, and new ones would each have to be given their own.
    """

    device: torch.device

    def __init__(self) -> None:
        self._idle_streams: deque[Any] = deque()
        self._of_thread = threading.local()

    @contextmanager
    def lane(self, after: Any = None) -> Iterator[None]:
        """Has the calling thread launch on a stream of its own.

        Args:
            after: an event that the stream waits for first.
        """
        held: _Held | None = getattr(self._of_thread, "held", None)
        if held is None:
            held = self._of_thread.held = _Held(self._lent())
            finalize(held, self._idle_streams.append, held.stream).atexit = False
        if after is not None:
            held.stream.wait_event(after)
        with self._upon(held.stream):
            yield

    @contextmanager
    def for_all_lanes(self) -> Iterator[None]:
        """What is made inside is there for every lane afterwards: the host waits, once."""
        yield
        self._stream().synchronize()

    def now(self, *, timed: bool = False) -> Any:
        """An event that comes when what this thread has launched will have ended.

        Args:
            timed: whether its time is to be known (`seconds_between`).
        """
        event = self._new_event(timed)
        event.record(self._stream())
        return event

    def join(self, event: Any, tensors: Iterable[Tensor]) -> None:
        """What this thread launches from now on waits for an event of another lane, and may use tensors that were made there.

        Their memory is not given to others before what this thread launches has used it.
        """
        stream = self._stream()
        stream.wait_event(event)
        for tensor in tensors:
            if tensor.is_cuda:
                tensor.record_stream(stream)

    def seconds_between(self, first: Any, last: Any) -> float:
        """Between two timed events that have come, on the device."""
        return float(first.elapsed_time(last)) / 1e3

    def _lent(self) -> Any:
        try:
            return self._idle_streams.popleft()
        except IndexError:
            return self._new_stream()

    def _new_stream(self) -> Any:
        return torch.cuda.Stream(self.device)

    def _stream(self) -> Any:
        return torch.cuda.current_stream(self.device)

    def _upon(self, stream: Any) -> AbstractContextManager[Any]:
        return torch.cuda.stream(stream)

    def _new_event(self, timed: bool) -> Any:
        return torch.cuda.Event(enable_timing=timed)
