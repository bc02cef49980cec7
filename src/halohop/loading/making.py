"""What goes with the making of a batch: its spec, its date, and what a worker does before its first one."""

import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import worker
from torch.utils.data._utils.pin_memory import pin_memory

from halohop import ops
from halohop.loading.pipeline import Made
from halohop.loading.seeds import Share

BatchSpec = tuple[int, Share]
"""The epoch, and its batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated:
    """A finished batch, the number of the state that its rows are of, and of one on a device, when it will be there."""

    value: Any
    number: int
    ready: Any = None


def pinned(batch: Dated) -> Dated:
    """In page-locked memory. A user may have made a tuple or dictionary, whose parts are, where they can be."""
    value = batch.value
    parts = isinstance(value, tuple | list) or hasattr(value, "keys")
    return replace(batch, value=pin_memory(value) if parts and not hasattr(value, "pin_memory") else value.pin_memory())


def note_worker(number: int, *, num_workers: int, seed: int, dataset: Any) -> None:
    """In a forked worker: lets `torch.utils.data.get_worker_info` tell the user's functions which one it is."""
    worker._worker_info = worker.WorkerInfo(id=number, num_workers=num_workers, seed=seed + number, dataset=dataset)


def noted(specs: Iterable[BatchSpec], begun: deque[BatchSpec]) -> Iterator[BatchSpec]:
    """The specs, each entered into `begun` when it is taken."""
    for spec in specs:
        begun.append(spec)
        yield spec


def initialised(init: Callable[[int], None] | None, make: Callable[[BatchSpec], Made[Any]]) -> Callable[[BatchSpec], Made[Any]]:
    """`make`, with the user's worker_init_fn called once in each thread before it."""
    if init is None:
        return make
    per_thread = threading.local()
    lock, workers = threading.Lock(), itertools.count()

    def make_after_init(spec: BatchSpec) -> Made[Any]:
        if not getattr(per_thread, "ready", False):
            with lock:
                worker = next(workers)
            init(worker)
            per_thread.ready = True
        return make(spec)

    return make_after_init


def seed_generators(seed: int, spec: BatchSpec) -> None:
    """Forked processes inherit one state of all generators, so each batch begins with its own, in any of them."""
    epoch, share = spec
    key = ops.stream_key(seed=seed, epoch=epoch, batch=share.index, hop=0, relation=("", "transform", ""))
    random.seed(key)
    np.random.seed(key & 0xFFFFFFFF)
    torch.default_generator.manual_seed(key)
