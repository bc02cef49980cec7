"""Files of small graphs in each form that halohop reads, written by the standard library, NumPy and torch."""

import gzip
import json
import pickle
import tarfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from tests.golden.graphs import floats, numbers, plain, typed

DGL_ARCHIVES = Path(__file__).parents[1] / "datasets" / "imports"
"""Partitions that DGL has written, as archives ``dgl-VERSION.tar.xz``."""

TOML = """
[nodes.user]
file = "users.{suffix}"
id = "user"
features = ["age", "height"]
label = "team"
split = "fold"
columns = ["score"]

[edges.user__follows__user]
file = "follows/*.{suffix}"
src = "who"
dst = "whom"
time = "since"
undirected = true

[edges.user__buys__item]
file = "buys.{suffix}"
src = "user"
dst = "item"
weight = "price"
undirected = true
"""
"""No table of items: their ids come from the edges."""

USERS = 40


def table_rows() -> dict[str, dict[str, list[Any]]]:
    """By file and column: text ids, labels, splits, dates, prices; some labels are missing."""
    teams, folds = ("red", "blue", None), ("train", "val", "test")
    score, age, height = (numbers(8, USERS, key=800 + at).tolist() for at in range(3))
    users = {
        "user": [f"u{number:03d}" for number in range(USERS)],
        "age": [value / 4 for value in age],
        "height": [1 + value / 8 for value in height],
        "team": [teams[value % 3] for value in age],
        "fold": [folds[value % 3] for value in height],
        "score": score,
    }
    who, whom, since = (numbers(high, 60, key=810 + at).tolist() for at, high in enumerate((USERS, USERS, 28)))
    buyer, item, price = (numbers(high, 50, key=820 + at).tolist() for at, high in enumerate((USERS, 9, 40)))
    follows = {
        "who": [users["user"][row] for row in who],
        "whom": [users["user"][row] for row in whom],
        "since": [f"2021-02-{day + 1:02d}" for day in since],
    }
    buys = {
        "user": [users["user"][row] for row in buyer],
        "item": [f"item {row}" for row in item],
        "price": [value / 8 for value in price],
    }
    halves = [{name: column[part] for name, column in follows.items()} for part in (slice(25), slice(25, None))]
    return {"users": users, "follows/a": halves[0], "follows/b": halves[1], "buys": buys}


def write_tables(folder: Path, suffix: str) -> Path:
    """A ``graph.toml`` with files ``.csv``, ``.tsv`` or ``.parquet``."""
    for name, columns in table_rows().items():
        file = folder / f"{name}.{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        if suffix == "parquet":
            import pyarrow
            import pyarrow.parquet

            dates = {"since": [date.fromisoformat(day) for day in columns["since"]]} if "since" in columns else {}
            pyarrow.parquet.write_table(pyarrow.table(columns | dates), file)
        else:
            rows = zip(*columns.values(), strict=True)
            lines = [columns, *(["" if field is None else str(field) for field in row] for row in rows)]
            file.write_text("".join(("\t" if suffix == "tsv" else ",").join(line) + "\n" for line in lines))
    (folder / "graph.toml").write_text(TOML.replace("{suffix}", suffix))
    return folder


