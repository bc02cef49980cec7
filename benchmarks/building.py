"""Partitioning beside DGL's `partition_graph`: ``python -m benchmarks.building``.

The same power-law graph, from the same ``.npy`` files, is divided at random and by METIS into partitions that training can load.
Each run is a process of its own; seconds are from the first read of a file to the last written byte, imports and the compilation
of kernels not counted. Memory is the highest PSS without pages of files (which the system takes back when it needs them), less
what the process had before it began. DGL runs in the environment that ``python -m benchmarks.peers`` makes. METIS runs of DGL: as
it is by default, which balances nodes, and with edges and training nodes balanced, too, which halohop always does.

    python -m benchmarks.building --edges 10000000 50000000 124000000
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine
from benchmarks.footprint import peak_of
from benchmarks.out_of_core import make
from benchmarks.paths import BENCH
from benchmarks.peers import dgl_python
from halohop.datasets.powerlaw import PowerLaw

_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """Who divides a graph, and how."""

    name: str
    python: str
    module: str
    method: str
    options: tuple[str, ...] = ()


def contestants(methods: list[str]) -> list[Contestant]:
    """halohop and, where its environment is there, DGL."""
    found = []
    for method in methods:
        found.append(Contestant(name="halohop", python=sys.executable, module="halohop_build", method=method))
        python = dgl_python()
        if python is None:
            continue
        found.append(Contestant(name="DGL", python=python, module="dgl_build", method=method))
        if method == "metis":
            options = ("--balanced",)
            found.append(Contestant(name="DGL, balanced", python=python, module="dgl_build", method=method, options=options))
    return found


def measure(contestant: Contestant, graph: Path, out: Path, parts: int) -> dict[str, float]:
    """Seconds, CPU seconds, bytes and, of halohop, the share of edges cut."""
    with tempfile.NamedTemporaryFile("w+", prefix="halohop-", suffix=".json") as answer:
        words = [contestant.python, "-m", f"benchmarks.contestants.{contestant.module}", str(graph), str(out), str(parts)]
        words += [contestant.method, *contestant.options]
        shell = ["sh", "-c", f'exec "$@" > {answer.name}', "sh", *words]
        peak = peak_of(shell)
        found: dict[str, float] = json.loads(Path(answer.name).read_text().splitlines()[-1])
    return found | {"bytes": peak.without_files * 2**20 - found["base"]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.building", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--edges", type=int, nargs="+", default=[10_000_000, 50_000_000, 124_000_000])
    parser.add_argument("--degree", type=float, default=50.5, help="edges per node; that of ogbn-products by default")
    parser.add_argument("--features", type=int, default=0)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--methods", nargs="+", default=["random", "metis"])
    parser.add_argument("--only", default="", metavar="TEXT", help="contestants whose names hold this text")
    parser.add_argument("--folder", type=Path, default=BENCH / "building")
    parser.add_argument("--keep", action="store_true", help="keep the graphs for the next run")
    chosen = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine.describe().items()))
    print("| edges | method | who | seconds | CPU seconds | memory, GiB | bytes an edge | cut |")
    print("|---:|---|---|---:|---:|---:|---:|---:|")
    for edges in chosen.edges:
        shape = PowerLaw(nodes=max(round(edges / chosen.degree), 1000), edges=edges, features=chosen.features)
        graph = chosen.folder / f"graph-{shape.nodes}-{edges}-{shape.features}"
        if not graph.exists():
            make(graph, shape)
        for contestant in contestants(chosen.methods):
            if chosen.only not in contestant.name:
                continue
            out = chosen.folder / "parts"
            shutil.rmtree(out, ignore_errors=True)
            line = f"| {edges / 1e6:g} M | {contestant.method} | {contestant.name} |"
            try:
                found = measure(contestant, graph, out, chosen.parts)
            except subprocess.CalledProcessError as error:
                print(f"{line} failed: {error.returncode} | | | | |", flush=True)
                continue
            cut = f"{found['cut']:.1%}" if "cut" in found else ""
            numbers = f"{found['seconds']:.1f} | {found['cpu']:.1f} | {found['bytes'] / _GIB:.2f} | {found['bytes'] / edges:.0f}"
            print(f"{line} {numbers} | {cut} |", flush=True)
        shutil.rmtree(chosen.folder / "parts", ignore_errors=True)
        if not chosen.keep:
            shutil.rmtree(graph)


if __name__ == "__main__":
    main()
