"""`halohop bench`: how fast this machine samples and gathers. (Comparisons with peers are in benchmarks/ of the source tree.)"""

import itertools
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.table import Table
from torch import Tensor

import halohop
from halohop import ops
from halohop.cluster.graph import Graph, in_memory
from halohop.cores import usable_cores
from halohop.datasets import synthetic
from halohop.errors import InputError
from halohop.sampling.batch import Seeds
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.typing import NODE

BATCH_SIZE = 1024
PARTS = (1, 2, 4, 8)

MakeBatch = Callable[[int], int]
"""Does the work of batch number n, and returns how much that was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one way of doing it did.

    Args:
        name: which way, and how many threads.
        counted: what `rate` counts: "edges" or "rows".
        milliseconds: a batch, median over the rounds; `best` and `worst` are the fastest and the slowest round.
        rate: how many in a second, by the median.
    """

    name: str
    counted: str
    milliseconds: float
    best: float
    worst: float
    rate: float


def bench(
    name: str, size: str = "medium", *, fanout: Sequence[int] = (15, 10, 5), threads: int | None = None, rounds: int = 20
) -> list[Measured]:
    """Measures one thing on a synthetic graph, each way of doing it in turn.

    Args:
        name: "sampling" (subgraphs from one thread and several), "gather" (features of their nodes, into new memory and into
            memory used again) or "partitioned" (subgraphs from 1, 2, 4 and 8 partitions).
        size: of the graph, see `halohop.datasets.synthetic`.
        fanout: neighbours per hop.
        threads: how many at most; None takes one per core.
        rounds: how often each is measured; a round is two batches per thread.

    Raises:
        InputError: an unknown name or size, or numbers below 1.

    Example:
        >>> [row.name for row in bench("sampling", "tiny", threads=1, rounds=2)]
        ['1 thread']
    """
    benches = {"sampling": _sampling, "gather": _gather, "partitioned": _partitioned}
    if name not in benches:
        raise InputError(f"unknown benchmark {name!r}; use one of {', '.join(benches)}")
    threads = threads or len(usable_cores())
    if rounds < 1 or threads < 1:
        raise InputError(f"rounds={rounds} and threads={threads} must be at least 1")
    return list(benches[name](size, fanout, threads, rounds))


def render(rows: list[Measured], *, title: str) -> Table:
    """The table that the command prints."""
    machine = f"{platform.processor() or platform.machine()}, {len(usable_cores())} cores, torch {torch.__version__}"
    table = Table(title=title, caption=machine)
    for head in ("", "ms a batch", "best", "worst", "M/s", ""):
        table.add_column(head, justify="left" if head == "" else "right")
    for row in rows:
        times = (f"{row.milliseconds:.2f}", f"{row.best:.2f}", f"{row.worst:.2f}")
        table.add_row(row.name, *times, f"{row.rate / 1e6:.1f}", row.counted)
    return table


def _sampling(size: str, fanout: Sequence[int], threads: int, rounds: int) -> Iterator[Measured]:
    task = _sampler(in_memory(synthetic(size)), fanout)
    counts = sorted({1, threads})
    yield from _in_turn("edges", {_threads(number): (task, number) for number in counts}, rounds)


def _partitioned(size: str, fanout: Sequence[int], threads: int, rounds: int) -> Iterator[Measured]:
    tables = synthetic(size)
    with tempfile.TemporaryDirectory() as folder:
        tasks = {}
        for parts in PARTS:
            halohop.partition(tables, Path(folder) / str(parts), num_parts=parts, method="random")
            tasks[f"{parts} partition{'s' * (parts > 1)}"] = (_sampler(halohop.open(Path(folder) / str(parts)), fanout), 1)
        yield from _in_turn("edges", tasks, rounds)


def _gather(size: str, fanout: Sequence[int], threads: int, rounds: int) -> Iterator[Measured]:
    tables = synthetic(size)
    source = tables.nodes[NODE].columns["x"]
    graph = in_memory(tables)
    sampler = NeighborSampler(graph, Fanouts.uniform(fanout, graph.schema))
    batches = [sampler.sample(seeds).nodes[NODE].gid for seeds in itertools.islice(_seeds(graph), 4)]
    again = torch.empty((max(map(len, batches)), *source.shape[1:]), dtype=source.dtype)

    def fresh(number: int) -> int:
        rows = batches[number % len(batches)]
        return len(ops.gather_rows(source, rows))

    def used_again(number: int) -> int:
        rows = batches[number % len(batches)]
        return len(ops.gather_rows(source, rows, out=again[: len(rows)]))

    def torchs(number: int) -> int:
        return len(torch.index_select(source, 0, batches[number % len(batches)]))

    ways: dict[str, tuple[MakeBatch, int]] = {
        "into new memory": (fresh, 1),
        "into memory used again": (used_again, 1),
        f"torch.index_select, {_threads(torch.get_num_threads())}": (torchs, 1),
    }
    yield from _in_turn("rows", ways, rounds)


def _sampler(graph: Graph, fanout: Sequence[int]) -> MakeBatch:
    sampler = NeighborSampler(graph, Fanouts.uniform(fanout, graph.schema))
    every = list(itertools.islice(_seeds(graph), 64))
    return lambda number: sampler.sample(every[number % len(every)]).num_edges


def _seeds(graph: Graph) -> Iterator[Seeds]:
    """Seeds of batches without end, the same nodes however the graph is divided."""
    count = graph.schema.nodes[NODE].count
    generator = torch.Generator().manual_seed(0)
    for index in itertools.count():
        raw: Tensor = torch.randint(count, (min(BATCH_SIZE, count),), generator=generator)
        yield Seeds(node_type=NODE, gid=graph.locate(raw), input_id=raw, epoch=0, index=index)


def _in_turn(counted: str, ways: dict[str, tuple[MakeBatch, int]], rounds: int) -> Iterator[Measured]:
    """Round after round, so that whatever else the machine does meets all ways; the first round only warms up."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    amounts: dict[str, list[float]] = {way: [] for way in ways}
    most = max(threads for _, threads in ways.values())
    with ThreadPoolExecutor(most) as pool:
        for number in range(rounds + 1):
            for way, (task, threads) in ways.items():
                numbers = range(2 * threads * number, 2 * threads * (number + 1))
                start = time.perf_counter()
                done: Iterable[int] = map(task, numbers) if threads == 1 else pool.map(task, numbers)
                amount = sum(done)
                if number > 0:
                    seconds[way].append((time.perf_counter() - start) / len(numbers))
                    amounts[way].append(amount / len(numbers))
    for way, times in seconds.items():
        median = statistics.median(times)
        yield Measured(
            name=way,
            counted=counted,
            milliseconds=1e3 * median,
            best=1e3 * min(times),
            worst=1e3 * max(times),
            rate=statistics.mean(amounts[way]) / median,
        )


def _threads(number: int) -> str:
    return f"{number} thread{'s' * (number > 1)}"
