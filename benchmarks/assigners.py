"""``python -m benchmarks.assigners``: cut, balance, time and memory of every assigner, each in a process of its own.

Graphs: cnr-2000 (web), Amazon Computers and Coauthor CS from ../shared/data, and a power law of ten million edges, each edge in
both directions. A tenth of the nodes is for training. "libmetis" is METIS alone: all partitions at once, with the same
constraints and its other defaults. "on disk" is with lists of neighbours in files, in a budget that has no room for them.
Memory is what the process holds and shares with no file, above what it held before; CPU is the processor's time.
"""

import argparse
import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.machine import describe
from halohop.datasets.sources import load_source
from halohop.memory import private_bytes, release
from halohop.partitioning.assigners import libmetis
from halohop.partitioning.assigners.assign import assign
from halohop.partitioning.assigners.loads import Loads, carried_by
from halohop.partitioning.assigners.union import union_graph
from halohop.partitioning.planning.budget import Budget
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE

DATA = Path(__file__).parents[1] / "../shared/data"
KEPT = Path(".bench/assigners")
POWER_LAW = "synthetic:powerlaw?nodes=1000000&edges=5000000&features=1"
TOLERANCE = 0.05


def assigned(**options: object) -> Callable[[GraphTables, int], Tensor]:
    return lambda tables, parts: assign(tables, parts, tolerance=TOLERANCE, **options).part[NODE]  # type: ignore[arg-type]


def alone(tables: GraphTables, parts: int) -> Tensor:
    loads = Loads(tables)
    slack = loads.limit(parts, TOLERANCE) * parts / loads.totals
    return libmetis.part_graph(union_graph(tables), loads.rows(0, tables.nodes[NODE].num_nodes), parts, slack=slack, seed=0)


ASSIGNERS = {
    "random": assigned(method="random"),
    "range": assigned(method="range"),
    "libmetis": alone,
    "metis, 64 blocks": assigned(method="metis", num_blocks=64),
    "metis, 16 blocks": assigned(method="metis", num_blocks=16),
    "metis, no blocks": assigned(method="metis", num_blocks=0),
    "kaminpar": assigned(method="kaminpar"),
    "ldg": assigned(method="ldg"),
    "ldg, on disk": assigned(method="ldg", memory=Budget(bytes=64 << 20)),
    "fennel": assigned(method="fennel"),
}


def graph(name: str) -> GraphTables:
    """The graph with its edges in both directions, and training nodes drawn at random."""
    if name == "power law":
        tables = load_source(POWER_LAW)
        return both_ways(*tables.edges[EDGE].ends, tables.nodes[NODE].num_nodes)
    if name == "cnr-2000":
        return both_ways(*cnr())
    arrays = np.load(DATA / "amazon_coauthor" / f"{name}.npz", allow_pickle=False)
    indptr, indices = torch.from_numpy(arrays["adj_indptr"]).long(), torch.from_numpy(arrays["adj_indices"]).long()
    return both_ways(torch.repeat_interleave(indptr.diff()), indices, len(indptr) - 1)


def cnr() -> tuple[Tensor, Tensor, int]:
    kept = KEPT / "cnr-2000.npz"
    if not kept.exists():
        with gzip.open(DATA / "cnr2000/cnr-2000.graph-txt.gz", "rt") as lines:
            count = int(next(lines))
            lists = [np.array(line.split(), np.int32) for line in lines]
        KEPT.mkdir(parents=True, exist_ok=True)
        src = np.repeat(np.arange(count), [len(own) for own in lists])
        np.savez(kept, src=src, dst=np.concatenate(lists), count=count)
    arrays = np.load(kept, allow_pickle=False)
    return torch.from_numpy(arrays["src"]).long(), torch.from_numpy(arrays["dst"]).long(), int(arrays["count"])


def both_ways(src: Tensor, dst: Tensor, count: int) -> GraphTables:
    src, dst = src.long(), dst.long()
    pairs = torch.unique(torch.cat([src * count + dst, dst * count + src]))
    ends = EdgeTable(src=pairs // count, dst=pairs % count)
    train = torch.rand(count, generator=torch.Generator().manual_seed(0)) < 0.1
    return GraphTables(nodes={NODE: NodeTable(num_nodes=count, columns={"train_mask": train})}, edges={EDGE: ends})


def measure(name: str, assigner: str, parts: int) -> dict[str, object]:
    tables = graph(name)
    ASSIGNERS[assigner](graph("ms_academic_cs") if name != "ms_academic_cs" else tables, parts)  # compiles the kernels
    release()
    held, stop, before = [private_bytes()], threading.Event(), private_bytes()
    watch = threading.Thread(target=lambda: [held.append(private_bytes()) for _ in iter(lambda: stop.wait(0.01), True)])
    watch.start()
    begin, wall = time.process_time(), time.perf_counter()
    part = ASSIGNERS[assigner](tables, parts)
    spent, wall = time.process_time() - begin, time.perf_counter() - wall
    stop.set()
    watch.join()
    src, dst = tables.edges[EDGE].ends
    loads = Loads(tables)
    carried = carried_by(part.int(), loads, parts)
    balance = (carried.max(0).values * parts / carried.sum(0)).tolist()
    cut = float((part[src] != part[dst]).double().mean())
    return {"cut": cut, "balance": balance, "cpu": spent, "wall": wall, "memory": max(held) - before}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.assigners", description=__doc__)
    names = ["cnr-2000", "amazon_electronics_computers", "ms_academic_cs", "power law"]
    parser.add_argument("--graphs", nargs="+", default=names)
    parser.add_argument("--assigners", nargs="+", default=list(ASSIGNERS))
    parser.add_argument("--parts", nargs="+", type=int, default=[4, 16])
    parser.add_argument("--here", action="store_true", help="the first of each, in this process, as JSON")
    chosen = parser.parse_args()
    if chosen.here:
        print(json.dumps(measure(chosen.graphs[0], chosen.assigners[0], chosen.parts[0])))
        return
    print(json.dumps(describe()))
    print("| graph | parts | assigner | cut, % | nodes | training | in-edges | CPU, s | wall, s | memory, MiB |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    for name in chosen.graphs:
        for parts in chosen.parts:
            for assigner in chosen.assigners:
                case = ["--graphs", name, "--assigners", assigner, "--parts", str(parts), "--here"]
                done = subprocess.run([sys.executable, "-m", "benchmarks.assigners", *case], capture_output=True, text=True)
                if done.returncode:
                    print(f"| {name} | {parts} | {assigner} | {done.stderr.strip().splitlines()[-1]} |", flush=True)
                    continue
                found = json.loads(done.stdout.splitlines()[-1])
                loads = " | ".join(f"{value:.3f}" for value in found["balance"])
                cost = f"{found['cpu']:.1f} | {found['wall']:.1f} | {found['memory'] / 2**20:.0f}"
                print(f"| {name} | {parts} | {assigner} | {100 * found['cut']:.2f} | {loads} | {cost} |", flush=True)


if __name__ == "__main__":
    main()
