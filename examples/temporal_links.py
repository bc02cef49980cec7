"""Who writes to whom next: edges with times, each predicted from what came before it and from nothing else.

python examples/temporal_links.py CollegeMsg.txt      # of snap.stanford.edu/data/CollegeMsg.html; made-up messages without it
"""

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn.models import GraphSAGE

import halohop
from halohop.datasets import time_masks
from halohop.recipes.ranking import auc, average_precision
from halohop.testing.leaks import assert_no_future


def make_up(path: Path) -> Path:
    """Messages among 100 people who mostly write to the next three."""
    dice = random.Random(0)
    writers = [dice.randrange(100) for _ in range(3_000)]
    path.write_text("".join(f"{who} {(who + dice.randrange(1, 4)) % 100} {time}\n" for time, who in enumerate(writers)))
    return path


def read(path: Path) -> tuple[Tensor, Tensor]:
    """The ends ``[2, n]`` and times ``[n]`` of edges in lines "source destination time"."""
    src, dst, time = torch.from_numpy(np.loadtxt(path, dtype=np.int64)).T.contiguous()
    return torch.stack([src, dst]), time


class Model(nn.Module):
    """A vector for each person, mixed with those of the people they had to do with until then."""

    def __init__(self, num_nodes: int, hidden: int) -> None:
        super().__init__()
        self.vector = nn.Embedding(num_nodes, hidden)
        self.encoder = GraphSAGE(hidden, hidden, num_layers=2)

    def forward(self, batch: Any) -> Tensor:
        """Scores of the batch's pairs."""
        src, dst = self.encoder(self.vector(batch.n_id), batch.edge_index)[batch.edge_label_index]
        return (src * dst).sum(dim=1)


def main(path: Path, epochs: int) -> None:
    # All edges are in the graph, and the reverse of each, so that everyone's messages are seen from both ends.
    edge_index, time = read(path)
    both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    data = Data(edge_index=both, time=time.repeat(2), num_nodes=int(both.max()) + 1)
    halohop.partition(data, "parts", num_parts=2, method="random", overwrite=True)
    torch.manual_seed(0)
    with halohop.open("parts") as graph:
        loaders = {}
        for name, mask in time_masks(time).items():
            loaders[name] = halohop.LinkNeighborLoader(
                graph,
                [10, 5],
                edge_index[:, mask],
                edge_label_time=time[mask] - 1,  # an edge may see what was before it, and not itself
                time_attr="time",
                temporal_strategy="last",
                neg_sampling="binary",
                batch_size=256,
                shuffle=name == "train_mask",
            )
        model = Model(int(edge_index.max()) + 1, 64)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
        for epoch in range(epochs):
            for batch in loaders["train_mask"]:
                loss = F.binary_cross_entropy_with_logits(model(batch), batch.edge_label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: loss {loss.item():.3f}")
        scores, labels = [], []
        for batch in loaders["test_mask"]:
            # What would make the numbers below worthless; each pair has a subgraph of its own, with a time of its own.
            assert_no_future(batch.time, batch.batch[batch.edge_index[1]], batch.edge_label_time)
            with torch.no_grad():
                scores.append(model(batch))
            labels.append(batch.edge_label)
        score, label = torch.cat(scores), torch.cat(labels)
        print(f"test AUC {auc(score, label):.3f}, average precision {average_precision(score, label):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else make_up(Path("messages.txt")), epochs=5)
