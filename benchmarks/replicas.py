"""How many remote rows copies of hot nodes leave: ``python -m benchmarks.replicas [GRAPH ...]``, some minutes.

Graphs in 4 partitions by METIS, 16 blocks, a rank for each, fanout 15, 10, 5. Of the nodes of the batches of one epoch those are
counted that other ranks' partitions own; then those that are left where each partition copies 0.05, 0.1
or 0.5 of n/4 nodes, chosen by each method. Hindsight chooses by what was counted: no choice that stays is better. Pre-sampling
samples two other epochs.

"products" has the shape of ogbn-products at a tenth of its nodes, with a twelfth of them as seeds, and most edges within classes.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

import halohop
from benchmarks import real
from benchmarks.entries import FANOUT
from benchmarks.paths import GRAPHS
from halohop import Graph
from halohop.datasets import synthetic
from halohop.datasets.synthetic import SIZES
from halohop.typing import NODE

RANKS = 4
BLOCKS = 16
BATCH_SIZE = {"cs": 128, "computers": 128, "cnr": 512, "products": 128}
RATIOS = (0.05, 0.1, 0.5)
LOCALITIES = ("owner", "blocks", "none")


def folder_of(name: str) -> Path:
    if name != "products":
        return real.in_blocks(name, BLOCKS, RANKS)
    folder = GRAPHS / "products-in-classes" / f"parts-{RANKS}-blocks-{BLOCKS}"
    if not folder.exists():
        print("making and dividing products, once", flush=True)
        count = SIZES["products"].num_nodes // 10
        tables = synthetic("products", num_nodes=count, num_features=1, homophily=0.95, fractions=(1 / 12, 1 / 12, 10 / 12))
        halohop.partition(tables, folder, num_parts=RANKS, method="metis", blocks=BLOCKS)
    return folder


def counted(graph: Graph, batch_size: int, locality: str, owner: Tensor) -> tuple[Tensor, int, int]:
    """In how many batches of an epoch each node is, by rank and raw id; how many batches that are, and how many are left out.

    A batch is counted for the rank whose partition owns its seeds, of seeds from the whole graph for each rank in turn. Left out
    are the last batches of an epoch, of what partitions have left over: their seeds are of several.
    """
    found, batches, mixed = torch.zeros(RANKS, graph.schema.nodes[NODE].count), 0, 0
    how = {"batch_size": batch_size, "shuffle": True, "locality": locality, "node_columns": [], "seed": 7}
    for batch in halohop.NeighborLoader(graph, FANOUT, "train", num_workers=1, **how):
        owners = owner[batch.n_id[: batch.batch_size]].unique()
        if locality == "none" or len(owners) == 1:
            found[batches % RANKS if locality == "none" else int(owners[0]), batch.n_id] += 1
            batches += 1
        else:
            mixed += 1
    return found, batches, mixed


def left(need: Tensor, score: Tensor, owner: Tensor, ratios: Sequence[float]) -> list[float]:
    """The share of the remote rows that is left, by ratio; `need` and `score` are by rank and node."""
    remote = owner != torch.arange(RANKS)[:, None]
    need, shares = need * remote, []
    for ratio in ratios:
        room = int(ratio * len(owner) / RANKS)
        best = torch.where(remote, score, -1).topk(room, dim=1).indices
        shares.append(1 - float(need.gather(1, best).sum() / need.sum()))
    return shares


def measure(name: str, localities: Sequence[str]) -> None:
    size = BATCH_SIZE[name]
    with halohop.open(folder_of(name)) as graph:
        owner = graph.owners(torch.arange(graph.schema.nodes[NODE].count))
        for locality in localities:
            need, batches, mixed = counted(graph, size, locality, owner)
            remote = float((need * (owner != torch.arange(RANKS)[:, None])).sum()) / batches
            scores, seconds = {"hindsight": need}, {"hindsight": 0.0}
            for method in ("vip", "presample", "degree"):
                began = time.perf_counter()
                options = {"batch_size": size, "locality": locality, "method": method, "seed": 1000}
                scores[method] = halohop.placement.hotness(graph, "train", FANOUT, **options)[NODE].expand(RANKS, -1)
                seconds[method] = time.perf_counter() - began
            for method in ("degree", "presample", "vip", "hindsight"):
                shares = " | ".join(f"{share:.1%}" for share in left(need, scores[method], owner, RATIOS))
                counts = f"{batches}, {mixed} | {remote:,.0f}"
                print(f"| {name} | {locality} | {counts} | {method} | {shares} | {seconds[method]:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replicas", description="Remote rows that copies leave.")
    parser.add_argument("graphs", nargs="*", default=list(BATCH_SIZE), metavar="GRAPH", help="default: all")
    parser.add_argument("--seeds", nargs="*", default=list(LOCALITIES), choices=LOCALITIES, help="default: all")
    chosen = parser.parse_args()
    head = " | ".join(f"left with {ratio} of n/{RANKS}" for ratio in RATIOS)
    print(f"| graph | seeds | batches, left out | remote rows a batch | method | {head} | s |")
    print("|---|---|---:|---:|---|---:|---:|---:|---:|", flush=True)
    for name in chosen.graphs:
        measure(name, chosen.seeds)


if __name__ == "__main__":
    main()
