"""What a GPU does, beside its own limits of the same run: `python -m benchmarks gpu [--scale 0.1]`. Has never run on one.

    limits     bytes that are copied within the device, read and written, and bytes that are copied from page-locked memory
    rows       rows of 400 bytes at random places: on the device, with the host (UVA), and cached by 10, 50 and 90 %
    sampling   edges a second, with the lists on the device and with the host
    batches    finished batches that are dropped, and an epoch of GraphSAGE beside the model alone

Peers take part where they can be imported: DGL with its graph on the device and by UVA, PyG with pyg-lib, which samples on the
CPU. Each figure, some of them with a bar, is the median of rounds, timed when the device is done.
"""

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

import halohop
from benchmarks.contestants.halohop_epoch import ready
from benchmarks.entries import FANOUT
from benchmarks.gpu_figures import Figure, cached_limit, table
from benchmarks.graphs import prepare
from benchmarks.model import LEARNING_RATE, Ready, Sage
from benchmarks.work import BATCH_SIZE, SeedBatches
from halohop.loading.seeds import Share
from halohop.ops.cached_rows import CachedRows
from halohop.ops.device import device_pool
from halohop.ops.pieces import Pieces
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.draw import Rules

GLT_EDGES = 32e6
"""Edges a second that GLT states for an A100."""

COPIED = 1 << 30  # bytes
ROWS, WIDTH, TAKEN = 1 << 21, 100, 1 << 19  # of a table of float32, and those that are read of it
ROUNDS = 9


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description="What a GPU does, beside its own limits.")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the nodes of the full graph (default: 1)")
    parser.add_argument("--batches", type=int, default=64, help="of a round (default: 64)")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print(f"no GPU: torch {torch.__version__} reaches none; nothing was measured")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, medians of {ROUNDS} rounds\n")
    figures = list(_rows())
    folder = str(prepare("products", options.scale))
    figures += _batches(folder, options.batches)
    print("\n".join(table(figures)))


def seconds(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """The median time of a piece of work, until the device has done it; the first two rounds warm up."""
    taken = []
    for _ in range(rounds + 2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken[2:])


def _limits() -> tuple[float, float]:
    """Bytes a second that are read or written within the device, and those that are copied from page-locked memory."""
    near, other = (torch.empty(COPIED, dtype=torch.uint8, device="cuda") for _ in range(2))
    host = torch.empty(COPIED, dtype=torch.uint8).pin_memory()
    within = 2 * COPIED / seconds(lambda: other.copy_(near))
    return within, COPIED / seconds(lambda: near.copy_(host, non_blocking=True))


def _rows() -> Iterator[Figure]:
    """The limits, and rows beside them."""
    within, across = _limits()
    yield Figure(name="limit: copied within the device", value=within / 1e9, unit="GB/s")
    yield Figure(name="limit: copied from page-locked memory", value=across / 1e9, unit="GB/s")
    pool = device_pool("cuda")
    source = Pieces([torch.rand(ROWS, WIDTH)], [0, ROWS])
    rows = pool.put(torch.randint(0, ROWS, (TAKEN,)))
    taken = TAKEN * WIDTH * 4
    for cached in (1.0, 0.9, 0.5, 0.1, 0.0):
        hot = None if cached == 1 else torch.randperm(ROWS)[: round(ROWS * cached)].sort().values
        column = CachedRows(source, hot, pool)
        spent = seconds(lambda column=column: column.take(rows, pool=pool))  # type: ignore[misc]
        best = cached_limit(taken, cached, within=within, across=across)
        yield Figure(name=f"rows, {cached:.0%} on the device", value=taken / spent / 1e9, unit="GB/s")
        yield Figure(name=f"rows, {cached:.0%} on the device: share of the limit", value=best / spent, unit="", at_least=0.8)
        del column


def _batches(folder: str, count: int) -> Iterator[Figure]:
    """Sampling, finished batches and an epoch, by mode."""
    seeds = SeedBatches(folder)
    nodes = torch.cat([torch.from_numpy(chosen) for chosen in seeds.take(count)])
    for mode in ("cuda", "zero_copy", "cpu"):
        with halohop.open(f"{folder}/parts-1", device="cuda", mode=mode, feature_cache=0.5) as graph:
            loader = halohop.NeighborLoader(graph, FANOUT, nodes, batch_size=BATCH_SIZE)
            if mode != "cpu":
                bar = GLT_EDGES if mode == "cuda" else None
                yield Figure(name=f"sampling, {mode}", value=_edges_a_second(graph, loader, count), unit="edges/s", at_least=bar)
            yield from _epochs(f"halohop, {mode}", lambda loader=loader: iter(loader), lambda batch: ready(batch, "new"), count)  # type: ignore[misc]
    for name, epoch, finish in _peers(folder, nodes):
        yield from _epochs(name, epoch, finish, count)


def _edges_a_second(graph: Any, loader: Any, count: int) -> float:
    device = graph.on_device
    sampler = NeighborSampler(device, Fanouts.uniform(FANOUT, graph.schema), rules=Rules())
    shares = [Share(index=n, positions=torch.arange(n * BATCH_SIZE, (n + 1) * BATCH_SIZE)) for n in range(count)]
    seeds = [loader._seeds.seeds(0, share).put(device.pool) for share in shares]
    found = [sampler.sample(each) for each in seeds[:4]]
    edges = statistics.mean(sum(len(block.gid) for block in batch.edges.values()) for batch in found)
    del found
    return edges * count / seconds(lambda: [sampler.sample(each) for each in seeds])


def _epochs(name: str, epoch: Callable[[], Iterator[Any]], finish: Callable[[Any], Ready], count: int) -> Iterator[Figure]:
    """Batches that are dropped, and those that train, beside as many steps of the model on one batch."""
    x, y, hops = finish(next(epoch()))
    model = Sage(x.shape[1], len(FANOUT)).to(x.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def step(x: Tensor, y: Tensor, hops: Any) -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x, hops), y).backward()
        optimizer.step()

    def train() -> None:
        for batch in epoch():
            step(*finish(batch))

    dropped = seconds(lambda: sum(1 for _ in epoch()))
    alone = seconds(lambda: [step(x, y, hops) for _ in range(count)])
    yield Figure(name=f"batches, {name}", value=count / dropped, unit="batches/s")
    bar = 1.2 if name == "halohop, cuda" else None
    yield Figure(name=f"epoch beside the model alone, {name}", value=seconds(train) / alone, unit="times", at_most=bar)


def _peers(folder: str, nodes: Tensor) -> Iterator[tuple[str, Callable[[], Iterator[Any]], Callable[[Any], Ready]]]:
    """Loaders of those that are installed."""
    from benchmarks import gpu_peers

    if importlib.util.find_spec("dgl"):
        for uva in (False, True):
            yield f"DGL{', UVA' * uva}", *gpu_peers.dgl(folder, nodes, uva=uva)
    if importlib.util.find_spec("pyg_lib"):
        yield "PyG, pyg-lib on the CPU", *gpu_peers.pyg(folder, nodes)


if __name__ == "__main__":
    main()
