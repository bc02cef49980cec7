"""Unsupervised GraphSAGE (Hamilton et al., 2017): nodes that meet on random walks get vectors alike, without a single label.

Then a logistic regression learns the classes from the vectors, and from the features as they are, for comparison.

python examples/unsupervised.py
"""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

import halohop
from halohop.datasets import synthetic
from halohop.inference import InferenceJob, infer


class Layer(nn.Module):
    """A convolution, and what comes before the next one."""

    def __init__(self, width: int, hidden: int, *, last: bool) -> None:
        super().__init__()
        self.conv, self.last = SAGEConv(width, hidden), last

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.conv(x, edge_index)
        return F.normalize(x, dim=1) if self.last else x.relu()


class Encoder(nn.Module):
    """Made of `layers`, so that `halohop.inference` can compute each of them once for every node."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(width, hidden, last=False), Layer(hidden, hidden, last=True)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, edge_index)
        return x


def pairs(graph: halohop.Graph, epoch: int) -> Tensor:
    """Each node with the nodes of a walk of three steps from it."""
    walks = halohop.random_walk(graph, length=3, epoch=epoch)
    met = torch.stack([walks[:, :1].expand(-1, 3).flatten(), walks[:, 1:].flatten()])
    return met[:, met[0] != met[1]]


def accuracy(x: Tensor, y: Tensor, train: Tensor, test: Tensor) -> float:
    """Of a logistic regression."""
    x = (x - x[train].mean(dim=0)) / x[train].std(dim=0).clamp(min=1e-6)
    weight = torch.zeros(x.shape[1] + 1, int(y.max()) + 1, requires_grad=True)
    x = torch.cat([x, torch.ones(len(x), 1)], dim=1)
    optimizer = torch.optim.LBFGS([weight], max_iter=100)

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(x[train] @ weight, y[train]) + 1e-3 * weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return float((x[test] @ weight).argmax(dim=1).eq(y[test]).float().mean())


def main(parts: Path, epochs: int) -> None:
    tables = synthetic("tiny")
    if not parts.exists():
        halohop.partition(tables, parts, num_parts=2)
    node = tables.nodes["node"].columns
    torch.manual_seed(0)
    model = Encoder(node["x"].shape[1], 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with halohop.open(parts) as graph:
        for epoch in range(epochs):
            options = {"neg_sampling": {"mode": "binary", "amount": 2}, "batch_size": 512, "shuffle": True, "seed": epoch}
            for batch in halohop.LinkNeighborLoader(graph, [10, 5], pairs(graph, epoch), **options):
                src, dst = model(batch.x, batch.edge_index)[batch.edge_label_index]
                loss = F.binary_cross_entropy_with_logits(5 * (src * dst).sum(dim=1), batch.edge_label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: loss {loss.item():.3f}")
        infer(model, graph, InferenceJob(parts=parts, out=Path("vectors"), overwrite=True, world=halohop.World()))
    vectors = torch.from_numpy(np.load("vectors/embeddings.npy"))
    splits = node["y"], node["train_mask"], node["test_mask"]
    print(f"test accuracy: {accuracy(vectors, *splits):.3f}, of the features alone {accuracy(node['x'], *splits):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "parts"), epochs=5)
