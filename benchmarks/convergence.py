"""What locality does to learning: ``python -m benchmarks.convergence GRAPH [--seeds N]``, many minutes.

A GraphSAGE of three layers learns Coauthor CS or Amazon Computers on 4 ranks, whose gradients are averaged, with fanout 15, 10, 5
and batches of 128. After each epoch all nodes of the split "test" are classified, from all their neighbours. Ways differ in where
the seeds of a batch are from, and in nothing else. The ranks are simulated in one process, one after the other.
"""

import argparse
import statistics
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import halohop
from benchmarks import real
from benchmarks.entries import FANOUT
from benchmarks.locality import BATCH_SIZE
from halohop import World
from halohop.typing import EDGE, NODE

HIDDEN, DROPOUT, RATE = 64, 0.5, 0.01
WHOLE = "whole graph"


class Sage(nn.Module):
    """Mean of the neighbours and the node itself, each multiplied by a matrix. The first layer multiplies the rows of all nodes
    once a step, as they are sparse and few."""

    def __init__(self, x: Tensor, num_classes: int) -> None:
        super().__init__()
        widths = [x.shape[1], *([HIDDEN] * (len(FANOUT) - 1)), num_classes]
        pairs = list(pairwise(widths))
        self.own = nn.ModuleList(nn.Linear(*pair) for pair in pairs)
        self.near = nn.ModuleList(nn.Linear(*pair, bias=False) for pair in pairs)
        self._x = x.to_sparse_csr() if (x == 0).float().mean() > 0.9 else x

    def first(self) -> Tensor:
        """The first layer of all nodes before neighbours are joined: ``[num_nodes, 2 * HIDDEN]``."""
        return self._x @ torch.cat([self.own[0].weight, self.near[0].weight]).T

    def forward(self, first: Tensor, nodes: Tensor, edges: Tensor) -> Tensor:
        own, near = first[nodes].split(HIDDEN, dim=1)
        hidden = own + self.own[0].bias + _mean(near, edges)
        for mine, theirs in zip(self.own[1:], self.near[1:], strict=True):
            hidden = F.dropout(F.relu(hidden), DROPOUT, self.training)
            hidden = mine(hidden) + _mean(theirs(hidden), edges)
        return hidden


def _mean(rows: Tensor, edges: Tensor) -> Tensor:
    src, dst = edges
    return torch.zeros_like(rows).index_add_(0, dst, rows[src]) / dst.bincount(minlength=len(rows)).clamp(min=1)[:, None]


def learn(name: str, way: str, seed: int, *, ranks: int, epochs: int) -> list[float]:
    """The accuracy on the split "test" after each epoch; `way` is a number of blocks, or `WHOLE`."""
    tables = real.read(name)
    columns, edges = tables.nodes[NODE].columns, tables.edges[EDGE]
    y, test, everything = columns["y"], columns["test_mask"], torch.arange(tables.nodes[NODE].num_nodes)
    torch.manual_seed(seed)
    model = Sage(columns["x"].to_dense().float(), int(y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    locality, num_blocks = ("none", real.MOST_BLOCKS) if way == WHOLE else ("blocks", int(way))
    found = []
    with halohop.open(real.in_blocks(name, num_blocks, 4)) as graph:
        loaders = [
            halohop.NeighborLoader(
                graph,
                FANOUT,
                "train",
                batch_size=BATCH_SIZE[name],
                shuffle=True,
                seed=seed,
                locality=locality,
                world=World(rank=rank, size=ranks, local_rank=rank, local_size=ranks),
                node_columns=[],
                num_workers=1,
            )
            for rank in range(ranks)
        ]
        for _ in range(epochs):
            model.train()
            for batches in zip(*loaders, strict=True):
                first = model.first()
                logits = [model(first, batch.n_id, batch.edge_index)[: batch.batch_size] for batch in batches]
                labels = [y[batch.n_id[: batch.batch_size]] for batch in batches]
                optimizer.zero_grad()
                F.cross_entropy(torch.cat(logits), torch.cat(labels)).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                classes = model(model.first(), everything, torch.stack([edges.src.long(), edges.dst.long()])).argmax(1)
            found.append(float((classes == y)[test].float().mean()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convergence", description="Accuracy by where seeds are from.")
    parser.add_argument("graph", choices=["cs", "computers"])
    parser.add_argument("--ways", nargs="+", default=[WHOLE, "4", "16", "64"], help="numbers of blocks, or 'whole graph'")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=6)
    chosen = parser.parse_args()
    for way in chosen.ways:
        runs = [learn(chosen.graph, way, seed, ranks=chosen.ranks, epochs=chosen.epochs) for seed in range(chosen.seeds)]
        for epoch, found in enumerate(zip(*runs, strict=True), 1):
            print(f"{way:12} epoch {epoch:3} mean {statistics.mean(found):.2%}, {min(found):.2%} to {max(found):.2%}", flush=True)


if __name__ == "__main__":
    main()
