"""Batches that are made on a GPU, each on the stream of the thread that makes it. The consumer's stream waits for a batch, the
host goes on. What kernels found wrong in a batch is raised when the device has come to the end of it."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.loading.making import BatchSpec, Dated
from halohop.loading.pipeline import Made
from halohop.ops.device import DevicePool
from halohop.ops.lanes import Mark
from halohop.telemetry import Counters

Make = Callable[[BatchSpec], Made[Dated]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Where in the work of its stream a batch ends.

    Args:
        mark: the end.
        spans: of the device's time: name, first and last event.
        name: which batch it is, for people.
    """

    mark: Mark
    spans: tuple[tuple[str, Any, Any], ...]
    name: str


class OnDevice:
    """How the batches of a loader are made on a GPU.

    Args:
        pool: of the device.
        counters: get the device's seconds.
    """

    def __init__(self, pool: DevicePool, counters: Counters) -> None:
        self.pool, self._counters = pool, counters
        self._making = threading.local()

    def epoch(self) -> "DeviceEpoch":
        """The batches of an epoch, of which a loader may have several at a time."""
        return DeviceEpoch(self)

    def one(self, make: Make, spec: BatchSpec) -> Any:
        """A batch outside of the epochs. The host waits for it, since there may be no later one with which its faults are raised.

        Raises:
            IdError, InputError: what kernels found wrong in it.
        """
        alone = self.epoch()
        (begun,) = alone.noted([spec])
        batch = alone.make(make, begun).item
        alone.take(batch)
        alone.end()
        return batch.value

    def span(self, name: str) -> AbstractContextManager[None]:
        """Counts the device's time for what a block launches as ``device_<name>_seconds``, where a batch is being made."""
        spans = getattr(self._making, "spans", None)
        return nullcontext() if spans is None else _Span(self.pool, name, spans)

    def made(self, make: Make, spec: BatchSpec, after: Any) -> Made[Dated]:
        """A batch, made on the calling thread's stream, which waits for the event `after` first."""
        around, spans = getattr(self._making, "spans", None), list[tuple[str, Any, Any]]()
        with self.pool.lane(after):
            self._making.spans = spans
            try:
                made = make(spec)
            finally:
                self._making.spans = around
                mark = self.pool.mark()  # also of a batch that failed: its faults are not those of the stream's next one
        epoch, share = spec
        ready = Ready(mark=mark, spans=tuple(spans), name=f"batch {share.index} of epoch {epoch}")
        return replace(made, item=replace(made.item, ready=ready))

    def finish(self, ready: Ready) -> None:
        """Counts the seconds of a batch that the device has made, and raises what is wrong with it.

        Raises:
            IdError, InputError: what kernels found wrong.
        """
        seconds = {f"device_{name}_seconds": self.pool.seconds_between(first, last) for name, first, last in ready.spans}
        self._counters.add_all(seconds)
        try:
            self.pool.raise_faults(ready.mark)
        except InputError as error:
            error.args = (f"{ready.name}: {error}",)
            raise


class DeviceEpoch:
    """The batches of one epoch, and which of them the device may still be working on. An epoch that is left early is dropped with
    what is wrong in its batches.

    Args:
        loader: whose batches they are.
    """

    def __init__(self, loader: OnDevice) -> None:
        self._loader = loader
        self._begun: dict[int, Any] = {}
        self._taken: deque[Ready] = deque()

    def noted(self, specs: Iterable[BatchSpec]) -> Iterator[BatchSpec]:
        """The specs. A batch reads what the consumer had launched when its spec was taken, such as new rows of a table."""
        for spec in specs:
            self._begun[spec[1].index] = self._loader.pool.now()
            yield spec

    def make(self, make: Make, spec: BatchSpec) -> Made[Dated]:
        """A batch, made on the calling thread's stream."""
        return self._loader.made(make, spec, self._begun.pop(spec[1].index))

    def take(self, batch: Dated) -> None:
        """Has the consumer's stream wait for a batch, which the consumer gets now.

        Raises:
            IdError, InputError: what kernels found wrong in this batch or in earlier ones, as far as the device has made them.
        """
        ready: Ready = batch.ready
        self._loader.pool.join(ready.mark.event, tensors_in(batch.value))
        self._taken.append(ready)
        while self._taken and self._taken[0].mark.event.query():
            self._loader.finish(self._taken.popleft())

    def end(self) -> None:
        """Waits for the batches that were taken, and for what the consumer has launched.

        Raises:
            IdError, InputError: what kernels found wrong.
        """
        while self._taken:
            self._loader.pool.wait_for(self._taken[0].mark)
            self._loader.finish(self._taken.popleft())
        self._loader.pool.check()


class _Span:
    __slots__ = ("_first", "_name", "_pool", "_spans")

    def __init__(self, pool: DevicePool, name: str, spans: list[tuple[str, Any, Any]]) -> None:
        self._pool, self._name, self._spans = pool, name, spans

    def __enter__(self) -> None:
        self._first = self._pool.now(timed=True)

    def __exit__(self, *_: object) -> None:
        self._spans.append((self._name, self._first, self._pool.now(timed=True)))


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors of what a user gets: a batch of ours or of PyG's, or what a transform made of it.

    Example:
        >>> [tensor.tolist() for tensor in tensors_in({"x": torch.tensor([1]), "rest": [(torch.tensor([2]), "text")]})]
        [[1], [2]]
    """
    parts: Iterable[Any]
    if isinstance(value, Tensor):
        if value.layout == torch.strided:
            yield value
        else:  # torch keeps the memory of the tensors that it is made of
            yield from _tensors_of_sparse(value)
        return
    if isinstance(value, list | tuple):
        parts = value
    elif hasattr(value, "stores"):  # PyG's Data and HeteroData
        parts = [part for store in value.stores for part in store.values()]
    elif hasattr(value, "keys"):
        parts = value.values()
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in fields(value)]
    else:
        parts = ()
    for part in parts:
        yield from tensors_in(part)


def _tensors_of_sparse(value: Tensor) -> Iterator[Tensor]:
    if value.layout == torch.sparse_coo:
        yield from (value._indices(), value._values())
        return
    by_row = value.layout in (torch.sparse_csr, torch.sparse_bsr)
    yield from (value.crow_indices(), value.col_indices()) if by_row else (value.ccol_indices(), value.row_indices())
    yield value.values()
