"""The loader: seeds in, finished batches out, several in flight. What a finished batch looks like is the face's business."""

import itertools
import operator
import os
import random
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from halohop import ops
from halohop.errors import InputError
from halohop.loading.examples import Examples
from halohop.loading.pipeline import Backlog, Flight, Inline, Made, Makers, Threads, in_order
from halohop.loading.processes import Kept, Processes, require_processes
from halohop.loading.resume import Course, Place, Stretch
from halohop.loading.seeds import Share, checked, digest, plan_of
from halohop.loading.worker import Bench
from halohop.memory import spare_bytes
from halohop.ops.pool import page_locked
from halohop.sampling.batch import Batch
from halohop.sampling.collect import checked_layout, collect, laid_out
from halohop.sampling.sampler import Sampler
from halohop.telemetry import Counters, added
from halohop.world import World, trainers_here

Run = Literal["auto", "threads", "inline", "processes"]
Task = tuple[int, Share]
"""The epoch, and its batch."""


class BatchLoader(DataLoader[Any]):
    """A `torch.utils.data.DataLoader` that works ahead in threads, since the kernels release the GIL, or in forked processes.

    Batches are bit for bit the same in both; what a process makes lies in memory that the trainer maps, too, and is not copied.
    Subclasses say what the user sees of a batch (`_to_user`), and may change one before its rows are collected (`_revised`).

    Args:
        sampler: draws the subgraphs; its graph is asked for the rows.
        seeds: what is dealt to the batches: input nodes, edges, or whatever else makes up seeds.
        world: the ranks that share the seeds; by default this loader alone goes through all of them.
        seed: of the shuffle.
        run: "threads", "processes" (for transforms that keep the GIL; Linux, and graphs without other hosts), "inline" (each
            batch when it is asked for), or "auto": threads unless num_workers is 0.
        num_workers: threads or processes; None takes one per core that this trainer has to itself, at most four.
        prefetch_factor: batches in flight per worker.
        backlog_bytes: what the batches in flight may weigh together; a batch in the making counts as much as the heaviest so far.
            One may always be in flight. None: `halohop.memory.spare_bytes`.
        timeout: seconds to wait for a batch before an error (0: 300 s).
        persistent_workers: processes and the memory that they share stay for the next epoch; otherwise each epoch forks its own,
            and pays for new memory.
        worker_init_fn: called in each worker with its number. In processes Python's, NumPy's and torch's random numbers are
            seeded for each batch besides, so random transforms repeat for any number of workers.
        pin_memory: batches lie in page-locked memory where there is CUDA; threads gather them straight into it.
        layout: of features that are stored sparse: `torch.strided` (dense), or `torch.sparse_csr` for models that multiply so.
        batch_size, shuffle, drop_last, sampler_of_seeds, batch_sampler: as in torch's DataLoader.

    Raises:
        InputError: options that exclude each other, or that cannot work.
    """

    def __init__(
        self,
        sampler: Sampler,
        seeds: Examples,
        *,
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
        backlog_bytes: int | None = None,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        pin_memory: bool = False,
        persistent_workers: bool = False,
        multiprocessing_context: Any = None,
        layout: torch.layout = torch.strided,
    ) -> None:
        self._layout = checked_layout(layout)
        batch_size = None if batch_size is None else whole(batch_size, "batch_size")
        self._flight = _flight(run, num_workers, prefetch_factor, backlog_bytes, timeout)
        if multiprocessing_context is not None:
            raise InputError("multiprocessing_context has no meaning here: workers are threads or forked; leave it out")
        self._in_processes = run == "processes"
        if self._in_processes:
            _require_forkable(sampler)
        self._plan = plan_of(
            len(seeds),
            world=world or World(),
            seed=whole(seed, "seed"),
            batch_size=batch_size,
            shuffle=bool(shuffle),
            drop_last=drop_last,
            sampler=sampler_of_seeds,
            batch_sampler=batch_sampler,
        )
        super().__init__(seeds, batch_size=None if batch_sampler is not None else batch_size, drop_last=drop_last)
        self.num_workers = self._flight.workers  # what Lightning looks at; torch is given none, or it would fork its own
        del self.collate_fn  # torch's, which hides ours
        self._sampler = sampler
        self._seeds = seeds
        self._seed = whole(seed, "seed")
        self._pin = pin_memory and torch.cuda.is_available()
        if self._pin and not self._in_processes:
            sampler.graph.pool.delegate(page_locked)
        self._worker_init_fn = worker_init_fn
        self._keep = persistent_workers
        self._kept: Processes[Task, Any] | None = None
        self._course = Course(self._plan, seed=self._seed)
        self._backlog = Backlog(self._flight)
        self.counters = Counters()

    def __len__(self) -> int:
        """Steps an epoch; the same on every rank of the world."""
        return len(self._plan)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        """The next epoch's batches. Each call is a new epoch, with another shuffle and other draws."""
        return self._epoch(self._course.begin())

    def __call__(self, index: Any) -> Any:
        """One batch for given positions into the input nodes, outside any epoch (as PyG's loaders offer it)."""
        return self._one_batch(0, self._positions(index))

    def collate_fn(self, index: Any) -> Any:
        """One batch for given positions, made for somebody else's order, such as that of PyG's `ZipLoader`.

        Its draws are a function of seed, epoch (see `set_epoch`) and these positions.
        """
        positions = self._positions(index)
        return self._one_batch(digest(positions), positions)

    def _positions(self, index: Any) -> Tensor:
        return checked(torch.as_tensor(index, dtype=torch.int64).view(-1), len(self._seeds))

    def _one_batch(self, index: int, positions: Tensor) -> Any:
        return self._make((self._course.epoch, Share(index=index, positions=positions))).item

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration epoch number `epoch`, as torch's DistributedSampler does.

        Raises:
            InputError: it is no whole number, or below 0.
        """
        epoch = whole(epoch, "epoch")
        if epoch < 0:
            raise InputError(f"epoch={epoch}; epochs are counted from 0")
        self._course.turn_to(Place(epoch=epoch, batches=0))

    def state_dict(self) -> dict[str, Any]:
        """Where this loader stands: behind the batches that it has handed over (the protocol of torchdata's
        StatefulDataLoader), however many are in flight. A few numbers, the same on all ranks: one may save them for all.
        """
        return self._course.state()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Makes the next iteration go on with the very batches that were left, in this run or another.

        Seeds, batch size, order and number of ranks must be as they were; workers, run mode, partitions and hosts need not.
        A `sampler` or `batch_sampler` of the user's is asked anew, and what it says first is left out: it has to repeat itself.

        Raises:
            InputError: no such state, or one of a loader that goes through its seeds in another way.
        """
        self._course.restore(state_dict)

    def statistics(self) -> dict[str, float]:
        """Sums since the loader was made, those of worker processes included.

        Batches, edges, seconds making and waiting, rows asked near and far; batches in flight, and how many of them are made
        (`backlog_batches`, `backlog_ready`), and their bytes, now and at most (`backlog_bytes`, `backlog_peak_bytes`), and those
        of the heaviest; of padded batches those for which places were added (`batches_over_caps`).
        """
        return added([self._sampler.graph.statistics(), self.counters.snapshot(), self._backlog.statistics()])

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """What the graph counts of each host or server that it asks."""
        return self._sampler.graph.statistics_by_peer()

    def _epoch(self, stretch: Stretch) -> Iterator[Any]:
        batches = in_order(stretch.tasks(), self._makers(), self._flight, backlog=self._backlog, counters=self.counters)
        with closing(batches):
            for batch in batches:
                stretch.hand_over()
                yield batch
                del batch  # its memory is the next one's
        stretch.ended = True

    def _makers(self) -> Makers[Task, Any]:
        if self._in_processes:
            return self._processes()
        make = _initialised(self._worker_init_fn, self._make)
        workers = self._flight.workers
        if not workers:
            return Inline(make, self.counters)
        threads = Threads(make, workers, self.counters)
        if not self._sampler.graph.is_local:
            self._sampler.graph.keep_until_exit()
        return threads

    def _processes(self) -> Makers[Task, Any]:
        if self._kept is not None and self._kept.complete:
            return Kept(processes=self._kept)
        if self._kept is not None:
            self._kept.stop()
        graph = self._sampler.graph
        counters = (self.counters, graph.counters)
        bench = Bench(pool=graph.pool, counters=counters, settle=self._settle, make=self._make_in_process)
        land = _pinned if self._pin else None
        processes = Processes(bench, self._flight.workers, self.counters, land)
        if not self._keep:
            return processes
        self._kept = processes
        weakref.finalize(self, processes.stop)
        return Kept(processes=processes)

    def _settle(self, worker: int) -> None:
        """In a forked worker: what the user has to prepare."""
        self._pin = False
        if self._worker_init_fn is not None:
            self._worker_init_fn(worker)

    def _make_in_process(self, task: Task) -> Made[Any]:
        """Forked processes inherit one state of all generators, so each batch begins with its own, whoever makes it."""
        epoch, share = task
        key = ops.stream_key(seed=self._seed, epoch=epoch, batch=share.index, hop=0, relation=("", "transform", ""))
        random.seed(key)
        np.random.seed(key & 0xFFFFFFFF)
        torch.default_generator.manual_seed(key)
        return self._make(task)

    def _revised(self, batch: Batch) -> Batch:
        return batch

    def _to_user(self, batch: Batch) -> Any:
        return batch

    def _make(self, task: Task) -> Made[Any]:
        epoch, share = task
        with self.counters.span("sample"):
            batch = self._sampler.sample(self._seeds.seeds(epoch, share))
            batch = self._revised(batch)
        with self.counters.span("collect"):
            batch = laid_out(collect(self._sampler.graph, batch), self._layout, self._sampler.graph.pool)
        with self.counters.span("convert"):
            finished = self._to_user(batch)
            if self._pin:
                finished = _pinned(finished)
        self.counters.add_all({"batches": 1, "seeds": len(share.positions), "sampled_edges": batch.num_edges})
        return Made(item=finished, num_bytes=batch.num_bytes)


