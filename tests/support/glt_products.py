"""ogbn-products' shape as the examples of `halohop.glt` want it on disk."""

from pathlib import Path

import torch

import halohop
from halohop.datasets import ogb_node
from halohop.typing import NODE
from tests.support.ogb_files import write_ogb


def write_partitions(root: Path, *, num_parts: int = 2, edge_dir: str = "out") -> Path:
    """Writes OGB's files, and from them partitions, labels and the seeds of each partition. Returns the folder of all this."""
    write_ogb(root / "ogb")
    tables = ogb_node(root / "ogb", "ogbn-products")
    folder, name = root / "ogbn-products", "ogbn-products"
    columns = dict(tables.nodes[NODE].columns)
    labels = columns.pop("y")
    masks = {split: columns.pop(f"{split}_mask") for split in ("train", "val", "test")}
    tables.nodes[NODE] = type(tables.nodes[NODE])(num_nodes=tables.nodes[NODE].num_nodes, columns=columns)
    halohop.partition(tables, folder / f"{name}-partitions", num_parts=num_parts, method="random", edge_dir=edge_dir)
    stored = halohop.describe(folder / f"{name}-partitions")
    (folder / f"{name}-label").mkdir()
    torch.save(labels, folder / f"{name}-label" / "label.pt")
    for split, mask in masks.items():
        (here := folder / f"{name}-{split}-partitions").mkdir()
        for part in range(num_parts):
            nodes = stored.nodes(part)
            torch.save(nodes[mask[nodes]], here / f"partition{part}.pt")
    return folder
