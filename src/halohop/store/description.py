"""What a partitioned folder holds, read from its manifest and its own partitions: no other host is asked."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from halohop.store.disk import held_parts, map_part, read_manifest
from halohop.store.manifest import Manifest
from halohop.store.schema import Schema
from halohop.typing import EdgeDir, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A partitioned graph, as its folder says; from `halohop.describe`.

    Args:
        path: the folder.
        manifest: of the whole data set.
        parts: the partitions whose files are here.
    """

    path: Path
    manifest: Manifest
    parts: tuple[int, ...]

    @property
    def schema(self) -> Schema:
        """Node types, relations and columns of the whole graph."""
        return self.manifest.schema

    @property
    def edge_dir(self) -> EdgeDir:
        """Which edges the lists of nodes hold: "in", those to them, or "out", those from them."""
        return self.manifest.edge_dir

    @property
    def num_parts(self) -> int:
        """How many partitions the graph has, here or elsewhere."""
        return self.manifest.num_parts

    def num_nodes(self, part: int, node_type: NodeType | None = None) -> int:
        """How many nodes of a type a partition owns, wherever it lies.

        Raises:
            SchemaError: no such node type.
        """
        low, high = self.manifest.node_bounds[self.schema.node_type(node_type)][part : part + 2]
        return high - low

    def nodes(self, part: int, node_type: NodeType | None = None) -> Tensor:
        """The user's ids of the nodes that a partition owns, int64 ``[n]``, ascending.

        Raises:
            SchemaError: no such node type.
            DatasetError: the partition is not here, or damaged.
            InputError: there is no partition of that number.
        """
        node_type = self.schema.node_type(node_type)
        raw = map_part(self.path, self.manifest, part).nodes[node_type].raw_id
        low, high = self.manifest.node_bounds[node_type][part : part + 2]
        return torch.arange(low, high) if raw is None else raw


def describe(path: str | Path) -> Description:
    """What a partitioned folder holds; public as `halohop.describe`.

    Only the manifest is read, so a host with one partition of many knows the whole graph's types, columns and counts at once.

    Args:
        path: the folder that `halohop.partition` wrote, or a copy of the manifest with some of the partitions.

    Raises:
        DatasetError: the folder is no complete, healthy data set of this version; names the file.
        InputError: a URL.

    Example:
        >>> import tempfile, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = halohop.partition(synthetic("tiny"), f"{folder}/parts", num_parts=2, method="random")
        ...     found = halohop.describe(f"{folder}/parts")
        ...     found.num_parts, found.parts, found.edge_dir, len(found.nodes(1)) == found.num_nodes(1)
        (2, (0, 1), 'in', True)
    """
    manifest = read_manifest(path)
    return Description(path=Path(path).resolve(), manifest=manifest, parts=held_parts(path, manifest))
