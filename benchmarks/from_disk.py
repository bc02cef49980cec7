"""Features that do not fit into memory: rows a second beside random reads of the disk, and two epochs of a loader.

    python -m benchmarks.from_disk --gigabytes 6 --limit 2GiB        (as root; needs twice the room on disk while it is made)

The data set is made once, in ``.bench/from_disk-N``. What is measured runs in a control group with the limit. The disk is asked
for pages of 4 KiB at random places of the same file past the page cache, by processes of many threads: what fio does.
"""

import argparse
import ctypes
import json
import mmap
import multiprocessing
import os
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

import halohop
from benchmarks.limited import run_limited
from benchmarks.machine import describe
from benchmarks.paths import BENCH
from halohop.files.mapping import map_privately
from halohop.memory import parse_size
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE

FEATURES = 128
DEGREE = 4
_CHUNK = 1 << 16
_PAGE = 4096


def make(folder: Path, num_nodes: int) -> None:
    """A data set of one partition; a few nodes are at the end of many edges."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    features = folder.with_name(f"{folder.name}.x.npy")
    with features.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (num_nodes, FEATURES)})
        for begin in range(0, num_nodes, _CHUNK):
            stream.write(rng.random((min(_CHUNK, num_nodes - begin), FEATURES), np.float32).tobytes())
    num_edges = num_nodes * DEGREE
    src = (rng.random(num_edges) ** 3 * num_nodes).astype(np.int64) * 7_919_000_003 % num_nodes
    columns = {"x": torch.from_numpy(np.load(features, mmap_mode="c")), "y": torch.arange(num_nodes) % 10}
    edges = EdgeTable(src=torch.from_numpy(src), dst=torch.from_numpy(rng.integers(0, num_nodes, num_edges)))
    tables = GraphTables(nodes={NODE: NodeTable(num_nodes=num_nodes, columns=columns)}, edges={EDGE: edges})
    halohop.partition(tables, folder, num_parts=1, method="random")
    features.unlink()


def forget(folder: Path) -> None:
    """Drops from memory what others have read of the data set: it would count in their group."""
    for file in folder.rglob("*.npy"):
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def bytes_read() -> int:
    """That this process had the disk read."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def _read_pages(file: Path, threads: int, seconds: float, seed: int, total: "multiprocessing.Queue[int]") -> None:
    descriptor, pages = os.open(file, os.O_RDONLY | os.O_DIRECT), file.stat().st_size // _PAGE
    until, done = time.perf_counter() + seconds, [0] * threads

    def read(number: int) -> None:
        page, rng = mmap.mmap(-1, _PAGE), np.random.default_rng((seed, number))
        while time.perf_counter() < until:
            for place in rng.integers(0, pages, 50).tolist():
                os.preadv(descriptor, [page], place * _PAGE)
            done[number] += 50

    running = [threading.Thread(target=read, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    total.put(sum(done))


def disk_rate(file: Path, *, processes: int, threads: int, seconds: float = 3.0) -> float:
    """Pages of 4 KiB that the disk reads in a second, at random places."""
    total: multiprocessing.Queue[int] = multiprocessing.Queue()
    readers = [
        multiprocessing.Process(target=_read_pages, args=(file, threads, seconds, seed, total)) for seed in range(processes)
    ]
    for reader in readers:
        reader.start()
    pages = sum(total.get(timeout=10 * seconds) for _ in readers)
    for reader in readers:
        reader.join()
    return pages / seconds


def share_in_memory(file: Path) -> float:
    """How much of a file is in the page cache."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        found = np.empty(-(-size // _PAGE), np.uint8)
        mapped = map_privately(stream.fileno(), size, file)
        libc = ctypes.CDLL(None)
        assert libc.mincore(ctypes.c_void_p(mapped.ctypes.data), ctypes.c_size_t(size), ctypes.c_void_p(found.ctypes.data)) == 0
    return float((found & 1).mean())


def gathers(graph: halohop.Graph, file: Path, rows: int, batches: int, seed: int) -> dict[str, float]:
    """Batches of rows at random places, two at a time, as loaders gather them: rows a second, and bytes read per row that was not
    in memory."""
    count, rng = graph.schema.nodes[NODE].count, np.random.default_rng(seed)
    wanted = [torch.from_numpy(rng.integers(0, count, rows)) for _ in range(batches)]
    missing = 1 - share_in_memory(file)
    before, begin = bytes_read(), time.perf_counter()
    with ThreadPoolExecutor(2) as threads:
        for _ in threads.map(lambda gid: len(graph.fetch_rows(NODE, ["x"], gid)), wanted):
            pass
    seconds = time.perf_counter() - begin
    missing = (missing + 1 - share_in_memory(file)) / 2
    return {
        "rows": rows * batches / seconds,
        "missing": missing,
        "bytes": (bytes_read() - before) / (rows * batches * missing),
    }


def epochs(graph: halohop.Graph, batches: int, batch_size: int) -> dict[str, float]:
    """Two epochs of a loader: seconds a batch, and rows in it."""
    seeds = torch.arange(batches * batch_size) * 61 % graph.schema.nodes[NODE].count
    loader = halohop.NeighborLoader(graph, [15, 10, 5], seeds, batch_size=batch_size, shuffle=True, seed=0, num_workers=2)
    rows, begin, before = 0, time.perf_counter(), bytes_read()
    for _ in range(2):
        for batch in loader:
            rows += batch.num_nodes
    seconds = time.perf_counter() - begin
    return {
        "seconds_per_batch": seconds / (2 * batches),
        "rows_per_batch": rows / (2 * batches),
        "bytes_per_row": (bytes_read() - before) / rows,
    }


def measure(folder: Path, *, batches: int, hot_memory: str) -> None:
    """Prints all of it, as JSON; the disk and the gathers take turns."""
    file = next(folder.glob("part-*/nodes/*/x.npy"))
    found: dict[str, object] = {"machine": describe()}
    with halohop.open(folder) as graph:
        gathers(graph, file, 86_000, 4, seed=0)
        turns = [
            (disk_rate(file, processes=2, threads=32, seconds=2.0), gathers(graph, file, 86_000, 4, seed=turn))
            for turn in range(1, 6)
        ]
        found["pages of 4 KiB a second"] = [round(pages) for pages, _ in turns]
        found["rows a second"] = [round(rows["rows"]) for _, rows in turns]
        found["of these not in memory, a second"] = [round(rows["rows"] * rows["missing"]) for _, rows in turns]
        found["bytes read per row not in memory"] = [round(rows["bytes"]) for _, rows in turns]
        found["rows to pages, median"] = round(statistics.median(rows["rows"] / pages for pages, rows in turns), 2)
        found["loader"] = epochs(graph, batches, 1024)
    with halohop.open(folder, hot_memory=hot_memory) as graph:
        found[f"loader, {hot_memory} of hot rows"] = epochs(graph, batches, 1024)
        found["rows"] = {key: graph.statistics()[key] for key in ("disk_rows", "hot_rows")}
    print(json.dumps(found, indent=2))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=6.0, help="of features")
    parser.add_argument("--limit", default="2GiB", help="of memory")
    parser.add_argument("--batches", type=int, default=10, help="of an epoch")
    parser.add_argument("--hot-memory", default="256MiB")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, batches=options.batches, hot_memory=options.hot_memory)
        return 0
    folder = BENCH / f"from_disk-{options.gigabytes:g}"
    if not folder.exists():
        make(folder, int(options.gigabytes * 1e9 / FEATURES / 4))
    forget(folder)
    again = ["-m", "benchmarks.from_disk", "--measure", str(folder), "--batches", str(options.batches)]
    finished = run_limited([sys.executable, *again, "--hot-memory", options.hot_memory], parse_size(options.limit))
    print(f"{finished.seconds:.0f} s, at most {finished.peak_bytes / 2**20:.0f} MiB, exit code {finished.code}")
    return finished.code


if __name__ == "__main__":
    sys.exit(main())
