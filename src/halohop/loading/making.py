"""What goes with the making of a batch: its task, its date, and what a worker does before its first one."""

import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from halohop import ops
from halohop.loading.pipeline import Made
from halohop.loading.seeds import Share

Task = tuple[int, Share]
"""The epoch, and its batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated:
    """A finished batch, and the number of the state that its rows are of."""

    value: Any
    number: int


def pinned(batch: Dated) -> Dated:
    return replace(batch, value=batch.value.pin_memory())


def noted(tasks: Iterable[Task], begun: deque[Task]) -> Iterator[Task]:
    """The tasks, each entered into `begun` when it is taken."""
    for task in tasks:
        begun.append(task)
        yield task


def initialised(init: Callable[[int], None] | None, make: Callable[[Task], Made[Any]]) -> Callable[[Task], Made[Any]]:
    """`make`, with the user's worker_init_fn called once in each thread before it."""
    if init is None:
        return make
    per_thread = threading.local()
    lock, workers = threading.Lock(), itertools.count()

    def make_after_init(task: Task) -> Made[Any]:
        if not getattr(per_thread, "ready", False):
            with lock:
                worker = next(workers)
            init(worker)
            per_thread.ready = True
        return make(task)

    return make_after_init


def seed_generators(seed: int, task: Task) -> None:
    """Forked processes inherit one state of all generators, so each batch begins with its own, in any of them."""
    epoch, share = task
    key = ops.stream_key(seed=seed, epoch=epoch, batch=share.index, hop=0, relation=("", "transform", ""))
    random.seed(key)
    np.random.seed(key & 0xFFFFFFFF)
    torch.default_generator.manual_seed(key)
