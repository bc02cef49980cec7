"""The loader: seeds in, finished batches out, several in flight. What a finished batch looks like is the face's business."""

import itertools
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader, IterableDataset

from halohop import ops
from halohop.errors import InputError
from halohop.loading.pipeline import Flight, in_order
from halohop.loading.seeds import Plan, SampledPlan, Share, ShuffledPlan
from halohop.sampling.batch import Batch, Seeds
from halohop.sampling.collect import collect
from halohop.sampling.neighbor import NeighborSampler
from halohop.telemetry import Counters
from halohop.typing import NodeType
from halohop.world import World

Run = Literal["auto", "threads", "inline", "processes"]


class SeedDataset(IterableDataset[int]):
    """The input nodes as torch and Lightning see them: iterable (so nobody injects a sampler), with a length."""

    def __init__(self, *, node_type: NodeType, gid: torch.Tensor, input_id: torch.Tensor) -> None:
        self.node_type = node_type
        self.gid = gid
        self.input_id = input_id

    def __len__(self) -> int:
        return len(self.gid)

    def __iter__(self) -> Iterator[int]:
        return iter(self.input_id.tolist())


class BatchLoader(DataLoader[Any]):
    """A `torch.utils.data.DataLoader` whose workers are threads: the kernels release the GIL, nothing is forked or copied.

    Args:
        sampler: draws the subgraphs; its graph is asked for the rows.
        seeds: the input nodes.
        revise: changes a sampled batch before its rows are collected.
        finish: turns a collected batch into what the user sees; runs in the worker threads.
        world: the ranks that share the seeds; by default this loader alone goes through all of them.
        seed: of the shuffle.
        run: "threads", "inline" (each batch when it is asked for), or "auto": threads unless num_workers is 0.
        num_workers: threads; None takes one per core, at most four. prefetch_factor: batches in flight per thread.
        timeout: seconds to wait for a batch before an error (0: 300 s).
        batch_size, shuffle, drop_last, sampler_of_seeds, batch_sampler, worker_init_fn, pin_memory: as in torch's DataLoader.

    Raises:
        InputError: options that exclude each other, or that cannot work.
    """

    def __init__(
        self,
        sampler: NeighborSampler,
        seeds: SeedDataset,
        *,
        finish: Callable[[Batch], Any],
        revise: Callable[[Batch], Batch] | None = None,
        world: World | None = None,
        seed: int = 0,
        run: Run = "auto",
        batch_size: int | None = 1,
        shuffle: bool | None = False,
        drop_last: bool = False,
        sampler_of_seeds: Any = None,
        batch_sampler: Any = None,
        num_workers: int | None = None,
        prefetch_factor: int | None = None,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        pin_memory: bool = False,
        persistent_workers: bool = False,
        multiprocessing_context: Any = None,
    ) -> None:
        batch_size = None if batch_size is None else _whole(batch_size, "batch_size")
        self._flight = _flight(run, num_workers, prefetch_factor, timeout)
        if multiprocessing_context is not None:
            raise InputError("multiprocessing_context has no meaning here: batches are made by threads; leave it out")
        self._plan = _plan(
            len(seeds),
            world=world or World(),
            seed=_whole(seed, "seed"),
            batch_size=batch_size,
            shuffle=bool(shuffle),
            drop_last=drop_last,
            sampler=sampler_of_seeds,
            batch_sampler=batch_sampler,
        )
        super().__init__(seeds, batch_size=None if batch_sampler is not None else batch_size, drop_last=drop_last)
        self._sampler = sampler
        self._seeds = seeds
        self._finish = finish
        self._revise = revise
        self._pin = pin_memory and torch.cuda.is_available()
        self._worker_init_fn = worker_init_fn
        self._next_epoch = 0
        self.counters = Counters()
        ops.warm_up(announce=lambda line: print(f"halohop: {line}", file=sys.stderr))

    def __len__(self) -> int:
        """Steps an epoch; the same on every rank of the world."""
        return len(self._plan)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        """The next epoch's batches. Each call is a new epoch, with another shuffle and other draws."""
        epoch = self._next_epoch
        self._next_epoch += 1
        make = _initialised(self._worker_init_fn, lambda share: self._make(epoch, share))
        return in_order(self._plan.epoch(epoch), make, self._flight, self.counters)

    def __call__(self, index: Any) -> Any:
        """One batch for given positions into the input nodes, outside any epoch (as PyG's loaders offer it)."""
        return self._make(self._next_epoch, Share(index=0, positions=torch.as_tensor(index, dtype=torch.int64).view(-1)))

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration epoch number `epoch`, as torch's DistributedSampler does."""
        self._next_epoch = epoch

    def statistics(self) -> dict[str, float]:
        """Sums since the loader was made: batches, edges, seconds making and waiting, rows asked near and far."""
        return {**self._sampler.graph.statistics(), **self.counters.snapshot()}

    def _make(self, epoch: int, share: Share) -> Any:
        seeds = Seeds(
            node_type=self._seeds.node_type,
            gid=self._seeds.gid[share.positions],
            input_id=self._seeds.input_id[share.positions],
            epoch=epoch,
            index=share.index,
        )
        with self.counters.span("sample"):
            batch = self._sampler.sample(seeds)
            if self._revise is not None:
                batch = self._revise(batch)
        with self.counters.span("collect"):
            batch = collect(self._sampler.graph, batch)
        with self.counters.span("finish"):
            finished = self._finish(batch)
            if self._pin:
                finished = finished.pin_memory()
        self.counters.add_all({"batches": 1, "seeds": len(share.positions), "sampled_edges": batch.num_edges})
        return finished