def _flight(run: Run, num_workers: int | None, prefetch_factor: int | None, backlog: int | None, timeout: float) -> Flight:
    if run not in ("auto", "threads", "inline", "processes"):
        raise InputError(f"run={run!r} is none of 'auto', 'threads', 'inline', 'processes'")
    workers = default_workers() if num_workers is None else whole(num_workers, "num_workers")
    if run in ("threads", "processes") and workers == 0:
        raise InputError(f"run={run!r} needs num_workers of at least 1")
    return Flight(
        workers=0 if run == "inline" else workers,
        prefetch=prefetch_factor or 2,
        backlog_bytes=spare_bytes() if backlog is None else whole(backlog, "backlog_bytes"),
        deadline=timeout or 300.0,
    )


def default_workers() -> int:
    """A worker for every core of this trainer's share of the host, at most four.

    A batch is made on one core, and four make them faster than most models use them. Trainers that torchrun starts on one host
    (LOCAL_WORLD_SIZE) share its cores.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(cores // max(trainers_here(), 1), 1), 4)


def _require_forkable(sampler: Sampler) -> None:
    require_processes()
    if not sampler.graph.is_local:
        raise InputError(
            "run='processes' needs all partitions on this host: connections do not survive a fork; use run='threads'"
        )


def _pinned(finished: Any) -> Any:
    return finished.pin_memory()


def whole(value: Any, name: str) -> int:
    """The value as an int, where Python, NumPy or torch say that it is one.

    Raises:
        InputError: it is none.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name}={value!r} is not a whole number") from None


def _initialised(init: Callable[[int], None] | None, make: Callable[[Task], Made[Any]]) -> Callable[[Task], Made[Any]]:
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
