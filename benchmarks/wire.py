"""What batches cost whose rows lie with other hosts: ``python -m benchmarks.wire [--scale 0.2] [--batches 12]``.

Two workers with half of a graph each, divided at random, over the loopback interface of this machine. Both make batches at the
same time and answer the other's questions meanwhile. Counted are, over all batches of both: bytes received and sent, calls,
the processor's time of both processes, and the seconds; then the same for the next epoch, with other batches of the same seeds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import halohop
from benchmarks.cluster import told
from benchmarks.entries import FANOUT
from benchmarks.graphs import prepare
from benchmarks.work import BATCH_SIZE
from halohop.launch.runs.nodes import node_folders

HOSTS = 2
EPOCHS = 2
PORT = "29571"
COLUMNS = (
    "epoch",
    "batches",
    "edges a batch",
    "bytes an edge",
    "CPU ms a batch",
    "ms a batch",
    "calls a batch",
    "rows of peers",
    "rows of the cache",
)
SHOWN = ("remote_rows", "cache_rows", "transport_calls", "transport_bytes_received", "transport_bytes_sent")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--batches", type=int, default=12, help="of each worker in an epoch (default: 12)")
    parser.add_argument("--workers", type=int, default=2, help="threads of each loader (default: 2)")
    parser.add_argument("--expand", default="all", choices=("last", "all"))
    parser.add_argument("--open", default="{}", help="further arguments of halohop.open, as JSON")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(**json.loads(options.worker))
        return
    folder = prepare("products", options.scale, parts=(1, HOSTS))
    with tempfile.TemporaryDirectory(prefix="halohop-bench-") as shares:
        how = {"batches": options.batches, "workers": options.workers, "expand": options.expand}
        workers = [
            _start(rank, {"parts": str(parts), "seeds": f"{folder}/seeds.npy", "opened": json.loads(options.open)} | how)
            for rank, parts in enumerate(node_folders(folder / f"parts-{HOSTS}", Path(shares), HOSTS))
        ]
        print("| " + " | ".join(COLUMNS) + " |")
        print("|" + "---:|" * len(COLUMNS))
        for epoch in range(EPOCHS):
            _go(workers)  # begin
            counted = [_told(worker) for worker in _go(workers)]
            print("| " + " | ".join(_row(epoch, counted)) + " |", flush=True)
        for worker in _go(workers):
            worker.wait(60)


def _start(rank: int, options: dict[str, Any]) -> "subprocess.Popen[str]":
    places = {"RANK": str(rank), "WORLD_SIZE": str(HOSTS), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": PORT, "HALOHOP_TOKEN": "a secret of this benchmark only"}
    command = [sys.executable, "-m", "benchmarks.wire", "--worker", json.dumps(options)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **places, **where}
    )


def _go(workers: "list[subprocess.Popen[str]]") -> "list[subprocess.Popen[str]]":
    """Has all begin what comes next, when all have ended what was before."""
    for worker in workers:
        assert _told(worker) is None
    for worker in workers:
        told(worker.stdin).write("\n")
        told(worker.stdin).flush()
    return workers


def _told(worker: "subprocess.Popen[str]") -> Any:
    line = told(worker.stdout).readline()
    if not line:
        sys.exit("a worker ended")
    return json.loads(line)


def _row(epoch: int, counted: list[dict[str, float]]) -> list[str]:
    sums = {name: sum(one[name] for one in counted) for name in counted[0]}
    batches, edges = sums["batches"], sums["edges"]
    moved = sums["transport_bytes_received"] + sums["transport_bytes_sent"]
    return [
        str(epoch),
        f"{batches:.0f}",
        f"{edges / batches / 1e3:.0f} k",
        f"{moved / edges:.1f} ({sums['transport_bytes_sent'] / edges:.1f} asked)",
        f"{1e3 * sums['cpu'] / batches:.1f}",
        f"{1e3 * max(one['seconds'] for one in counted) / (batches / len(counted)):.1f}",
        f"{sums['transport_calls'] / batches:.1f}",
        f"{sums['remote_rows'] / batches / 1e3:.0f} k",
        f"{sums['cache_rows'] / batches / 1e3:.0f} k",
    ]


# ---- a worker


def work(*, parts: str, seeds: str, batches: int, workers: int, expand: str, opened: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    world = halohop.World.from_env()
    chosen = torch.from_numpy(np.load(seeds))[: BATCH_SIZE * (batches + 1) * HOSTS]
    first, rest = chosen[: BATCH_SIZE * HOSTS], chosen[BATCH_SIZE * HOSTS :]
    how: dict[str, Any] = {"batch_size": BATCH_SIZE, "shuffle": True, "expand": expand, "num_workers": workers, "world": world}
    with halohop.open(parts, **opened) as graph:
        for _ in halohop.NeighborLoader(graph, FANOUT, first, **how):  # loads the kernels
            pass
        loader = halohop.NeighborLoader(graph, FANOUT, rest, **how)
        for _ in range(EPOCHS):
            _meet()
            before, cpu, begin, edges, number = loader.statistics(), time.process_time(), time.perf_counter(), 0, 0
            for batch in loader:
                edges, number = edges + batch.num_edges, number + 1
            seconds, after = time.perf_counter() - begin, loader.statistics()
            _meet()  # the other's questions, too
            counted = {name: after.get(name, 0) - before.get(name, 0) for name in SHOWN}
            _say({"batches": number, "edges": edges, "seconds": seconds, "cpu": time.process_time() - cpu, **counted})
        _meet()


def _meet() -> None:
    _say(None)
    sys.stdin.readline()


def _say(what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
