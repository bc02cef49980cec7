"""Where the time of a batch goes, by the loader's own spans: `python -m benchmarks.stages [--scale 0.05] [--batches 64]`.

Prints a table: finished batches (subgraph, features, labels, ids) on the graph of the other benchmarks.
"""

import argparse
import statistics
import time

import torch

import halohop
from benchmarks.entries import FANOUT
from benchmarks.graphs import prepare
from benchmarks.machine import describe
from benchmarks.work import BATCH_SIZE, SeedBatches

STAGES = ("draw", "load", "dedup", "gather", "convert")
"""Spans that do not contain one another; what remains of "make" is bookkeeping between them."""

ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--batches", type=int, default=32, help="of a round (default: 32)")
    options = parser.parse_args()
    folder = prepare("products", options.scale, parts=(1, 8))
    print("; ".join(f"{name}: {value}" for name, value in describe().items()))
    print(f"ms a batch, medians of {ROUNDS} rounds of {options.batches} batches of {BATCH_SIZE} seeds, fanout {FANOUT}\n")
    print(f"| partitions | makers | {' | '.join(STAGES)} | the rest | a batch's making | a batch comes every |")
    print(f"|---:|---:|{'---:|' * (len(STAGES) + 3)}")
    for parts in (1, 8):
        for makers in (0, 1, 2):
            row = _profile(f"{folder}/parts-{parts}", str(folder), makers, options.batches)
            print(f"| {parts} | {makers or 'inline'} | " + " | ".join(f"{value:.1f}" for value in row) + " |")


def _profile(parts: str, folder: str, makers: int, batches: int) -> list[float]:
    """Milliseconds a batch: of every stage, of what lies between them, of all, and between two batches."""
    nodes = torch.cat([torch.from_numpy(seeds) for seeds in SeedBatches(folder).take(batches)])
    with halohop.open(parts) as graph:
        how = {"run": "threads", "num_workers": makers} if makers else {"run": "inline"}
        loader = halohop.NeighborLoader(graph, FANOUT, nodes, batch_size=BATCH_SIZE, **how)
        rounds = []
        for _ in range(ROUNDS + 1):
            before = loader.statistics()
            number, seconds = _count(loader)
            after = loader.statistics()
            spans = {stage: f"{stage}_seconds" for stage in (*STAGES, "make")}
            spent = {stage: 1e3 * (after.get(span, 0) - before.get(span, 0)) for stage, span in spans.items()}
            known = [spent[stage] / number for stage in STAGES]
            made = spent["make"] / number
            rounds.append([*known, made - sum(known), made, 1e3 * seconds / number])
        return [statistics.median(column) for column in zip(*rounds[1:], strict=True)]


def _count(loader: halohop.NeighborLoader) -> tuple[int, float]:
    """Goes through an epoch and drops every batch, as fast as they come."""
    start = time.perf_counter()
    number = sum(1 for _ in loader)
    return number, time.perf_counter() - start


if __name__ == "__main__":
    main()
