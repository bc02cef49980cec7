"""node2vec: vectors that tell which nodes random walks see together, without a single feature. They lie with the partitions.

python examples/node2vec.py
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import halohop
from halohop.datasets import synthetic


def pairs_of(walks: Tensor, window: int) -> Tensor:
    """A node and each of those after it in the same window, int64 ``[2, n]``."""
    windows = walks.unfold(1, window, 1).reshape(-1, window)
    return torch.stack([windows[:, :1].expand(-1, window - 1), windows[:, 1:]]).reshape(2, -1)


def accuracy(embeddings: Tensor, y: Tensor, train: Tensor, test: Tensor) -> float:
    """Of logistic regression on frozen embeddings."""
    head = torch.nn.Linear(embeddings.size(1), int(y.max()) + 1)
    optimizer = torch.optim.LBFGS(head.parameters(), max_iter=100)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(head(embeddings[train]), y[train]) + 1e-3 * head.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return float((head(embeddings[test]).argmax(dim=1) == y[test]).float().mean())


def main(parts: Path, epochs: int) -> None:
    tables = synthetic("tiny")
    if not parts.exists():
        halohop.partition(tables, parts, num_parts=2)
    torch.manual_seed(0)
    columns, num_nodes = tables.nodes["node"].columns, tables.nodes["node"].num_nodes
    with halohop.open(parts) as graph:
        embedding = halohop.DistEmbedding(graph, num_nodes, 64, init=halohop.init.normal(0, 0.1), node_type="node")
        optimizer = halohop.optim.SparseAdam([embedding], lr=0.03)
        for epoch in range(epochs):
            for batch, starts in enumerate(torch.randperm(num_nodes).split(256)):
                walks = halohop.random_walk(graph, starts.repeat(2), 10, p=2.0, q=0.5, epoch=epoch, batch=batch)
                pairs = pairs_of(walks, window=5)
                negatives = torch.stack([pairs[0], torch.randint(num_nodes, pairs[0].shape)])
                nodes, places = torch.cat([pairs, negatives], dim=1).unique(return_inverse=True)
                src, dst = embedding(nodes)[places]
                label = (torch.arange(len(src)) < pairs.size(1)).float()
                loss = F.binary_cross_entropy_with_logits((src * dst).sum(dim=1), label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: loss {loss.item():.3f}")
        vectors = embedding.weight[torch.arange(num_nodes)]
    right = accuracy(vectors, columns["y"], columns["train_mask"], columns["test_mask"])
    print(f"accuracy on the test split: {right:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "parts"), epochs=5)
