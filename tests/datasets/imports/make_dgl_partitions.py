"""Makes ``dgl-VERSION.tar.xz``, partitions as DGL writes them, in an environment that has DGL; the tests read them without it.

python tests/datasets/imports/make_dgl_partitions.py tests/datasets/imports
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
from dgl.data.utils import save_tensors
from dgl.distributed import partition_graph


def homogeneous() -> Any:
    """With parallel edges, loops and a node without edges."""
    torch.manual_seed(1)
    graph = dgl.graph((torch.randint(0, 19, (60,)), torch.randint(0, 19, (60,))), num_nodes=20)
    graph.ndata["feat"] = torch.randn(20, 3)
    graph.ndata["label"] = torch.randint(0, 4, (20,))
    graph.ndata["train_mask"] = torch.arange(20) % 3 == 0
    graph.edata["feat"] = torch.randn(60, 2, 2).half()
    graph.edata["w"] = torch.rand(60, dtype=torch.float64)
    return graph


def heterogeneous() -> Any:
    """With two relations between the same types; DGL fails where a partition has no node or edge of a type."""
    torch.manual_seed(2)
    users, items, shops = 12, 12, 8
    graph = dgl.heterograph(
        {
            ("user", "follows", "user"): (torch.randint(0, users, (25,)), torch.randint(0, users, (25,))),
            ("user", "buys", "item"): (torch.randint(0, users, (30,)), torch.randint(0, items, (30,))),
            ("user", "likes", "item"): (torch.randint(0, users, (20,)), torch.randint(0, items, (20,))),
            ("item", "at", "shop"): (torch.arange(items), torch.arange(items) % shops),
        },
        {"user": users, "item": items, "shop": shops},
    )
    graph.nodes["user"].data["feat"] = torch.randn(users, 4)
    graph.nodes["item"].data["year"] = torch.randint(1990, 2020, (items,), dtype=torch.int32)
    graph.nodes["item"].data["label"] = torch.randint(0, 3, (items,))
    graph.edges["buys"].data["price"] = torch.rand(30)
    return graph


def divided(graph: Any, parts: int, folder: Path, given: dict[str, Any]) -> Any:
    """At random, again and again until each partition has nodes and edges of all types."""
    for seed in range(200):
        dgl.seed(seed)
        try:
            return partition_graph(graph, "graph", parts, str(folder), part_method="random", return_mapping=True, **given)
        except (IndexError, dgl.DGLError):
            shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit("no division has all types in every partition")


def keep_original(folder: Path, graph: Any, node_ids: Any, edge_ids: Any) -> None:
    """The graph from before, and for each new id the old one: what the reader is compared with."""
    arrays = {}
    for node_type in graph.ntypes:
        arrays[f"old/{node_type}"] = (node_ids[node_type] if isinstance(node_ids, dict) else node_ids).numpy()
        for name, column in graph.nodes[node_type].data.items():
            arrays[f"nodes/{node_type}/{name}"] = column.numpy()
    for relation in graph.canonical_etypes:
        key = ":".join(relation)
        arrays[f"old/{key}"] = (edge_ids[relation] if isinstance(edge_ids, dict) else edge_ids).numpy()
        src, dst = graph.edges(etype=relation, order="eid")
        arrays[f"ends/{key}"] = torch.stack([src, dst]).numpy()
        for name, column in graph.edges[relation].data.items():
            arrays[f"edges/{key}/{name}"] = column.numpy()
    np.savez(folder / "original.npz", **arrays)


def keep_ids(folder: Path, config: Any, graph: Any, node_ids: Any, edge_ids: Any) -> None:
    """As DGL's pipeline does with ``--save-orig-nids --save-orig-eids``."""
    begin: dict[str, int] = {}
    for part in range(config["num_parts"]):
        for file, maps, ids in (("orig_nids", "node_map", node_ids), ("orig_eids", "edge_map", edge_ids)):
            kept = {}
            for key, ranges in config[maps].items():
                whole = ids[tuple(key.split(":")) if ":" in key else key] if isinstance(ids, dict) else ids
                first, last = ranges[part]
                start = begin.get(key, 0)
                kept[key], begin[key] = whole[start : start + last - first].clone(), start + last - first
            save_tensors(str(folder / f"part{part}" / f"{file}.dgl"), kept)


def main() -> None:
    out = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="halohop") as scratch:
        for name, graph, parts, formats, ids in (
            ("homogeneous", homogeneous(), 3, None, False),
            ("compressed", homogeneous(), 2, ["csc"], True),
            ("by-source", homogeneous(), 2, ["csr"], False),
            ("one", homogeneous(), 1, ["coo"], False),
            ("typed", heterogeneous(), 3, None, False),
            ("typed-with-ids", heterogeneous(), 3, ["coo"], True),
        ):
            folder = Path(scratch, name)
            given = {} if formats is None else {"graph_formats": formats}
            mapped = divided(graph, parts, folder, given)
            keep_original(folder, graph, *mapped)
            if ids:
                keep_ids(folder, json.loads((folder / "graph.json").read_text()), graph, *mapped)
        shutil.make_archive(str(out / f"dgl-{dgl.__version__}"), "xztar", scratch)


if __name__ == "__main__":
    main()
