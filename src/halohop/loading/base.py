"""What all loaders have in common: examples in, finished batches out, several in flight, whatever a batch is and makes it."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from halohop.alive import note_step
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.flags import checks_flags
from halohop.loading.examples import Examples
from halohop.loading.locality import Locality, seed_blocks
from halohop.loading.making import BatchSpec, Dated, initialised, note_worker, noted, pinned, seed_generators
from halohop.loading.measured import Measured, Trial
from halohop.loading.on_device import DeviceEpoch, OnDevice
from halohop.loading.options import Run, check_pin_memory_device, prefetch_config, refuse_collating, refuse_keywords, whole
from halohop.loading.pipeline import Backlog, Made, Makers, in_order
from halohop.loading.processes import Kept, Processes, require_processes
from halohop.loading.resume import EpochProgress, LoaderProgress
from halohop.loading.seeds import OwnPlan, Share, digest, numbered, plan_of, positions_of
from halohop.loading.sent import SentByArguments
from halohop.loading.threads import Inline, Threads
from halohop.loading.undivided import NOT_GIVEN, as_torch, warn_of_all_seeds
from halohop.loading.worker import WorkerContext
from halohop.ops.pool import page_locked
from halohop.process_group import group_size
from halohop.telemetry import Counters, added
from halohop.world import World

_SHARE_OF_DEVICE = 8
"""Batches in flight may take this part of the memory that is free on a device when the loader is made."""


class BaseLoader(SentByArguments, DataLoader[Any]):
    """A `torch.utils.data.DataLoader` that works ahead in threads, since the kernels release the GIL, or in forked processes.

    Batches are bit for bit the same in both; what a process makes lies in memory that the trainer maps, too, and is not copied.
    Subclasses make the batches (`_made`).

    Args:
        graph: what batches are made of.
        seeds: what is dealt to the batches: input nodes, edges, or whatever else makes up seeds.
        world: the ranks that share the seeds. None: this loader goes through all seeds. By default it does so, too, but warns if
            there is a process group of several ranks, and lets Lightning divide the seeds.
        own_seeds: each rank of `world` brings seeds of its own and goes through all of them. Its batches are numbered among
            those of all ranks, so that no two ranks draw alike. Ranks may take different numbers of steps.
        locality: "none" shuffles the seeds of the whole graph. With "blocks" the seeds of a batch are of one block of the graph
            (of links: their destinations), and each rank makes the batches of its own run of blocks, so that most rows are near.
            With "owner" partitions take the place of blocks; then batches depend on the partitions.
        seed: of the shuffle.
        run: "threads", "processes" (for transforms that keep the GIL; Linux, and graphs without other hosts), "inline" (each
            batch when it is asked for), or "auto": threads unless num_workers is 0.
        num_workers: threads or processes; None takes one per core that this trainer has to itself, at most four. Without a number
            threads are taken (run="auto") where they make the first batches quicker than the trainer's thread; those of a small
            graph they do not.
        prefetch_factor: batches in flight per worker.
        backlog_bytes: what the batches in flight may weigh together; a batch in the making counts as much as the heaviest so far.
            One may always be in flight. None: `halohop.memory.spare_bytes`; of batches on a GPU an eighth of what is free there.
        timeout: seconds to wait for a batch before an error (0: 300 s).
        persistent_workers: processes and the memory that they share stay for the next epoch, and are forked anew when the graph,
            `transform` or `worker_init_fn` is another one. False: each epoch forks its own, which have all objects of this
            process as they are then, and pays for new memory. None is True for processes.
        worker_init_fn: called in each worker with its number. In processes Python's, NumPy's and torch's random numbers are
            seeded for each batch besides, so random transforms repeat for any number of workers.
        pin_memory: batches lie in page-locked memory where there is CUDA; threads gather them straight into it. Of a graph that
            was opened with a device they lie there, and need none.
        batch_size, shuffle, drop_last, sampler_of_seeds, batch_sampler: as in torch's DataLoader.

    Raises:
        InputError: options that exclude each other, or that cannot work.
    """

    @checks_flags
    def __init__(
        self,
        graph: Graph,
        seeds: Examples,
        *,
        world: World | None = NOT_GIVEN,
        own_seeds: bool = False,
        locality: Locality = "none",
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
        persistent_workers: bool | None = None,
        pin_memory_device: str = "",
        in_order: bool = True,
        generator: Any = None,
        **keywords: Any,
    ) -> None:
        refuse_keywords(keywords)
        check_pin_memory_device(pin_memory_device)
        refuse_collating(self, BaseLoader.collate_fn)
        batch_size = None if batch_size is None else whole(batch_size, "batch_size")
        self.counters = Counters()
        there = graph.on_device
        self._on_device = None if there is None else OnDevice(there.pool, self.counters)
        if there is not None and backlog_bytes is None:
            backlog_bytes = there.pool.free_bytes() // _SHARE_OF_DEVICE
        self._prefetch = prefetch_config(run, num_workers, prefetch_factor, backlog_bytes, timeout)
        self._in_processes = run == "processes"
        if self._in_processes:
            require_processes(local=graph.is_local)
        if self._in_processes and there is not None:
            raise InputError(
                f"run='processes' makes no batches on {there.pool.device}: CUDA ends where a process forks; use run='threads'"
            )
        self._blocks = seed_blocks(graph, seeds, locality)
        is_given = world is not NOT_GIVEN
        self._plan = plan_of(
            len(seeds),
            world=world if is_given else None,
            own_seeds=own_seeds,
            seed=whole(seed, "seed"),
            batch_size=batch_size,
            shuffle=bool(shuffle),
            drop_last=drop_last,
            sampler=sampler_of_seeds,
            batch_sampler=batch_sampler,
            blocks=self._blocks,
        )
        # Torch is given no worker, or it would fork its own. A subclass may stand before one of PyG's loaders, hence the name.
        order = {"sampler": sampler_of_seeds, "batch_sampler": batch_sampler, "shuffle": shuffle, "drop_last": drop_last}
        refuses_samplers = is_given or self._blocks is not None
        DataLoader.__init__(self, **as_torch(seeds, is_iterable=refuses_samplers, batch_size=batch_size, **order))
        self.__dict__["__dataset"] = self.dataset  # where Lightning looks for it
        self._is_divided = is_given or seeds.listed or sampler_of_seeds is not None or batch_sampler is not None
        del self.collate_fn  # torch's, which hides ours
        self.num_workers = self._prefetch.workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout, self.worker_init_fn = timeout, worker_init_fn
        stay = self._in_processes if persistent_workers is None else persistent_workers
        object.__setattr__(self, "persistent_workers", stay)  # which torch refuses without workers, and later
        self.generator, self.in_order = generator, in_order
        self._asked = graph
        self._seeds = seeds
        self._seed = whole(seed, "seed")
        self._pin = pin_memory and torch.cuda.is_available() and there is None  # what lies on a device is not locked
        if self._pin and not self._in_processes:
            graph.pool.delegate(page_locked)
        # Of other hosts' graphs batches wait, and a worker_init_fn expects workers.
        tries = run == "auto" and num_workers is None and worker_init_fn is None and graph.is_local
        self._trial = Trial(self._prefetch) if tries and self._prefetch.workers else None
        self._kept: Kept[BatchSpec, Any] | None = None
        self._progress = LoaderProgress(self._plan, seed=self._seed)
        self._backlog = Backlog(self._prefetch)

    def __len__(self) -> int:
        """Steps an epoch; the same on every rank of the world, unless each has seeds of its own."""
        return len(self._plan)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        """The next epoch's batches. Each call is a new epoch, with another shuffle and other draws."""
        refuse_collating(self, BaseLoader.collate_fn)
        if not self._is_divided and (num_ranks := group_size()) > 1:
            warn_of_all_seeds(num_ranks)
        return self._epoch(self._progress.begin())

    def __call__(self, index: Any) -> Any:
        """One batch for given positions into the input nodes, or a mask over them, outside any epoch (as of PyG's loaders)."""
        return self.filter_fn(self._one_batch(0, self._positions(index)))

    def collate_fn(self, index: Any) -> Any:
        """One batch for given positions, or a mask, for another order than this loader's, such as that of PyG's `ZipLoader`.

        Its draws are a function of seed, epoch (see `set_epoch`) and these positions.
        """
        positions = self._positions(index)
        return self._one_batch(digest(positions), positions)

    def filter_fn(self, batch: Any) -> Any:
        """The last step of every batch, to be overridden: gets it finished, and returns what the user gets. (PyG's method of
        this name gets what was sampled, and adds the rows.)
        """
        return batch

    def _positions(self, index: Any) -> Tensor:
        return positions_of(index, len(self._seeds))

    def _one_batch(self, index: int, positions: Tensor) -> Any:
        world = self._plan.world if isinstance(self._plan, OwnPlan) else World()
        share = Share(index=numbered(index, world), positions=positions)
        return self._handed_over(self._now(self._make, (self._progress.epoch, share)))

    def _now(self, make: Callable[[BatchSpec], Made[Dated]], spec: BatchSpec) -> Any:
        """A batch that nobody has made ahead."""
        return make(spec).item.value if self._on_device is None else self._on_device.one(make, spec)

    def _graph(self) -> Graph:
        return self._asked

    def statistics(self) -> dict[str, float]:
        """Sums since the loader was made, those of worker processes included.

        Batches, edges, seconds making and waiting, rows asked near and far; batches in flight, and how many of them are made
        (`backlog_batches`, `backlog_ready`), and their bytes, now and at most (`backlog_bytes`, `backlog_peak_bytes`), and those
        of the heaviest; of padded batches those for which places were added (`batches_over_caps`).
        """
        return added([self._graph().statistics(), self.counters.snapshot(), self._backlog.statistics()])

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """What the graph counts of each host or server that it asks."""
        return self._graph().statistics_by_peer()

    def _epoch(self, progress: EpochProgress) -> Iterator[Any]:
        specs: deque[BatchSpec] = deque()
        begun: Iterator[BatchSpec] = noted(progress.specs(), specs)
        there = None if self._on_device is None else self._on_device.epoch()
        if there is not None:
            begun = there.noted(begun)
        ahead = None if self._trial is None else lambda trial=self._trial: trial.ahead
        makers = self._makers(there)
        batches = in_order(begun, makers, self._prefetch, backlog=self._backlog, counters=self.counters, ahead=ahead)
        with closing(batches):
            for batch in batches:
                progress.hand_over()
                note_step()
                if there is not None:
                    there.take(batch)
                yield self._current(batch, specs.popleft())
                del batch  # its memory is the next one's
        if there is not None:
            there.end()
        progress.ended = True

    def _current(self, batch: Dated, spec: BatchSpec) -> Any:
        """The batch, made again if the user's graph has changed since it was made ahead."""
        if batch.number == self._number():
            return self._handed_over(batch.value)
        self.counters.add("batches_remade", 1)
        return self._handed_over(self._now(self._make_for_epoch, spec))

    def _handed_over(self, batch: Any) -> Any:
        """The batch, as it is handed over in the user's process."""
        return batch

    def _makers(self, there: DeviceEpoch | None) -> Makers[BatchSpec, Any]:
        if self._in_processes:
            return self._processes()
        made = self._make_for_epoch if there is None else partial(there.make, self._make_for_epoch)
        make = initialised(self.worker_init_fn, made)
        workers = self._prefetch.workers
        if not workers:
            return Inline(make, self.counters)
        if self._trial is not None:
            return Measured(make, self._trial, workers, self.counters)
        threads = Threads(make, workers, self.counters)
        if not self._graph().is_local:
            self._graph().keep_until_exit()
        return threads

    def _processes(self) -> Makers[BatchSpec, Any]:
        number, functions = self._number(), self._functions()
        if self._kept is not None and self._kept.serves(number, functions):
            return self._kept
        graph = self._graph()
        counters = (self.counters, graph.counters)
        context = WorkerContext(pool=graph.pool, counters=counters, settle=self._settle, make=self._make_in_process)
        land = pinned if self._pin else None
        processes = Processes(context, self._prefetch.workers, self.counters, land)
        if not self.persistent_workers:
            return processes
        self._kept = Kept(processes=processes, number=number, functions=functions)
        return self._kept

    def _settle(self, worker: int) -> None:
        """In a forked worker: what the user has to prepare."""
        self._pin = False
        note_worker(worker, num_workers=self.num_workers, seed=self._seed, dataset=self.dataset)
        if self.worker_init_fn is not None:
            self.worker_init_fn(worker)

    def _make_in_process(self, spec: BatchSpec) -> Made[Any]:
        seed_generators(self._seed, spec)
        return self._make_for_epoch(spec)

    def _number(self) -> int:
        """Of the state of what the user may change between batches."""
        return 0

    def _functions(self) -> tuple[object, ...]:
        """Those of the user's that run in workers, and may be put in the place of others between epochs."""
        return (self.worker_init_fn,)

    def _make_for_epoch(self, spec: BatchSpec) -> Made[Dated]:
        made = self._make(spec)
        value = self.filter_fn(made.item.value)
        return made if value is made.item.value else replace(made, item=replace(made.item, value=value))

    def _make(self, spec: BatchSpec) -> Made[Dated]:
        epoch, share = spec
        number = self._number()
        made = self._made(epoch, share)
        finished = Dated(value=made.item, number=number)
        if self._pin:
            with self.counters.span("convert"):
                finished = pinned(finished)
        self.counters.add_all({"batches": 1, "seeds": len(share.positions)})
        return Made(item=finished, num_bytes=made.num_bytes)

    def _made(self, epoch: int, share: Share) -> Made[Any]:
        """The batch of some seeds, as the user gets it, and what it weighs."""
        raise NotImplementedError
