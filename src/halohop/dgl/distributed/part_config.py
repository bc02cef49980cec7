"""``part_config.json``: what DGL's tools read of a partitioned graph, beside halohop's manifest."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import halohop
from halohop.dgl.distributed.types import Types
from halohop.errors import InputError
from halohop.typing import TableKey

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartConfig:
    """A partitioned graph on disk.

    Args:
        name: of the graph.
        description: of the folder.
    """

    name: str
    description: halohop.Description

    @property
    def types(self) -> Types:
        return Types.of(self.description.schema)

    def bounds(self, table: TableKey) -> tuple[int, ...]:
        """Where the rows of each partition begin, and how many there are in all."""
        manifest = self.description.manifest
        return manifest.node_bounds[table] if isinstance(table, str) else manifest.edge_bounds[table]

    def document(self, part_method: str) -> dict[str, Any]:
        """The contents of the file, in DGL's schema. Its ranges count over all types, as DGL numbers nodes and edges."""
        types, num_parts = self.types, self.description.num_parts
        ours = self.description.manifest
        edges = {":".join(name): ours.edge_bounds[relation] for name, relation in types.edges.items()}
        return {
            "graph_name": self.name,
            "num_nodes": sum(spec.count for spec in self.description.schema.nodes.values()),
            "num_edges": sum(spec.count for spec in self.description.schema.edges.values()),
            "part_method": part_method,
            "num_parts": num_parts,
            "halo_hops": 1,
            "node_map": _over_all_types({name: ours.node_bounds[node_type] for name, node_type in types.nodes.items()}),
            "edge_map": _over_all_types(edges),
            "ntypes": {name: number for number, name in enumerate(types.nodes)},
            "etypes": {name: number for number, name in enumerate(edges)},
            **{
                f"part-{part}": dict.fromkeys(("node_feats", "edge_feats", "part_graph"), f"part-{part:04d}")
                for part in range(num_parts)
            },
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


def _over_all_types(bounds: dict[str, tuple[int, ...]]) -> dict[str, list[list[int]]]:
    """The ranges of partitions, numbered partition by partition and in each type by type."""
    counts = {name: [last - first for first, last in pairwise(ends)] for name, ends in bounds.items()}
    sizes = [of_type[part] for part in range(len(next(iter(counts.values()), []))) for of_type in counts.values()]
    ranges = iter(pairwise(accumulate(sizes, initial=0)))
    found: dict[str, list[list[int]]] = {name: [] for name in counts}
    for _ in range(len(sizes) // max(len(counts), 1)):
        for name in counts:
            found[name].append(list(next(ranges)))
    return found


def write_part_config(folder: str | Path, name: str, part_method: str) -> Path:
    """Writes ``NAME.json`` into a folder that `halohop.partition` wrote, and returns its path."""
    file = Path(folder) / f"{name}.json"
    config = PartConfig(name=name, description=halohop.describe(folder))
    file.write_text(json.dumps(config.document(part_method), indent=2) + "\n")
    return file


@contextmanager
def without_part_config(folder: str | Path, name: str) -> Iterator[None]:
    """Takes the file of a data set that is about to be replaced away; it comes back where that fails."""
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


def read_part_config(part_config: str | Path | None) -> PartConfig:
    """What a configuration names.

    Args:
        part_config: the file that `partition_graph` wrote, or the folder of a data set of halohop's; None: what DGL_CONF_PATH of
            the environment names.

    Raises:
        InputError: none is named, there is no such file, it is of DGL's own partitions, or it does not match its folder.
        DatasetError: the folder is no complete, healthy data set.
    """
    given = part_config or os.environ.get("DGL_CONF_PATH")
    if not given:
        raise InputError("no partitions are named; give part_config='FOLDER/NAME.json', as partition_graph wrote it")
    path = Path(given)
    if path.is_dir():
        return PartConfig(name=path.name, description=halohop.describe(path))
    if not path.is_file():
        raise InputError(f"there is no file {path}; give the NAME.json that partition_graph wrote, or its folder")
    try:
        raw = json.loads(path.read_text())
    except ValueError as error:
        raise InputError(f"{path} is no JSON ({error}); give the NAME.json that partition_graph wrote") from error
    if not isinstance(raw, dict) or "num_parts" not in raw:
        raise InputError(f"{path} has no 'num_parts'; give the NAME.json that partition_graph wrote")
    if not (path.parent / MANIFEST).is_file():
        raise InputError(
            f"{path} is of DGL's own partitions; convert them: halohop partition 'dgl:{path}' OUT, and give part_config='OUT'"
        )
    config = PartConfig(name=str(raw.get("graph_name", path.stem)), description=halohop.describe(path.parent))
    config.check(raw, path)
    return config
