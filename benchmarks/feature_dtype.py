"""What storing features in fewer bytes does to accuracy: ``python -m benchmarks.feature_dtype SOURCE...``.

The same GraphSAGE of two layers learns from the same batches, once from each data set; accuracy is that on the test nodes with
all neighbours, of the features as they are stored.
"""

import argparse
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F

import halohop
from benchmarks.full_batch import Sage, read, sampled_mean, whole_mean
from halohop.cluster.holding import Holding
from halohop.store.tables import GraphTables, is_dense
from halohop.typing import NODE

FANOUT, BATCH = [10, 5], 512


def accuracy(graph: halohop.Graph, tables: GraphTables, *, seed: int, epochs: int) -> float:
    """Of the test nodes, after some epochs."""
    torch.manual_seed(seed)
    columns = tables.nodes[NODE].columns
    x, y = graph.rows("x", torch.arange(tables.nodes[NODE].num_nodes)), columns["y"]
    model = Sage(x.shape[1], int(y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = halohop.NeighborLoader(graph, FANOUT, "train", batch_size=BATCH, shuffle=True, seed=seed, num_workers=1)
    for _ in range(epochs):
        for batch in loader:
            mean = sampled_mean(batch.edge_index, batch.num_nodes)
            optimizer.zero_grad()
            F.cross_entropy(model(batch.x, [mean, mean])[: batch.batch_size], batch.y[: batch.batch_size]).backward()
            optimizer.step()
    model.eval()
    mean = whole_mean(tables)
    with torch.no_grad():
        right = model(x, [mean, mean]).argmax(dim=1) == y
    return float(right[columns["test_mask"]].double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.feature_dtype", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    print("| graph | stored as | features, MB | test accuracy, mean (spread) | largest change |\n|---|---|---:|---:|---:|")
    for source in chosen.sources:
        tables = read(source)
        nodes = tables.nodes[NODE]
        x = nodes.columns["x"] if is_dense(nodes.columns["x"]) else nodes.columns["x"].to_dense()
        tables = replace(tables, nodes={NODE: replace(nodes, columns=nodes.columns | {"x": x.float()})})
        for dtype in (None, "float16", "bfloat16", "int8"):
            with tempfile.TemporaryDirectory() as folder:
                halohop.partition(tables, f"{folder}/parts", num_parts=1, method="random", feature_dtype=dtype)
                stored = Holding.of(Path(folder, "parts")).parts[0].nodes[NODE].columns["x"].nbytes
                with halohop.open(f"{folder}/parts") as graph:
                    changed = float((graph.rows("x", torch.arange(len(x))) - x).abs().max())
                    found = [accuracy(graph, tables, seed=seed, epochs=chosen.epochs) for seed in range(chosen.seeds)]
            spread = f"{100 * statistics.mean(found):.1f} % ({100 * (max(found) - min(found)):.1f})"
            name = source.partition("?")[0].rsplit("/")[-1]
            print(f"| {name} | {dtype or 'float32'} | {stored / 1e6:.1f} | {spread} | {changed:.2g} |", flush=True)


if __name__ == "__main__":
    main()
