"""DGL's ``part_config.json``: the types of a graph, and the ranges of ids that each partition owns."""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from halohop.errors import IncompleteDatasetError, InputError
from halohop.files.reading import decode_json, read_regular
from halohop.typing import EDGE, NODE, NodeType, Relation

NODE_NAME, EDGE_NAME = "_N", "_N:_E:_N"
"""The types of a homogeneous graph."""
BOOLS = "halohop_bools"
"""What DGL does not read, in the configurations that are written here: columns that were bool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Which ids the partitions own of one type.

    Args:
        name: of the type, as DGL writes it.
        bounds: by partition, the first of its ids, and the one behind the last; they count over all types.
        begin: by partition, the same first id counted within the type; and how many there are in all.
    """

    name: str
    bounds: tuple[tuple[int, int], ...]
    begin: tuple[int, ...]

    @property
    def count(self) -> int:
        return self.begin[-1]

    def within(self, part: int) -> Tensor:
        """The ids of a partition, counted within the type."""
        return torch.arange(self.begin[part], self.begin[part + 1])

    @classmethod
    def of(cls, name: str, bounds: list[tuple[int, int]]) -> "Ranges":
        return cls(name=name, bounds=tuple(bounds), begin=(0, *accumulate(last - first for first, last in bounds)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A configuration.

    Args:
        nodes, edges: ranges by type.
        folders: by partition, where its graph, its node columns and its edge columns are.
        bools: which columns were bool, by "TYPE/COLUMN", where `halohop.datasets.write_dgl` wrote them; None where DGL did.
    """

    nodes: dict[NodeType, Ranges]
    edges: dict[Relation, Ranges]
    folders: tuple["PartFiles", ...]
    bools: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFiles:
    """Where the files of a partition are."""

    graph: Path
    node_columns: Path
    edge_columns: Path


def read_config(file: Path) -> Config:
    """
    Raises:
        IncompleteDatasetError: there is no such file.
        CorruptDatasetError: it is no JSON.
        InputError: it is not what DGL writes, an old form of it, or names a graph of GraphBolt's.
    """
    if not file.is_file():
        raise IncompleteDatasetError(f"there is no file {file}; name the JSON file that DGL's partition_graph wrote")
    raw: dict[str, Any] = decode_json(read_regular(file), file, dict[str, Any])
    for key in ("num_parts", "num_nodes", "num_edges", "node_map", "edge_map"):
        if key not in raw:
            raise InputError(f"{file} has no {key!r}; name the JSON file that DGL's partition_graph wrote")
    for key in ("num_parts", "num_nodes", "num_edges"):
        if type(raw[key]) is not int or raw[key] < (key == "num_parts"):
            raise InputError(f"{file} is not what DGL writes: {key} is {raw[key]!r}; copy it again")
    num_parts = raw["num_parts"]
    nodes = _ranges(file, raw["node_map"], NODE_NAME, num_parts, raw["num_nodes"], "nodes")
    edges = _ranges(file, raw["edge_map"], EDGE_NAME, num_parts, raw["num_edges"], "edges")
    return Config(
        nodes={NODE if name == NODE_NAME else name: ranges for name, ranges in nodes.items()},
        edges={_relation(file, name): ranges for name, ranges in edges.items()},
        folders=tuple(_files(file, raw, part) for part in range(num_parts)),
        bools=frozenset(map(str, raw[BOOLS])) if isinstance(raw.get(BOOLS), list) else None,
    )


def _ranges(file: Path, value: Any, only: str, num_parts: int, count: int, what: str) -> dict[str, Ranges]:
    if isinstance(value, str):
        raise InputError(f"{file} keeps its {what} in another file, {value}, as DGL below 0.7 did; partition with a newer one")
    try:
        mapped: dict[str, Any] = value if hasattr(value, "items") else {only: value}
        found = {name: Ranges.of(name, _pairs(bounds)) for name, bounds in mapped.items()}
    except (TypeError, ValueError, msgspec.ValidationError) as error:
        raise InputError(f"{file} is not what DGL writes: the ranges of {what} are {value}") from error
    for ranges in found.values():
        if len(ranges.bounds) != num_parts:
            raise InputError(
                f"{file} has ranges of {ranges.name} for {len(ranges.bounds)} of {num_parts} partitions; copy it again"
            )
    flat = sorted(bounds for ranges in found.values() for bounds in ranges.bounds if bounds[0] != bounds[1])
    together = [first for first, _ in flat] + [count]
    if [last for _, last in flat] != together[1:] or together[0] != 0:
        raise InputError(f"{file} says there are {count} {what}, but its ranges do not cover 0 to {count - 1}; copy it again")
    return found


def _pairs(bounds: Any) -> list[tuple[int, int]]:
    """Ranges by partition; older versions wrote their ends only."""
    if bounds and isinstance(bounds[0], int):
        return list(pairwise([0, *bounds]))
    return msgspec.convert(bounds, list[tuple[int, int]])


def _relation(file: Path, name: str) -> Relation:
    if name == EDGE_NAME:
        return EDGE
    parts = name.split(":")
    if len(parts) != 3:
        raise InputError(
            f"{file} names the edge type {name!r} in an old form; DGL's tools/change_etype_to_canonical_etype.py writes "
            "it as source:name:destination"
        )
    return parts[0], parts[1], parts[2]


def _files(file: Path, raw: dict[str, Any], part: int) -> PartFiles:
    names = raw.get(f"part-{part}", {})
    if "part_graph" not in names:
        remedy = "write the partitions again with use_graphbolt=False" if "part_graph_graphbolt" in names else "copy it again"
        raise InputError(f"{file} names no graph.dgl of partition {part}; {remedy}")
    given = [names[key] for key in ("part_graph", "node_feats", "edge_feats") if key in names]
    if not all(isinstance(name, str) and "\0" not in name for name in given):
        raise InputError(f"{file} is not what DGL writes: the files of partition {part} are called {given}; copy it again")
    graph = file.parent / names["part_graph"]
    columns = [file.parent / names.get(f"{kind}_feats", graph.parent / f"{kind}_feat.dgl") for kind in ("node", "edge")]
    return PartFiles(graph=graph, node_columns=columns[0], edge_columns=columns[1])
