"""From which size on sampling beats full batches: ``python -m benchmarks.full_batch SOURCE...``.

The same GraphSAGE of two layers learns both ways, each in a process of its own with one thread, until its validation accuracy is
within a point of the best that 200 full-batch epochs reach, or it has used up its time. Accuracy is that with all neighbours, and
computing it is not timed.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import halohop
from halohop.cluster.graph import in_memory
from halohop.datasets import synthetic
from halohop.datasets.sources import load_source
from halohop.store.tables import GraphTables
from halohop.typing import EDGE, NODE

HIDDEN, FANOUT, BATCH, EPOCHS, EVERY = 64, [10, 5], 512, 200, 5
WITHIN = 0.01

Mean = Callable[[Tensor], Tensor]


class Product(torch.autograd.Function):
    """A sparse matrix by a dense one, with the transpose at hand for the gradient."""

    @staticmethod
    def forward(ctx: Any, there: Tensor, back: Tensor, x: Tensor) -> Tensor:
        ctx.back = back
        return there @ x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:  # type: ignore[override]
        return None, None, ctx.back @ gradient


class Sage(nn.Module):
    """GraphSAGE with mean aggregation, which multiplies before it aggregates."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        widths = [(num_features, HIDDEN), (HIDDEN, num_classes)]
        self.roots = nn.ModuleList(nn.Linear(wide, narrow) for wide, narrow in widths)
        self.others = nn.ModuleList(nn.Linear(wide, narrow, bias=False) for wide, narrow in widths)
        self.norm = nn.LayerNorm(HIDDEN)

    def forward(self, x: Tensor, means: list[Mean]) -> Tensor:
        for root, other, mean, last in zip(self.roots, self.others, means, (False, True), strict=True):
            x = root(x) + mean(other(x))
            x = x if last else F.dropout(self.norm(x).relu(), 0.5, self.training)
        return x


def sampled_mean(edge_index: Tensor, num_nodes: int) -> Mean:
    src, dst = edge_index
    degree = torch.bincount(dst, minlength=num_nodes).clamp(min=1)[:, None]
    return lambda x: x.new_zeros(num_nodes, x.shape[1]).index_add(0, dst, x[src]) / degree


def whole_mean(tables: GraphTables) -> Mean:
    src, dst = tables.edges[EDGE].src.long(), tables.edges[EDGE].dst.long()
    size = (tables.nodes[NODE].num_nodes,) * 2
    share = 1 / torch.bincount(dst, minlength=size[0])[dst].float()
    there = torch.sparse_coo_tensor(torch.stack([dst, src]), share, size, check_invariants=False).to_sparse_csr()
    back = torch.sparse_coo_tensor(torch.stack([src, dst]), share, size, check_invariants=False).to_sparse_csr()
    return lambda x: Product.apply(there, back, x)


def read(source: str) -> GraphTables:
    name, _, nodes = source.partition("@")  # synthetic:@1000000 has the degrees and features of "medium"
    if nodes:
        return synthetic("medium", num_nodes=int(nodes))
    return load_source(name, undirected=True, normalize=name.startswith("pyg:"))


def learn(source: str, way: str, goal: float, seconds: float) -> dict[str, Any]:
    """Validation accuracies by CPU seconds of training, until the goal or the end of the time."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tables = read(source)
    columns = tables.nodes[NODE].columns
    x, y = columns["x"].float(), columns["y"]
    model = Sage(x.shape[1], int(y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(out: Tensor, answer: Tensor) -> None:
        optimizer.zero_grad()
        F.cross_entropy(out, answer).backward()
        optimizer.step()

    def full() -> Iterator[None]:
        mean, train = whole_mean(tables), columns["train_mask"]
        while True:
            for _ in range(EVERY):
                step(model(x, [mean, mean])[train], y[train])
            yield

    def sampled() -> Iterator[None]:
        loader = halohop.NeighborLoader(in_memory(tables), FANOUT, "train", batch_size=BATCH, shuffle=True, num_workers=0)
        while True:
            for batch in loader:
                mean = sampled_mean(batch.edge_index, batch.num_nodes)
                step(model(batch.x, [mean, mean])[: batch.batch_size], batch.y[: batch.batch_size])
            yield

    spent, curve = 0.0, []
    rounds = full() if way == "full" else sampled()
    while spent < seconds and len(curve) < EPOCHS // EVERY:
        begin = time.process_time()
        next(rounds)
        spent += time.process_time() - begin
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        model.eval()
        with torch.no_grad():
            mean = whole_mean(tables)
            right = model(x, [mean, mean]).argmax(dim=1) == y
        model.train()
        curve.append({"seconds": spent, "accuracy": float(right[columns["val_mask"]].double().mean()), "GiB": memory})
        if curve[-1]["accuracy"] >= goal:
            break
    return {"nodes": len(x), "edges": tables.edges[EDGE].num_edges, "features": x.shape[1], "curve": curve}


def apart(source: str, way: str, goal: float, seconds: float) -> dict[str, Any]:
    """`learn` in a process of its own, whose memory is its own, too."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.full_batch",
        source,
        "--way",
        way,
        "--goal",
        str(goal),
        "--seconds",
        str(seconds),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[1])
    found: dict[str, Any] = msgspec.json.decode(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full_batch", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--way", choices=["full", "sampled"])
    parser.add_argument("--goal", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=600.0, help="of CPU time that a way may train")
    chosen = parser.parse_args()
    if chosen.way:
        print(msgspec.json.encode(learn(chosen.sources[0], chosen.way, chosen.goal, chosen.seconds)).decode())
        return
    print("| graph | nodes | edges | features | accuracy | full batch | sampled |\n|---|---:|---:|---:|---:|---:|---:|")
    for source in chosen.sources:
        whole = apart(source, "full", 2.0, chosen.seconds)
        goal = max(point["accuracy"] for point in whole["curve"]) - WITHIN
        drawn = apart(source, "sampled", goal, chosen.seconds)
        ends = []
        for way in (whole, drawn):
            reached = next((point for point in way["curve"] if point["accuracy"] >= goal), None)
            memory = way["curve"][0]["GiB"]
            ends.append(f"{reached['seconds']:.1f} s, {memory:.1f} GiB" if reached else f"not in {chosen.seconds:.0f} s")
        shape = f"{whole['nodes']:,} | {whole['edges']:,} | {whole['features']:,}"
        print(f"| {source.rsplit('/')[-1]} | {shape} | {goal:.3f} | {' | '.join(ends)} |", flush=True)


if __name__ == "__main__":
    main()