def _flight(run: Run, num_workers: int | None, prefetch_factor: int | None, timeout: float) -> Flight:
    if run == "processes":
        raise NotImplementedError("run='processes' is a coming feature; use run='threads' (kernels release the GIL)")
    if run not in ("auto", "threads", "inline"):
        raise InputError(f"run={run!r} is none of 'auto', 'threads', 'inline'")
    threads = min(os.cpu_count() or 1, 4) if num_workers is None else _whole(num_workers, "num_workers")
    if run == "threads" and threads == 0:
        raise InputError("run='threads' needs num_workers of at least 1")
    return Flight(threads=0 if run == "inline" else threads, prefetch=prefetch_factor or 2, deadline=timeout or 300.0)


def _plan(
    num_seeds: int,
    *,
    world: World,
    seed: int,
    batch_size: int | None,
    shuffle: bool,
    drop_last: bool,
    sampler: Any,
    batch_sampler: Any,
) -> Plan:
    if sampler is None and batch_sampler is None:
        if batch_size is None:
            raise InputError("batch_size=None is not possible here; give a number, or a batch_sampler")
        return ShuffledPlan(
            num_seeds=num_seeds, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, seed=seed, world=world
        )
    if sampler is not None and batch_sampler is not None:
        raise InputError("give `sampler` or `batch_sampler`, not both")
    if world.size > 1 or shuffle:
        raise InputError("`sampler` and `batch_sampler` decide the order alone: leave out `shuffle` and `world`")
    if batch_sampler is not None:
        return SampledPlan(sampler=batch_sampler, batch_size=None)
    return SampledPlan(sampler=sampler, batch_size=batch_size, drop_last=drop_last)


def _whole(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name}={value!r} is not a whole number") from None


def _initialised(init: Callable[[int], None] | None, make: Callable[[Share], Any]) -> Callable[[Share], Any]:
    """`make`, with the user's worker_init_fn called once in each thread before it."""
    if init is None:
        return make
    per_thread = threading.local()
    lock, workers = threading.Lock(), itertools.count()

    def make_after_init(share: Share) -> Any:
        if not getattr(per_thread, "ready", False):
            with lock:
                worker = next(workers)
            init(worker)
            per_thread.ready = True
        return make(share)

    return make_after_init
