"""What `fuse(model, rows="seeds")` does to learning: ``python -m benchmarks.accuracy GRAPH [--seeds N]``, some minutes.

PyG's GraphSAGE of two layers learns Coauthor CS or Amazon Computers in PyG's own loop, once as it is and once with that one line,
from the same first parameters and the same batches. Dropout draws differ, as it draws for the rows that are there. In the end all
nodes of the split "test" are classified, from all their neighbors.
"""

import argparse
import statistics

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn.models import GraphSAGE

import halohop
from benchmarks import real
from halohop.nn import fuse
from halohop.typing import EDGE, NODE

FANOUT, BATCH_SIZE, HIDDEN, DROPOUT, RATE = [10, 5], 512, 64, 0.5, 0.01
WAYS = ("plain", "one line")


def learn(data: Data, way: str, seed: int, epochs: int) -> float:
    """The accuracy on the split "test"."""
    torch.manual_seed(seed)
    model = GraphSAGE(data.num_features, HIDDEN, 2, int(data.y.max()) + 1, dropout=DROPOUT)
    if way == "one line":
        model = fuse(model, rows="seeds")
    loader = halohop.NeighborLoader(data, FANOUT, data.train_mask, batch_size=BATCH_SIZE, shuffle=True, seed=seed, num_workers=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    model.train()
    for _ in range(epochs):
        for batch in loader:
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            optimizer.zero_grad()
            F.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        classes = model(data.x, data.edge_index).argmax(1)
    return float((classes == data.y)[data.test_mask].float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description="Accuracy with and without one line.")
    parser.add_argument("graph", choices=["cs", "computers"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=8)
    chosen = parser.parse_args()
    tables = real.read(chosen.graph)
    columns, edges = dict(tables.nodes[NODE].columns), tables.edges[EDGE]
    columns["x"] = columns["x"].to_dense().float()
    data = Data(edge_index=torch.stack([edges.src.long(), edges.dst.long()]), **columns)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for seed in range(chosen.seeds):
        for way in WAYS:
            found[way].append(learn(data, way, seed, chosen.epochs))
        print(f"seed {seed}: " + ", ".join(f"{way} {runs[-1]:.2%}" for way, runs in found.items()), flush=True)
    for way, runs in found.items():
        spread = f"standard deviation {statistics.stdev(runs):.2%}, " if len(runs) > 1 else ""
        print(f"{way:9} mean {statistics.mean(runs):.2%}, {spread}{min(runs):.2%} to {max(runs):.2%}")


if __name__ == "__main__":
    main()
