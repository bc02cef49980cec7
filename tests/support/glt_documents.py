"""The folders and commands of GLT's documents: a clone with examples/glt, and ogbn-products' partitions beside it."""

import re
import shutil
import sys
from pathlib import Path

import torch

import halohop
from halohop.datasets import synthetic
from halohop.store.tables import GraphTables, NodeTable
from halohop.typing import NODE

EXAMPLES = Path(__file__).parents[2] / "examples" / "glt"
RESULTS = "dist_sage_sup.txt"
_LINE = r"-- \[Trainer (\d+)\] Epoch: (\d{3}), (Loss|Test Accuracy): (\d+\.\d{4})(, Epoch Time: \d+\.\d\d)?"


def easy(num_nodes: int) -> GraphTables:
    """A graph as wide as ogbn-products, whose test nodes any GraphSAGE classifies well."""
    how = {"num_features": 100, "num_classes": 8, "homophily": 0.85, "noise": 0.6, "label_noise": 0.0}
    return synthetic(None, num_nodes=num_nodes, avg_degree=12, **how)


def write_products(root: Path, made: GraphTables) -> None:
    """``root/ogbn-products``, as `partition_ogbn_dataset.py` leaves it for two partitions."""
    folder, table = root / "ogbn-products", made.nodes[NODE]
    columns = {"x": table.columns["x"]}
    bare = GraphTables(nodes={NODE: NodeTable(num_nodes=table.num_nodes, columns=columns)}, edges=made.edges)
    halohop.partition(bare, folder / "ogbn-products-partitions", num_parts=2, method="random", edge_dir="out")
    (folder / "ogbn-products-label").mkdir()
    torch.save(table.columns["y"], folder / "ogbn-products-label" / "label.pt")
    for name in ("train", "test"):
        ids = table.columns[f"{name}_mask"].nonzero().view(-1)
        own = folder / f"ogbn-products-{name}-partitions"
        own.mkdir()
        for part, some in enumerate(ids.split(len(ids) // 2)[:2]):
            torch.save(some.clone(), own / f"partition{part}.pt")


def clone(folder: Path) -> Path:
    """A copy of the examples, from which ``../../../data`` is `folder` / "data"; returns their folder."""
    shutil.copytree(EXAMPLES, folder / "halohop" / "examples" / "glt", ignore=shutil.ignore_patterns("__pycache__", "*.txt"))
    return folder / "halohop" / "examples" / "glt"


def command(script: str, **options: object) -> list[str]:
    """A command line as the documents have it."""
    return [sys.executable, script, *(f"--{name}={value}" for name, value in options.items())]


def results(file: Path) -> tuple[dict[int, list[float]], dict[int, float]]:
    """By trainer, the losses of all epochs, and the last test accuracy; every line must be whole."""
    losses: dict[int, list[float]] = {}
    accuracy = {}
    for line in file.read_text().splitlines():
        found = re.fullmatch(
            r"-- \[Trainer (\d+)\] Epoch: (\d{3}), (Loss|Test Accuracy): (\d+\.\d{4})(, Epoch Time: \d+\.\d\d)?", line
        )
        assert found, line
        rank, epoch, what, value = int(found[1]), int(found[2]), found[3], float(found[4])
        if what == "Loss":
            assert len(losses.setdefault(rank, [])) == epoch
            losses[rank].append(value)
        else:
            accuracy[rank] = value
    return losses, accuracy
