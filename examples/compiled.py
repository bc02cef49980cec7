"""A compiled model on padded batches: every batch has the same shapes, so the model is compiled once.

python examples/compiled.py              # traces the model once, and runs torch's own kernels
python examples/compiled.py inductor     # what torch.compile does by default; wants a C++ compiler, or a GPU
"""

import sys
import time

import torch
import torch.nn.functional as F
from torch_geometric.nn.models import GraphSAGE

import halohop
from halohop.datasets import synthetic


def main(backend: str, epochs: int) -> None:
    torch.manual_seed(0)
    halohop.partition(synthetic("tiny"), "parts", num_parts=2, overwrite=True)
    with halohop.open("parts") as graph:
        loader = halohop.NeighborLoader(graph, [10, 5], "train", batch_size=64, shuffle=True, pad="measured")
        model = GraphSAGE(next(iter(loader)).num_features, 64, num_layers=2, out_channels=8)
        compiled = torch.compile(model, backend=backend, dynamic=False)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(epochs):
            start = time.perf_counter()
            for batch in loader:
                hops = {  # the same numbers in every batch, so trimmed layers have one shape, too
                    "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
                    "num_sampled_edges_per_hop": batch.num_sampled_edges,
                }
                out = compiled(batch.x, batch.edge_index, **hops)[: batch.batch_size]
                loss = F.cross_entropy(out, batch.y[: batch.batch_size])  # of empty places y is -100: they do not count
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: loss {loss.item():.3f}, {time.perf_counter() - start:.2f} s")
        print(f"batches that needed more places: {loader.statistics()['batches_over_caps']:.0f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "aot_eager", epochs=5)
