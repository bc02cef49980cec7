"""DGL's `partition_graph` of a folder of ``.npy`` files, to partitions in CSC, which training reads without sorting them first.

python -m benchmarks.contestants.dgl_build FOLDER OUT PARTS METHOD [--balanced]      in DGL's environment; METHOD: random, metis
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch

from benchmarks.work import anonymous_bytes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contestants.dgl_build")
    parser.add_argument("folder", type=Path)
    parser.add_argument("out")
    parser.add_argument("parts", type=int)
    parser.add_argument("method")
    parser.add_argument("--balanced", action="store_true", help="edges and training nodes, too, as halohop does")
    chosen = parser.parse_args()
    base = anonymous_bytes()
    begin, cpu = time.perf_counter(), time.process_time()
    src, dst = (torch.from_numpy(end.astype(np.int64)) for end in np.load(chosen.folder / "edge_index.npy", mmap_mode="r"))
    columns = {file.stem: torch.from_numpy(np.load(file)) for file in chosen.folder.glob("*.npy") if file.stem != "edge_index"}
    graph = dgl.graph((src, dst), num_nodes=len(columns["y"]))
    del src, dst
    for name in list(columns):
        graph.ndata[name] = columns.pop(name)
    read = time.perf_counter() - begin
    balance: dict[str, Any] = {"balance_ntypes": graph.ndata["train_mask"], "balance_edges": True} if chosen.balanced else {}
    options = {"part_method": chosen.method, "graph_formats": "csc", **balance}
    dgl.distributed.partition_graph(graph, "graph", chosen.parts, chosen.out, **options)
    seconds, spent = time.perf_counter() - begin, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "read": read, "cpu": spent, "base": base, "version": dgl.__version__}))


if __name__ == "__main__":
    main()
