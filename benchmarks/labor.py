"""What LABOR saves and costs beside neighbour sampling: ``python -m benchmarks.labor [SIZE]``, a minute or two.

For each choice of fanouts all draw around the same batches of the synthetic graph; numbers are means of the batches. The estimate
at a seed is what a linear GNN makes of a random feature: the mean over drawn neighbours of the mean over theirs, and so on. Its
squared error, against the means over all neighbours, is told over that of plain sampling; "of a batch" is that of the mean of a
batch's estimates. Times are CPU times of sampling alone, medians of alternating runs.
"""

import argparse
import statistics
import time

import torch
from torch import Tensor

from halohop.cluster.graph import in_memory
from halohop.datasets import synthetic
from halohop.sampling.batch import Seeds
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.draw import Rules
from halohop.store.tables import EdgeTable
from halohop.typing import EDGE, NODE

CASES = ((1024, [10]), (16384, [10]), (1024, [10, 10]), (1024, [15, 10, 5]), (1024, [12, 9, 5]))
RULES = {
    "neighbor": Rules(),
    "labor": Rules(labor=True),
    "labor, layer_dependency": Rules(labor=True, layer_dependency=True),
}


def averaged(values: Tensor, ends: tuple[Tensor, Tensor], layers: int) -> Tensor:
    """The mean of the sources' values at every destination, again and again; 0 where there are none."""
    src, dst = ends
    degrees = dst.bincount(minlength=len(values)).clamp(min=1)
    for _ in range(layers):
        values = torch.zeros_like(values).index_add_(0, dst, values[src]) / degrees
    return values


def compare(edges: EdgeTable, num_nodes: int, samplers: dict[str, NeighborSampler], batch_size: int, batches: int) -> None:
    generator = torch.Generator().manual_seed(0)
    feature = torch.randn(num_nodes, generator=generator, dtype=torch.float64)
    layers = samplers["neighbor"].fanouts.num_hops
    exact = averaged(feature, (edges.src.long(), edges.dst.long()), layers)
    told: dict[str, list[tuple[float, ...]]] = {name: [] for name in samplers}
    for index in range(batches):
        gid = torch.randperm(num_nodes, generator=generator)[:batch_size]
        seeds = Seeds(node_type=NODE, gid=gid, input_id=gid, epoch=0, index=index)
        for name, sampler in samplers.items():
            begin = time.thread_time()
            batch = sampler.sample(seeds)
            seconds = time.thread_time() - begin
            nodes, drawn = batch.nodes[NODE].gid, batch.edges[EDGE].ends_bid
            errors = averaged(feature[nodes], (drawn[0], drawn[1]), layers)[: len(gid)] - exact[gid]
            told[name].append((len(nodes), drawn.shape[1], seconds, float(errors.square().mean()), float(errors.mean() ** 2)))
    first = [statistics.mean(column) for column in zip(*told["neighbor"], strict=True)]
    for name, rows in told.items():
        nodes, num_edges, _, error, of_mean = (statistics.mean(column) for column in zip(*rows, strict=True))
        milliseconds = 1000 * statistics.median(row[2] for row in rows)
        fanouts = list(samplers[name].fanouts.per_relation[EDGE])
        print(
            f"{batch_size:5} seeds {fanouts!s:12} {name:24} {nodes:9.0f} nodes ({nodes / first[0]:.2f}) {num_edges:9.0f} edges  "
            f"error {error:.5f} ({error / first[3]:.2f}), of a batch {of_mean / first[4]:.2f}  {milliseconds:6.1f} ms"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.labor", description="LABOR beside neighbour sampling.")
    parser.add_argument("size", nargs="?", default="medium", help="of the synthetic graph: small, medium (default), products")
    parser.add_argument("--batches", type=int, default=60)
    chosen = parser.parse_args()
    tables = synthetic(chosen.size)
    graph = in_memory(tables)
    for batch_size, fanouts in CASES:
        per_hop = Fanouts.uniform(fanouts, graph.schema)
        samplers = {name: NeighborSampler(graph, per_hop, rules=rules) for name, rules in RULES.items()}
        compare(tables.edges[EDGE], tables.nodes[NODE].num_nodes, samplers, batch_size, chosen.batches)


if __name__ == "__main__":
    main()
