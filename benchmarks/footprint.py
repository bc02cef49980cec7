"""What a training run weighs in memory, beside full-batch training in PyG: ``python -m benchmarks.footprint``.

Memory is the proportional set size (PSS) of all processes of a run together, the launcher included: a page that two of them share
counts half for each. It is sampled ten times a second, and the highest sum counts. Pages of files are told apart: the kernel
takes these back when it needs them.

    python -m benchmarks.footprint make physics physics.pt            a graph of Coauthor Physics' shape
    python -m benchmarks.footprint full-batch physics.pt --adjacency sparse
    python -m benchmarks.footprint peak -- halohop train parts --nodes 2 --epochs 3
    python -m benchmarks.footprint compare physics.pt --nodes 2       all of it, and the ratio
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

import halohop
from halohop.datasets.synthetic import synthetic
from halohop.typing import EDGE, NODE

HIDDEN = 64
_BETWEEN_S = 0.1
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A graph to make: directed edges, and features of which each node has `words` that are one (None: all are random)."""

    num_nodes: int
    num_edges: int
    num_classes: int
    num_features: int
    words: int | None


SHAPES = {
    "physics": Shape(num_nodes=34_493, num_edges=495_924, num_classes=5, num_features=8_415, words=33),
    "facebook": Shape(num_nodes=22_470, num_edges=342_004, num_classes=4, num_features=128, words=None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The highest sums over all processes, in MiB, and how many processes there were then."""

    pss: float = 0
    without_files: float = 0
    processes: int = 0
    seconds: float = 0


def make(shape: Shape, out: Path) -> None:
    """Writes a graph as a PyG `Data`; its features are sparse, without `words` dense."""
    graph = synthetic(
        None,
        num_nodes=shape.num_nodes,
        avg_degree=shape.num_edges / shape.num_nodes,
        num_classes=shape.num_classes,
        num_features=shape.num_features if shape.words is None else 1,
        homophily=0.8,
    )
    columns, edges = graph.nodes[NODE].columns, graph.edges[EDGE]
    labels = columns["y"].numpy()
    order = np.lexsort((edges.dst.numpy(), edges.src.numpy()))
    ends = torch.stack([edges.src, edges.dst])[:, torch.from_numpy(order)]
    x = columns["x"] if shape.words is None else _words(labels, shape, shape.words)
    torch.save(Data(x=x, y=columns["y"], edge_index=ends), out)


def _words(labels: np.ndarray, shape: Shape, words: int) -> Tensor:
    """About `words` different words per node, half of them from the vocabulary of its class."""
    rng = np.random.default_rng(0)
    own = shape.num_features // shape.num_classes
    drawn = rng.integers(shape.num_features, size=(shape.num_nodes, words))
    topical = rng.random(drawn.shape) < 0.5
    drawn[topical] = (labels[:, None] * own + rng.integers(own, size=drawn.shape))[topical]
    keys = np.unique(np.arange(shape.num_nodes)[:, None] * shape.num_features + drawn)
    row, column = np.divmod(keys, shape.num_features)
    places = torch.from_numpy(np.stack([row, column]))
    return torch.sparse_coo_tensor(places, torch.ones(len(row)), (shape.num_nodes, shape.num_features), check_invariants=False)


class _SAGE(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = SAGEConv(width, HIDDEN), SAGEConv(HIDDEN, classes)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        hidden = F.dropout(self.first(x, edges).relu(), 0.5, self.training)
        return self.second(hidden, edges)  # type: ignore[no-any-return]


def full_batch(file: Path, adjacency: str, epochs: int) -> float:
    """Trains PyG's GraphSAGE of two layers on the whole graph at once, features dense; returns the test accuracy.

    Args:
        adjacency: "edges" (`edge_index`: a row per edge is made) or "sparse" (a CSR matrix, which PyG multiplies with).
    """
    tables = halohop.load_source(file)
    columns, table = tables.nodes[NODE].columns, tables.edges[EDGE]
    x, y = columns["x"].to_dense(), columns["y"]
    edges = torch.stack([table.src.long(), table.dst.long()])
    if adjacency == "sparse":
        values = torch.ones(edges.shape[1])
        edges = torch.sparse_coo_tensor(edges.flip(0), values, (len(y), len(y))).coalesce().to_sparse_csr()
    del tables, table
    model = _SAGE(x.shape[1], int(y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(x, edges)[columns["train_mask"]], y[columns["train_mask"]]).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        found = model(x, edges).argmax(dim=1)
    return float((found == y)[columns["test_mask"]].float().mean())


def peak_of(command: list[str]) -> Peak:
    """Runs a command to its end and measures what it and all that it starts hold at most.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    begin, peak, pause = time.monotonic(), Peak(), threading.Event()
    process = subprocess.Popen(command)
    while process.poll() is None:
        sums = [held for pid in _family(process.pid) if (held := _held(pid))]
        now = Peak(pss=sum(pss for pss, _ in sums), without_files=sum(own for _, own in sums), processes=len(sums))
        peak = Peak(
            pss=max(peak.pss, now.pss),
            without_files=max(peak.without_files, now.without_files),
            processes=max(peak.processes, now.processes),
        )
        pause.wait(_BETWEEN_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Peak(**asdict(peak) | {"seconds": time.monotonic() - begin})


def _family(pid: int) -> list[int]:
    """A process and all that it and its own have started."""
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        for listing in Path(f"/proc/{found[-1]}/task").glob("*/children"):
            try:
                waiting += map(int, listing.read_text().split())
            except OSError:  # it has ended
                continue
    return found


def _held(pid: int) -> tuple[float, float] | None:
    """PSS, and PSS without pages of files, in MiB; None of a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return None
    sizes = {name: int(value.split()[0]) * 1024 / _MIB for name, _, value in (line.partition(":") for line in lines)}
    return sizes["Pss"], sizes["Pss_Anon"] + sizes["Pss_Shmem"]


def compare(file: Path, *, nodes: int, epochs: int, adjacency: str) -> dict[str, dict[str, float]]:
    """The peaks of a run with all defaults and of PyG's full batch, on the same file."""
    with tempfile.TemporaryDirectory(prefix="halohop-footprint-") as folder:
        halohop = [sys.executable, "-m", "halohop"]
        subprocess.run(
            [*halohop, "partition", str(file), f"{folder}/parts", "--parts", "2"], check=True, stdout=subprocess.DEVNULL
        )
        training = [
            *halohop,
            "train",
            f"{folder}/parts",
            "--nodes",
            str(nodes),
            "--epochs",
            str(epochs),
            "--out",
            f"{folder}/run",
        ]
        peer = [sys.executable, "-m", "benchmarks.footprint", "full-batch", str(file), "--adjacency", adjacency]
        ours, theirs = peak_of(training), peak_of([*peer, "--epochs", str(epochs)])
        size = sum(part.stat().st_size for part in Path(folder, "parts").rglob("*") if part.is_file())
    ratios = {name: getattr(ours, name) / getattr(theirs, name) for name in ("pss", "without_files")}
    return {"halohop": asdict(ours), "pyg": asdict(theirs), "ratio": ratios, "disk": {"mib": size / _MIB}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.footprint", description="What a run weighs in memory.")
    what = parser.add_subparsers(dest="what", required=True)
    making = what.add_parser("make")
    making.add_argument("shape", choices=SHAPES)
    making.add_argument("file", type=Path)
    training = what.add_parser("full-batch")
    measuring = what.add_parser("compare")
    for command in (training, measuring):
        command.add_argument("file", type=Path)
        command.add_argument("--adjacency", choices=("edges", "sparse"), default="sparse")
        command.add_argument("--epochs", type=int, default=3)
    measuring.add_argument("--nodes", type=int, default=2)
    watching = what.add_parser("peak")
    watching.add_argument("command", nargs=argparse.REMAINDER)
    chosen = parser.parse_args()
    match chosen.what:
        case "make":
            make(SHAPES[chosen.shape], chosen.file)
        case "full-batch":
            print(f"test accuracy {full_batch(chosen.file, chosen.adjacency, chosen.epochs):.4f}")
        case "peak":
            print(json.dumps(asdict(peak_of([word for word in chosen.command if word != "--"]))))
        case "compare":
            found = compare(chosen.file, nodes=chosen.nodes, epochs=chosen.epochs, adjacency=chosen.adjacency)
            print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
