"""Partitioning a graph larger than memory: ``python -m benchmarks.out_of_core`` (as root, for a control group; Linux).

Makes a power-law graph once, as ``.npy`` files (``--source made`` has `halohop partition` make it), divides it in a control
group of 2 GiB, in which pages of files count, too, and once more without a limit; prints time, memory and bytes a second of
both, and whether they wrote the same bytes. With ``--kills 10`` it is killed at as many random moments in between.

    python -m benchmarks.out_of_core                            200 M edges, 12 GB of features; needs 45 GB of disk
    python -m benchmarks.out_of_core --nodes 200000 --edges 2000000 --limit 600MiB --kills 3
"""

import argparse
import hashlib
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.limited import run_limited
from benchmarks.paths import BENCH
from halohop.datasets.powerlaw import PowerLaw, edge_blocks, node_blocks
from halohop.memory import format_size, parse_size

PAPERS100M = 1_615_685_872 * 16 + 111_059_956 * (128 * 4 + 11)
"""Bytes of the largest graph of OGB: edges, features, labels and splits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run of the command took."""

    name: str
    seconds: float
    peak_bytes: int | None
    num_bytes: int

    def __str__(self) -> str:
        peak = "" if self.peak_bytes is None else f", at most {format_size(self.peak_bytes)} in memory"
        return f"{self.name}: {self.seconds:.1f} s{peak}, {self.num_bytes / 1e6 / self.seconds:.0f} MB/s of source"


def make(folder: Path, shape: PowerLaw) -> None:
    """Writes a graph as a folder of ``.npy`` files, which appears when it is complete."""
    partial = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    arrays = _arrays(partial, node_blocks(shape), shape.nodes)
    dtype = np.dtype(np.int32 if shape.nodes < 2**31 else np.int64)
    ends = np.lib.format.open_memmap(partial / "edge_index.npy", mode="w+", dtype=dtype, shape=(2, shape.edges))
    first = 0
    for block in edge_blocks(shape):
        for row, end in enumerate(("src", "dst")):
            ends[row, first : first + len(block[end])] = block[end]
        first += len(block["src"])
    del arrays, ends
    partial.rename(folder)


def _arrays(folder: Path, blocks: Iterator[dict[str, Any]], num_rows: int) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    first = 0
    for block in blocks:
        for name, tensor in block.items():
            rows = tensor.numpy()
            if name not in arrays:
                shape = (num_rows, *rows.shape[1:])
                arrays[name] = np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=rows.dtype, shape=shape)
            arrays[name][first : first + len(rows)] = rows
        first += len(next(iter(block.values())))
    return arrays


def command(source: str, out: Path, parts: int, method: str, memory: str | None) -> list[str]:
    given = [] if memory is None else ["--memory", memory]
    return [sys.executable, "-m", "halohop", "partition", source, str(out), "--parts", str(parts), "--method", method, *given]


def digest(folder: Path) -> str:
    """Of all names and bytes below a folder."""
    summed = hashlib.blake2b(digest_size=16)
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        summed.update(str(file.relative_to(folder)).encode())
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 24):
                summed.update(chunk)
    return summed.hexdigest()


def killed(words: list[str], times: int, seconds: float) -> int:
    """Starts a command again and again and kills it at random moments; returns how often it was killed before its end."""
    moments, found = random.Random(0), 0
    for _ in range(times):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(moments.uniform(0, seconds / 2))
            return found  # it has ended
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            found += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.out_of_core", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=24_000_000)
    parser.add_argument("--edges", type=int, default=200_000_000)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--method", default="random")
    parser.add_argument("--limit", default="2GiB", help="of the control group")
    parser.add_argument("--memory", help="of --memory; by default the limit")
    parser.add_argument("--source", choices=("npy", "made"), default="npy")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=BENCH / "out_of_core")
    parser.add_argument("--keep", action="store_true", help="keep the graph for the next run")
    chosen = parser.parse_args()
    shape = PowerLaw(nodes=chosen.nodes, edges=chosen.edges, features=chosen.features)
    source = f"synthetic:powerlaw?nodes={shape.nodes}&edges={shape.edges}&features={shape.features}"
    graph = chosen.folder / f"graph-{shape.nodes}-{shape.edges}-{shape.features}"
    size = shape.nodes * (4 * shape.features + 11) + shape.edges * 8
    print(", ".join(f"{name} {value}" for name, value in machine.describe().items()))
    if chosen.source == "npy":
        if not graph.exists():
            begin = time.perf_counter()
            make(graph, shape)
            print(f"made {graph.name}: {time.perf_counter() - begin:.1f} s", flush=True)
        source, size = str(graph), sum(file.stat().st_size for file in graph.iterdir())
    print(
        f"{shape.edges:,} edges, {shape.nodes:,} nodes, {shape.features} features: {size / 1e9:.1f} GB; {chosen.parts} parts",
        flush=True,
    )
    small, large = chosen.folder / "limited", chosen.folder / "unlimited"
    for folder in (small, large):
        shutil.rmtree(folder, ignore_errors=True)
    words = command(source, small, chosen.parts, chosen.method, chosen.memory or chosen.limit)
    limited = run_limited(words, parse_size(chosen.limit))
    if limited.code:
        sys.exit(f"under {chosen.limit} it ended with {limited.code}")
    runs = [Run(name=f"under {chosen.limit}", seconds=limited.seconds, peak_bytes=limited.peak_bytes, num_bytes=size)]
    print(runs[0], flush=True)
    begin = time.perf_counter()
    subprocess.run(command(source, large, chosen.parts, chosen.method, None), check=True, stdout=subprocess.DEVNULL)
    print(Run(name="without a limit", seconds=time.perf_counter() - begin, peak_bytes=None, num_bytes=size), flush=True)
    expected = digest(large)
    print("same bytes" if digest(small) == expected else "OTHER BYTES", flush=True)
    print(f"ogbn-papers100M at this rate: {PAPERS100M / (size / limited.seconds) / 60:.1f} min", flush=True)
    if chosen.kills:
        shutil.rmtree(small)
        times = killed(words, chosen.kills, limited.seconds)
        if not small.exists():
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        print(f"killed {times} times: {'same bytes' if digest(small) == expected else 'OTHER BYTES'}")
    for folder in (small, large, *([] if chosen.keep else [graph])):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
