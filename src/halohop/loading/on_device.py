"""Batches that are made on a GPU: each on a lane of its own, handed over by an event, and looked at when nobody has to wait."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from torch import Tensor

from halohop.loading.making import BatchSpec, Dated
from halohop.loading.pipeline import Made
from halohop.ops.device import DevicePool
from halohop.ops.lanes import Mark
from halohop.telemetry import Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """When a batch will be finished on the device.

    Args:
        mark: the end of its making.
        spans: of the device's time: name, first and last event.
    """

    mark: Mark
    spans: tuple[tuple[str, Any, Any], ...]


class OnDevice:
    """How the batches of a loader come about on a GPU.

    Args:
        pool: of the device.
        counters: get the device's seconds.
    """

    def __init__(self, pool: DevicePool, counters: Counters) -> None:
        self.pool, self._counters = pool, counters
        self._begun: dict[tuple[int, int], Any] = {}
        self._handed: deque[Ready] = deque()
        self._making = threading.local()

    def noted(self, specs: Iterable[BatchSpec]) -> Iterator[BatchSpec]:
        """The specs; a batch may read what the consumer has written to the device before it is begun."""
        for spec in specs:
            self._begun[spec[0], spec[1].index] = self.pool.now()
            yield spec

    def make(self, make: Callable[[BatchSpec], Made[Dated]], spec: BatchSpec) -> Made[Dated]:
        """A batch that is made on a lane of the device."""
        with self.pool.lane(self._begun.pop((spec[0], spec[1].index), None)):
            self._making.spans = spans = list[tuple[str, Any, Any]]()
            made = make(spec)
            ready = Ready(mark=self.pool.mark(), spans=tuple(spans))
            return replace(made, item=replace(made.item, ready=ready))

    def span(self, name: str) -> AbstractContextManager[None]:
        """Counts the device's time for what a block launches as ``device_<name>_seconds``, where batches are made on lanes."""
        spans = getattr(self._making, "spans", None)
        return nullcontext() if spans is None else _Span(self.pool, name, spans)

    def take(self, batch: Dated) -> None:
        """The consumer's stream waits for a batch that was made on a lane.

        Raises:
            IdError, WeightError: what kernels found wrong in batches before it, which have come.
        """
        ready: Ready | None = batch.ready
        if ready is not None:
            self.pool.join(ready.mark.event, tensors_in(batch.value))
            self._handed.append(ready)
        while self._handed and self._handed[0].mark.event.query():
            self._look()

    def end(self) -> None:
        """Waits for the batches that were handed over.

        Raises:
            IdError, WeightError: what kernels found wrong in them.
        """
        while self._handed:
            self._handed[0].mark.event.synchronize()
            self._look()

    def stop(self) -> None:
        """Forgets what was begun: the epoch ends early, or by a failure."""
        self._begun.clear()
        self._handed.clear()

    def _look(self) -> None:
        ready = self._handed.popleft()
        seconds = {f"device_{name}_seconds": self.pool.seconds_between(first, last) for name, first, last in ready.spans}
        self._counters.add_all(seconds)
        self.pool.look(ready.mark)


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
        >>> import torch
        >>> [tensor.tolist() for tensor in tensors_in({"x": torch.tensor([1]), "rest": [(torch.tensor([2]), "text")]})]
        [[1], [2]]
    """
    if isinstance(value, Tensor):
        yield value
        return
    parts: Iterable[Any]
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
