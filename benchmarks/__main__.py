"""``python -m benchmarks``: measures, prints, and keeps the results in .bench/results."""

import argparse
import json
import sys
from pathlib import Path

from benchmarks import gpu, report
from benchmarks.graphs import prepare
from benchmarks.harness import check_tests, measure
from benchmarks.suite import BENCHMARKS

SKIPPED = "WARNING: run with --skip-tests. Nobody has checked that the kernels are right, so these numbers mean nothing yet."
SMALL = "Run at --scale {scale:g}: a graph of this size fits into caches; its numbers say nothing about large graphs."


def main() -> None:
    if sys.argv[1:2] == ["gpu"]:
        gpu.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Benchmarks against peers, side by side.")
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"of {[*BENCHMARKS]}; or all, prepare (the graphs), report FILE, gpu"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="share of the nodes of the full graph (default: 1)")
    parser.add_argument("--rounds", type=int, default=9, help="units that each contestant measures (default: 9)")
    parser.add_argument("--unit", type=int, help="batches in a unit (default: the benchmark's own)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="thread counts (default: 1 2)")
    parser.add_argument("--only", default="", metavar="TEXT", help="contestants whose names hold this text")
    parser.add_argument("--skip-tests", action="store_true", help="measure without the equality tests; results say so")
    parser.add_argument("--publish", action="store_true", help="also write page and plot into docs/benchmarks")
    chosen = parser.parse_args()
    if chosen.names[0] == "report":
        for file in map(Path, chosen.names[1:]):
            record = json.loads(file.read_text())
            print(report.markdown(record))
            if chosen.publish:
                print(report.publish(record, file.name.partition("-")[0]))
        return
    names = list(BENCHMARKS) if chosen.names[0] in ("all", "prepare") else chosen.names
    if unknown := set(names) - set(BENCHMARKS):
        parser.error(f"unknown: {sorted(unknown)}")
    benchmarks = {name: BENCHMARKS[name](chosen.threads) for name in names}
    folders = {
        name: prepare(benchmark.graph, chosen.scale, benchmark.parts, benchmark.metis, dgl=benchmark.dgl, copies=benchmark.copies)
        if benchmark.graph
        else None
        for name, benchmark in benchmarks.items()
    }
    if chosen.names == ["prepare"]:
        return
    if not chosen.skip_tests:
        check_tests(*dict.fromkeys(tests for benchmark in benchmarks.values() for tests in benchmark.tests))
    for name, benchmark in benchmarks.items():
        print(f"{name}: {benchmark.title}", flush=True)
        unit = chosen.unit or benchmark.unit
        record = measure(benchmark, folders[name], rounds=chosen.rounds, unit=unit, only=chosen.only)
        warnings = [SKIPPED] * chosen.skip_tests + [SMALL.format(scale=chosen.scale)] * (chosen.scale < 1)
        record["warnings"] = warnings
        path = report.save(record, name)
        print(report.markdown(record))
        print(path)
        if chosen.publish:
            print(report.publish(record, name))


if __name__ == "__main__":
    main()
