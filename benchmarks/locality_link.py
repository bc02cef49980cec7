"""What locality saves where hosts are joined by slow cables: ``python -m benchmarks.locality_link [GRAPH ...]``, as root.

Four hosts, network namespaces whose cables carry 1 Gbit/s with round trips of 0.5 ms, hold a partition each of a graph divided by
METIS, and train on it: finished batches with all features, no model. Ways take turns; numbers are medians of whole epochs.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks import real
from benchmarks.cluster import Trainers
from benchmarks.contestants.halohop_cluster import SECRET, ranks_env
from benchmarks.entries import FANOUT
from benchmarks.locality import BATCH_SIZE, RANKS
from halohop.launch.runs.nodes import node_folders
from tests.support.hosts import joined

GIGABITS, ROUND_TRIP = 1.0, 0.0005
WAYS = (("whole graph", "none", 64), ("owner's seeds", "owner", 64), ("16 blocks", "blocks", 16), ("64 blocks", "blocks", 64))
ALL = 10**9


@contextmanager
def trainers(name: str, locality: str, num_blocks: int) -> Iterator[Trainers]:
    """A trainer on each host, ready to go through its batches."""
    with ExitStack() as end:
        network = end.enter_context(joined(RANKS))
        shares = Path(end.enter_context(tempfile.TemporaryDirectory(prefix="halohop-bench-")))
        for host in network:
            host.limit_rate(GIGABITS * 1e9)
            host.shape(delay=ROUND_TRIP / 2)  # two cables lie between two hosts
        found = Trainers("halohop_cluster")
        how = {"seeds": "train", "fanout": FANOUT, "batch_size": BATCH_SIZE[name], "expand": "new", "locality": locality}
        for rank, share in enumerate(node_folders(real.in_blocks(name, num_blocks, RANKS), shares, RANKS)):
            found.start(network[rank], {"parts": str(share), **how}, {**SECRET, **ranks_env(network, rank)})
        found.ready()
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.locality_link", description="Batches over slow cables.")
    parser.add_argument("graphs", nargs="*", default=["cs", "computers"], metavar="GRAPH", help=f"of {real.NAMES}")
    parser.add_argument("--epochs", type=int, default=3)
    chosen = parser.parse_args()
    print("| graph | seeds from | ms a step | least | most | MB received a batch |\n|---|---|---:|---:|---:|---:|")
    for name in chosen.graphs:
        for way, locality, num_blocks in WAYS:
            with trainers(name, locality, num_blocks) as running:
                running.run(ALL)  # compiles, and opens connections
                units = [running.run(ALL) for _ in range(chosen.epochs)]
            steps = units[0].counts["batches"] / RANKS
            each = [1000 * unit.seconds / steps for unit in units]
            received = statistics.median(unit.counts["bytes_received"] / unit.counts["batches"] for unit in units)
            numbers = f"{statistics.median(each):.0f} | {min(each):.0f} | {max(each):.0f} | {received / 1e6:.1f}"
            print(f"| {name} | {way} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
