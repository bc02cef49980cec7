"""The divisions of a graph once more as DGL's distributed training reads them: the same nodes in the same partitions.

python -m benchmarks.dgl_parts .bench/graphs/products parts-2-metis       in DGL's environment
.bench/graphs/products/parts-2-metis-dgl/{graph.json,part0/,part1/,new_id.npy}
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch

from benchmarks.contestants.dgl_sampling import build
from benchmarks.work import column


def divide(folder: Path, division: str) -> None:
    """Divides the graph in `folder` as its folder `division` is; `new_id` tells where DGL has put each of our nodes."""
    parts = sorted((folder / division).glob("part-*"))
    graph = build(str(folder), "int64", formats=("coo", "csc"))
    graph.ndata["x"], graph.ndata["y"] = (torch.from_numpy(column(str(folder), name)) for name in ("x", "y"))
    assignment = torch.zeros(graph.num_nodes(), dtype=torch.int64)
    for number, part in enumerate(parts[1:], 1):
        assignment[torch.from_numpy(np.load(part / "nodes/node/raw_id.npy")).long()] = number

    def ours(*_: Any, **__: Any) -> torch.Tensor:
        return assignment

    dgl.distributed.partition.metis_partition_assignment = ours  # it takes no assignment, only the names of its own methods
    unfinished = folder / f"{division}-dgl.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    old_id, _ = dgl.distributed.partition_graph(graph, "graph", len(parts), str(unfinished), return_mapping=True)
    new_id = torch.empty_like(old_id)
    new_id[old_id] = torch.arange(len(old_id))
    np.save(unfinished / "new_id.npy", new_id.numpy())
    unfinished.rename(folder / f"{division}-dgl")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dgl_parts", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("division")
    divide(**vars(parser.parse_args()))
