"""What the files of `stored_files` say: lists of files, headers of arrays, manifests, values that the public API reads.

Files that are written today must say the same. Left out are times, random names and their checksums, and weights: these are
results of products.
"""

import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

import halohop
from tests.golden.parts import stored_files as files


def make() -> dict[str, Any]:
    with files.quiet_folder():
        files.build_graphs()
        files.build_runs()
        return described(Path())


def described(folder: Path) -> dict[str, Any]:
    """A case for each folder of files, and for the values of each graph."""
    found: dict[str, Any] = {}
    others = [name for run in files.RUNS for name in (run, f"{run}_predictions")]
    for name in [*files.FOLDERS, *others, "tables"]:
        paths = [path for path in sorted((folder / name).rglob("*")) if path.is_file() and path.suffix != ".html"]
        cases = {_neutral(str(path.relative_to(folder))): _said(path, exact=name in files.FOLDERS) for path in paths}
        found |= {f"file {path}": text for path, text in cases.items()}
    for name in files.FOLDERS:
        found |= {f"values {name} {column}": value for column, value in values_of(folder / name).items()}
    return found | {f"tables {name}": value for name, value in tables_of(folder).items()}


def _neutral(name: str) -> str:
    return re.sub(r"(step-\d+|vectors)-[0-9a-f]{8}", r"\1-{random}", name)


def _said(path: Path, *, exact: bool) -> Any:
    if path.suffix == ".npy":
        array = np.load(path, allow_pickle=False)
        return f"{array.dtype.str}{list(array.shape)}" + (f" {_hash(array)}" if exact else "")
    if path.name == "manifest.json":
        manifest = json.loads(path.read_text())
        del manifest["checksum"]
        return manifest
    if path.name == "tables.json":
        return [_shape(json.loads(line)) for line in path.read_text().splitlines()[:1]]
    if path.suffix == ".jsonl":
        return [f"{event.pop('event')}: {', '.join(sorted(event))}" for event in map(json.loads, path.read_text().splitlines())]
    if path.suffix == ".pt":
        sealed = halohop.files.read_sealed(path)
        return _shape(torch.load(io.BytesIO(sealed), weights_only=True))
    return f"{path.stat().st_size} bytes"


def _hash(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def _shape(value: Any) -> Any:
    """Names and types without values."""
    if isinstance(value, dict):
        return {_neutral(str(name)): _shape(inner) for name, inner in value.items() if name != "param_groups"}  # torch's
    if isinstance(value, list | tuple):
        inner = [_shape(each) for each in value]
        same = len(inner) > 1 and all(each == inner[0] for each in inner)
        return [inner[0], f"x {len(inner)}"] if same else inner
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}" if value.dtype != torch.uint8 else "uint8[...]"
    return type(value).__name__


def values_of(folder: Path) -> dict[str, Any]:
    """Columns in the order of the user's ids, as the public API reads them."""
    found: dict[str, Any] = {}
    manifest = json.loads((folder / "manifest.json").read_text())
    with halohop.open(folder) as graph:
        for table in [*manifest["nodes"], *manifest["edges"]]:
            key = table["key"][0] if len(table["key"]) == 1 else tuple(table["key"])
            if isinstance(key, str):
                gid = graph.locate(torch.arange(graph.num_nodes_dict[key]), key)
            else:
                edges = graph.edges(key)
                gid = graph.locate_edges(key, edges.edge_id)
                found[f"{table['key']} ids"] = _hash(edges.edge_id.numpy())
            for column in table["columns"]:
                (rows,) = graph.fetch_rows(key, [column], gid)
                quantized = table["columns"][column]["stored"] is not None
                few = [round(float(number), 2) for number in rows.flatten()[:8]]
                exact = "" if quantized else f" {_hash(rows.numpy())}"
                found[f"{table['key']} {column}"] = f"{str(rows.dtype).removeprefix('torch.')}{list(rows.shape)} {few}{exact}"
    return found


def tables_of(folder: Path) -> dict[str, Any]:
    with halohop.open(folder / "two") as graph:
        graph.tables.load(folder / "tables", step=3)
        numbers = halohop.DistTensor.attach(graph, "numbers")
        rows = halohop.DistTensor.attach(graph, "rows")
        return {
            "numbers": _hash(numbers[torch.arange(files.NODES)].numpy()),
            "rows": [float(number) for number in rows[torch.arange(5)]],
        }
