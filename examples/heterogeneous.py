"""Nodes and edges of several types: HGT (Hu et al., 2020), as PyG has it, on papers, authors, institutions and fields.

python examples/heterogeneous.py
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import HGTConv

import halohop
from halohop.datasets import synthetic_hetero
from halohop.store.schema import Schema


class HGT(nn.Module):
    """Features are projected to one width; a node without features learns a vector, found by its id."""

    def __init__(self, schema: Schema, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.inputs = nn.ModuleDict(
            {
                name: nn.Linear(spec.columns["x"].shape[0], hidden) if "x" in spec.columns else nn.Embedding(spec.count, hidden)
                for name, spec in schema.nodes.items()
            }
        )
        metadata = (list(schema.nodes), list(schema.edges))
        self.convs = nn.ModuleList(HGTConv(hidden, hidden, metadata, heads=4) for _ in range(2))
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, batch: object) -> Tensor:
        x = {name: module(batch[name].x if "x" in batch[name] else batch[name].n_id) for name, module in self.inputs.items()}
        for conv in self.convs:
            x = {name: rows.relu() for name, rows in conv(x, batch.edge_index_dict).items()}
        return self.head(x["paper"][: batch["paper"].batch_size])


def main(parts: Path, epochs: int) -> None:
    if not parts.exists():
        halohop.partition(synthetic_hetero(1_000), parts, num_parts=2)
    torch.manual_seed(0)
    with halohop.open(parts) as graph:
        fanout = {relation: [8, 4] for relation in graph.schema.edges}
        train, test = (
            halohop.NeighborLoader(graph, fanout, ("paper", split), batch_size=128, shuffle=split == "train")
            for split in ("train", "test")
        )
        classes = 1 + max(int(batch["paper"].y.max()) for batch in train)
        model = HGT(graph.schema, 64, classes)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
        for epoch in range(epochs):
            for batch in train:
                loss = F.cross_entropy(model(batch), batch["paper"].y[: batch["paper"].batch_size])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: loss {loss.item():.3f}")
        with torch.no_grad():
            right = [model(batch).argmax(dim=1) == batch["paper"].y[: batch["paper"].batch_size] for batch in test]
        print(f"test accuracy: {torch.cat(right).float().mean().item():.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "parts"), epochs=5)
