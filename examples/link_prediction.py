"""Predicting edges: negatives that are none of the graph's edges, and no edge that is both asked for and shown.

python examples/link_prediction.py
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.nn.models import GraphSAGE

import halohop
from halohop.datasets import synthetic


def main(parts: Path, epochs: int) -> None:
    if not parts.exists():
        halohop.partition(synthetic("tiny"), parts, num_parts=2)
    torch.manual_seed(0)
    with halohop.open(parts) as graph:
        loader = halohop.LinkNeighborLoader(
            graph,
            [10, 5],
            neg_sampling="binary",
            strict_negatives=True,
            exclude_seed_edges=True,
            batch_size=512,
            shuffle=True,
        )
        model = GraphSAGE(next(iter(loader)).num_features, 64, num_layers=2, out_channels=32)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(epochs):
            for batch in loader:
                src, dst = model(batch.x, batch.edge_index)[batch.edge_label_index]
                loss = F.binary_cross_entropy_with_logits((src * dst).sum(dim=1), batch.edge_label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "parts"), epochs=5)