def write_arrays(folder: Path) -> Path:
    """Arrays of one node type, with text ids and labels."""
    folder.mkdir(parents=True)
    labels = np.array(["red", "blue", ""])[numbers(3, 50, key=830).numpy()]
    arrays = {
        "edge_index": numbers(50, 2, 200, key=831).numpy(),
        "edge_weight": (floats(200, key=832) + 4).numpy(),
        "x": floats(50, 4, key=833).numpy(),
        "y": labels,
        "raw_id": np.array([f"node {row}" for row in range(50)]),
        "train_mask": numbers(2, 50, key=834).numpy() > 0,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def write_typed_arrays(folder: Path) -> Path:
    data = typed()
    for kind in ("paper", "author"):
        (folder / "nodes" / kind).mkdir(parents=True)
        np.save(folder / "nodes" / kind / "x.npy", data[kind].x.float().numpy())
        np.save(folder / "nodes" / kind / "when.npy", data[kind].when.numpy())
    for relation in data.edge_types:
        room = folder / "edges" / "__".join(relation)
        room.mkdir(parents=True)
        np.save(room / "edge_index.npy", data[relation].edge_index.numpy())
        np.save(room / "weight.npy", data[relation].weight.numpy())
    return folder


def write_pt(file: Path, data: Data | HeteroData) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(data, file)
    return file


def write_gzipped(folder: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        target = folder / f"{path}.csv.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(text.encode()))
    return folder


def _text(tensor: Tensor) -> str:
    rows = tensor.view(len(tensor), -1).tolist()
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def write_ogb(root: Path, name: str) -> Path:
    """ogbn-products' layout of text, or ogbn-papers100M's of arrays."""
    data, folder = plain(), root / name
    split = {"train": numbers(90, 30, key=840).unique(), "valid": torch.arange(5), "test": torch.arange(5, 9)}
    write_gzipped(folder, {f"split/time/{part}": _text(ids) for part, ids in split.items()})
    if "papers" in name:
        (folder / "raw").mkdir()
        arrays = {"edge_index": data.edge_index, "node_feat": data.x, "node_year": 2000 + data.part.view(-1, 1)}
        counts = {"num_nodes_list": np.array([90]), "num_edges_list": np.array([500])}
        np.savez_compressed(folder / "raw/data.npz", **{key: value.numpy() for key, value in arrays.items()}, **counts)
        np.savez_compressed(folder / "raw/node-label.npz", node_label=(data.y % 7).float().view(-1, 1).numpy())
        return folder
    files = {"edge": _text(data.edge_index.t()), "node-feat": _text(data.x), "node-label": _text(data.y % 7)}
    counts = {"num-node-list": "90\n", "num-edge-list": "500\n"}
    return write_gzipped(folder, {f"raw/{name}": text for name, text in (files | counts).items()})


def write_mag(root: Path) -> Path:
    """ogbn-mag's layout of several types."""
    data, ids = typed(), torch.arange(80)
    files = {
        "raw/num-node-dict": "paper,author\n80,30\n",
        "raw/triplet-type-list": "paper,cites,paper\nauthor,writes,paper\n",
        "raw/nodetype-has-feat": "paper,author\nTrue,False\n",
        "raw/nodetype-has-label": "paper,author\nTrue,False\n",
        "raw/node-feat/paper/node-feat": _text(data["paper"].x),
        "raw/node-feat/paper/node_year": _text(2000 + data["paper"].when),
        "raw/node-label/paper/node-label": _text(data["paper"].y),
        "split/time/nodetype-has-split": "paper,author\nTrue,False\n",
    }
    for relation in data.edge_types[:2]:
        room = f"raw/relations/{'___'.join(relation)}"
        files |= {f"{room}/edge": _text(data[relation].edge_index.t()), f"{room}/num-edge-list": "300\n"}
    files |= {f"split/time/paper/{part}": _text(ids[at::3]) for at, part in enumerate(("train", "valid", "test"))}
    return write_gzipped(root / "ogbn_mag", files)


def unpack_dgl(folder: Path, version: str, name: str) -> str:
    """The source of partitions that DGL has written."""
    with tarfile.open(DGL_ARCHIVES / f"dgl-{version}.tar.xz") as archive:
        members = [member for member in archive.getmembers() if member.name.removeprefix("./").split("/")[0] == name]
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(folder, members, **safely)
    return f"dgl:{folder}/{name}/graph.json"


def write_glt(folder: Path) -> str:
    """The source of two partitions as GLT's partitioners write them, of one node type."""
    data, owner = plain(), numbers(2, 90, key=850)
    of_edges = owner[data.edge_index[0]]
    meta = {"num_parts": 2, "data_cls": "homo", "node_types": None, "edge_types": None}
    folder.mkdir(parents=True)
    (folder / "META").write_bytes(pickle.dumps(meta))
    tensors = {"node_pb": owner, "edge_pb": of_edges, "label": data.y % 7}
    for part in range(2):
        ids, edges = (owner == part).nonzero().view(-1), (of_edges == part).nonzero().view(-1)
        src, dst = data.edge_index[:, edges]
        tensors |= {f"part{part}/node_feat/{name}": rows for name, rows in (("ids", ids), ("feats", data.x[ids]))}
        graph = {"rows": src, "cols": dst, "eids": edges, "weights": data.weight[edges]}
        tensors |= {f"part{part}/graph/{name}": rows for name, rows in graph.items()}
    for name, tensor in tensors.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        torch.save(tensor, folder / f"{name}.pt")
    return f"glt:{folder}?y={folder}/label.pt"


def write_json(folder: Path) -> Path:
    """`write_tables`, described in JSON."""
    import tomllib

    write_tables(folder, "csv")
    (folder / "graph.json").write_text(json.dumps(tomllib.loads((folder / "graph.toml").read_text())))
    (folder / "graph.toml").unlink()
    return folder / "graph.json"
