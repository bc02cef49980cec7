"""``NAME.json`` beside a data set's manifest: what DGL's tools read of a partitioned graph, in DGL's schema."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from halohop.datasets.imports.dgl_config import EDGE_NAME, NODE_NAME
from halohop.errors import InputError
from halohop.files.reading import decode_json, read_regular
from halohop.files.urls import refuse_url
from halohop.store.description import Description, describe
from halohop.store.names import MANIFEST

Bounds = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartConfig:
    """A partitioned graph on disk, by DGL's names.

    Args:
        name: of the graph.
        description: of the folder.
    """

    name: str
    description: Description

    @property
    def bounds(self) -> tuple[Bounds, Bounds]:
        """By node type, and by relation, where the rows of each partition begin, and how many there are in all."""
        schema, manifest = self.description.schema, self.description.manifest
        if schema.is_homogeneous:
            (nodes,), (edges,) = manifest.node_bounds.values(), manifest.edge_bounds.values()
            return {NODE_NAME: nodes}, {EDGE_NAME: edges}
        nodes_by_type = {name: manifest.node_bounds[name] for name in schema.nodes}
        return nodes_by_type, {":".join(relation): manifest.edge_bounds[relation] for relation in schema.edges}

    def document(self, part_method: str) -> dict[str, Any]:
        """The contents of the file. Its ranges count over all types, as DGL numbers nodes and edges."""
        nodes, edges = self.bounds
        parts = range(self.description.num_parts)
        return {
            "graph_name": self.name,
            "num_nodes": sum(bounds[-1] for bounds in nodes.values()),
            "num_edges": sum(bounds[-1] for bounds in edges.values()),
            "part_method": part_method,
            "num_parts": len(parts),
            "halo_hops": 1,
            "node_map": _over_all_types(nodes),
            "edge_map": _over_all_types(edges),
            "ntypes": {name: number for number, name in enumerate(nodes)},
            "etypes": {name: number for number, name in enumerate(edges)},
            **{f"part-{part}": dict.fromkeys(("node_feats", "edge_feats", "part_graph"), f"part-{part:04d}") for part in parts},
        }

    def check(self, raw: dict[str, Any], file: Path) -> None:
        """
        Raises:
            InputError: the file is about another division of the graph than the folder holds.
        """
        expected = self.document(str(raw.get("part_method")))
        for key in ("num_parts", "num_nodes", "num_edges", "ntypes", "etypes", "node_map", "edge_map"):
            if raw.get(key) != expected[key]:
                raise InputError(
                    f"{key} of {file} is {_short(raw.get(key))}, but the partitions beside it have {_short(expected[key])}; copy "
                    "the file and the folder from the same place"
                )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _over_all_types(bounds: Bounds) -> dict[str, list[list[int]]]:
    """The ranges of partitions, numbered partition by partition and in each type by type."""
    counts = {name: [last - first for first, last in pairwise(ends)] for name, ends in bounds.items()}
    sizes = [of_type[part] for part in range(len(next(iter(counts.values()), []))) for of_type in counts.values()]
    ranges = iter(pairwise(accumulate(sizes, initial=0)))
    found: dict[str, list[list[int]]] = {name: [] for name in counts}
    for _ in range(len(sizes) // max(len(counts), 1)):
        for name in counts:
            found[name].append(list(next(ranges)))
    return found


@contextmanager
def writing_part_config(folder: str | Path, name: str, part_method: str) -> Iterator[None]:
    """Within it a data set is written, or replaced, whose ``NAME.json`` is written at the end; the one before comes back where
    that fails.

    Args:
        folder: of the data set.
        name: of the graph.
        part_method: how it is divided.

    Raises:
        InputError: a name that is no file's.

    Example:
        >>> import tempfile, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with writing_part_config(folder, "tiny", "random"):
        ...         _ = halohop.partition(synthetic("tiny"), folder, num_parts=2, method="random", overwrite=True)
        ...     read_part_config(f"{folder}/tiny.json").document("random")["node_map"]
        {'_N': [[0, 500], [500, 1000]]}
    """
    refuse_url(f"{name}.json", "graph_name", "give the name of a graph")
    if name in ("", "..") or Path(name).name != name or f"{name}.json" == MANIFEST:
        raise InputError(f"graph_name={name!r} is no name of a file; give one such as 'products'")
    file = Path(folder) / f"{name}.json"
    before = file.read_bytes() if file.is_file() and (file.parent / MANIFEST).is_file() else None
    if before is not None:
        file.unlink()
    try:
        yield
    except BaseException:
        if before is not None:
            file.write_bytes(before)
        raise
    config = PartConfig(name=name, description=describe(folder))
    file.write_text(json.dumps(config.document(part_method), indent=2) + "\n")


def read_part_config(part_config: str | Path | None) -> PartConfig:
    """What a configuration names.

    Args:
        part_config: a ``NAME.json`` of `writing_part_config`, or the folder of a data set; None: what DGL_CONF_PATH of the
            environment names.

    Raises:
        InputError: none is named, there is no such file, it is of DGL's own partitions, or it does not match its folder.
        DatasetError: it is no JSON, or the folder is no complete, healthy data set.
    """
    given = part_config or os.environ.get("DGL_CONF_PATH")
    if not given:
        raise InputError("no partitions are named; give part_config='FOLDER/NAME.json', as partition_graph wrote it")
    refuse_url(given, "part_config", "fetch it first: halohop.fetch(url, folder)")
    path = Path(given)
    if path.is_dir():
        return PartConfig(name=path.name, description=describe(path))
    if not path.is_file():
        raise InputError(f"there is no file {path}; give the NAME.json that partition_graph wrote, or its folder")
    raw: dict[str, Any] = decode_json(read_regular(path), path, dict[str, Any])
    if "num_parts" not in raw:
        raise InputError(f"{path} has no 'num_parts'; give the NAME.json that partition_graph wrote")
    if not (path.parent / MANIFEST).is_file():
        raise InputError(
            f"{path} is of DGL's own partitions; convert them: halohop partition 'dgl:{path}' OUT, and give part_config='OUT'"
        )
    config = PartConfig(name=str(raw.get("graph_name", path.stem)), description=describe(path.parent))
    config.check(raw, path)
    return config
