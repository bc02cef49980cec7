"""What users may say about how batches are made: torch's keywords, and halohop's own."""

import math
import operator
from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, TypedDict

import torch

from halohop.cores import usable_cores
from halohop.errors import InputError
from halohop.loading.locality import Locality
from halohop.loading.pipeline import PrefetchConfig
from halohop.memory import spare_bytes
from halohop.world import World, trainers_here

Run = Literal["auto", "threads", "inline", "processes"]


class LoaderArguments(TypedDict, total=False):
    """The keywords of `BatchLoader` that its subclasses pass on; see there for their defaults and meanings."""

    world: World | None
    own_seeds: bool
    locality: Locality
    run: Run
    batch_size: int | None
    shuffle: bool | None
    drop_last: bool
    batch_sampler: Any
    num_workers: int | None
    prefetch_factor: int | None
    backlog_bytes: int | None
    timeout: float
    worker_init_fn: Callable[[int], None] | None
    pin_memory: bool
    pin_memory_device: str
    persistent_workers: bool | None
    layout: torch.layout
    in_order: bool


_WITHOUT_MEANING = {
    "dataset": "the loader makes it from its seeds",
    "collate_fn": "batches are sampled, not collated; give a `transform`, or override `filter_fn`",
    "multiprocessing_context": "workers are threads, or forked with run='processes'",
}


def refuse_keywords(keywords: dict[str, Any]) -> None:
    """Refuses the keywords of torch's DataLoader that cannot be heeded here.

    Raises:
        InputError: one of them is given.
        TypeError: there is no such keyword.
    """
    for name, value in keywords.items():
        if name not in _WITHOUT_MEANING:
            raise TypeError(f"{name!r} is no keyword of this loader, nor of torch's DataLoader")
        if value is not None:
            raise InputError(f"{name}={value!r} has no meaning here: {_WITHOUT_MEANING[name]}; leave it out")


def refuse_collating(loader: Any, own: Callable[..., Any]) -> None:
    """
    Raises:
        InputError: a subclass, or an assignment, has put another `collate_fn` in place of its own, which no epoch would call.
    """
    if getattr(loader.collate_fn, "__func__", None) is not own:
        raise InputError(
            f"{type(loader).__name__} overrides collate_fn, but batches are not made from lists of positions here; "
            "override filter_fn, which gets every finished batch, or give a `transform`"
        )


def check_pin_memory_device(device: str) -> None:
    """Page-locked memory serves every GPU, so it need not be one of a certain number.

    Raises:
        InputError: no CUDA device.
    """
    if device and device.partition(":")[0] != "cuda":
        raise InputError(f"pin_memory_device={device!r}: memory is page-locked for CUDA only; leave it out")


def prefetch_config(
    run: Run, num_workers: int | None, prefetch_factor: int | None, backlog: int | None, timeout: float
) -> PrefetchConfig:
    """How many batches are made at a time.

    Raises:
        InputError: numbers that cannot work, or no such `run`.
    """
    if run not in ("auto", "threads", "inline", "processes"):
        raise InputError(f"run={run!r} is none of 'auto', 'threads', 'inline', 'processes'")
    workers = default_workers() if num_workers is None else _count(num_workers, "num_workers")
    if run in ("threads", "processes") and workers == 0:
        raise InputError(f"run={run!r} needs num_workers of at least 1")
    if not isinstance(timeout, Real) or not 0 <= timeout < math.inf:
        raise InputError(f"timeout={timeout!r} is not a finite number of seconds; give 0 or more")
    return PrefetchConfig(
        workers=0 if run == "inline" else workers,
        prefetch=(2 if prefetch_factor is None else _count(prefetch_factor, "prefetch_factor")) or 2,
        backlog_bytes=spare_bytes() if backlog is None else _count(backlog, "backlog_bytes"),
        deadline=float(timeout) or 300.0,
    )


def default_workers() -> int:
    """A worker for every core of this trainer's share of the host, at most four.

    A batch is made on one core, and four make them faster than most models use them. Trainers that torchrun starts on one host
    (LOCAL_WORLD_SIZE) share its cores.
    """
    return min(max(len(usable_cores()) // max(trainers_here(), 1), 1), 4)


def whole(value: Any, name: str) -> int:
    """The value as an int, where Python, NumPy or torch say that it is one.

    Raises:
        InputError: it is none.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name}={value!r} is not a whole number") from None


def _count(value: Any, name: str) -> int:
    if (count := whole(value, name)) < 0:
        raise InputError(f"{name}={value!r} is below 0; give 0 or more")
    return count
