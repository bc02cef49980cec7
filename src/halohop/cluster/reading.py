"""A partition of a data set on disk, read back with the user's ids, and its replicas."""

import warnings
from pathlib import Path

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.holding import Holding
from halohop.errors import InputError
from halohop.partitioning.slices.owners import Owner
from halohop.partitioning.slices.slices import EdgeSlice, MemoryPartition, NodeSlice
from halohop.store.disk import map_replica, read_manifest
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.schema import ColumnSpec
from halohop.typing import NodeType, Relation


def read_partition(path: str | Path, part: int) -> MemoryPartition:
    """A partition as it is on disk, with the user's ids; public as `halohop.slices.read_partition`.

    Rows are mapped, not read, unless they are stored in fewer bytes than the user gave. Nodes and edges name their owners in the
    whole graph. Opened together, all partitions make the batches of the folder; blocks and copies are left out.

    Args:
        path: a data set, all of whose partitions are here: the ids of neighbours lie with their owners.
        part: the partition's number.

    Raises:
        InputError: there is no such partition, a partition is missing, or the ids of nodes are not 0, 1, 2, ...
        DatasetError: the folder is no complete, healthy data set.

    Example:
        >>> import tempfile, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = halohop.partition(synthetic("tiny"), folder + "/parts", num_parts=2, method="random")
        ...     own = read_partition(folder + "/parts", 0)
        >>> own.nodes["node"].columns["x"].shape, len(own.nodes["node"].owner)
        (torch.Size([500, 32]), 1000)
    """
    folder = Path(path)
    stored = _Stored(Holding.of(folder), folder)
    if not 0 <= part < stored.num_parts:
        raise InputError(f"part={part}, but {folder} has the partitions 0 to {stored.num_parts - 1}")
    own = stored.holding.parts[part]
    return MemoryPartition(
        part=part,
        num_parts=stored.num_parts,
        nodes={name: stored.nodes(name, part, nodes) for name, nodes in own.nodes.items()},
        edges={relation: stored.edges(relation, part, edges) for relation, edges in own.edges.items()},
        edge_dir=stored.holding.book.edge_dir,
    )


def read_replicas(path: str | Path, part: int) -> dict[NodeType, tuple[Tensor, dict[str, Tensor]]]:
    """What a partition has copied of others (see `halohop.add_replicas`); public as `halohop.placement.read_replicas`.

    Returns:
        By node type the ids of the copied nodes, int64 ``[n]``, and their rows by column; none of a data set without copies.

    Raises:
        DatasetError: the folder is no healthy data set, or does not hold this partition.

    Example:
        >>> import tempfile, torch, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = halohop.partition(synthetic("tiny"), folder, num_parts=2, method="range", overwrite=True)
        ...     _ = halohop.add_replicas(folder, [{"node": torch.tensor([999, 3])}, {}])
        ...     ids, rows = read_replicas(folder, 0)["node"]
        >>> ids.tolist(), rows["x"].shape
        ([999], torch.Size([1, 32]))
    """
    manifest = read_manifest(path)
    replica = map_replica(path, manifest, part)
    found = {}
    for name, nodes in replica.part.nodes.items() if replica is not None else ():
        assert nodes.raw_id is not None, "copies have ids of their own"
        found[name] = (nodes.raw_id.long(), _node_columns(nodes, manifest.schema.nodes[name].columns))
    return found


class _Stored:
    """All partitions of a data set, and the ids of all nodes and edges.

    Raises:
        InputError: a partition is missing.
    """

    def __init__(self, holding: Holding, folder: Path) -> None:
        self.holding, self._folder = holding, folder
        self.num_parts = holding.book.num_parts
        if absent := sorted({*range(self.num_parts)} - {*holding.parts}):
            raise InputError(f"partitions {absent} are not in {folder}; a partition is read back where all of them are")
        self._raw: dict[NodeType, Tensor | None] = {}

    def nodes(self, name: NodeType, part: int, own: NodePart) -> NodeSlice:
        raw, bounds = self._raw_ids(name), self.holding.book.bounds(name)
        spec = self.holding.manifest.schema.nodes[name]
        return NodeSlice(
            owner=self._owner(raw, bounds),
            columns=_node_columns(own, spec.columns),
            id=torch.arange(bounds[part], bounds[part + 1]) if raw is None else raw[bounds[part] : bounds[part + 1]],
            names={key: column.names for key, column in spec.columns.items() if column.names},
        )

    def edges(self, relation: Relation, part: int, own: EdgePart) -> EdgeSlice:
        book = self.holding.book
        low, high = book.bounds(relation)[part : part + 2]
        listed = torch.repeat_interleave(own.indptr.diff()) + book.offset(book.list_type(relation), part)
        near, far = self._ids(book.neighbor_type(relation), own.indices), self._ids(book.list_type(relation), listed)
        ids = self._edge_ids(relation)
        specs = self.holding.manifest.schema.edges[relation].columns
        return EdgeSlice(
            edge_index=torch.stack([near, far] if book.list_end else [far, near]),
            edge_id=torch.arange(low, high) if ids is None else ids[low:high],
            columns=_widened(own.columns, specs),
            owner=self._owner(ids, book.bounds(relation)),
            halo=own.halo,
        )

    def _ids(self, name: NodeType, gid: Tensor) -> Tensor:
        raw = self._raw_ids(name)
        return gid.long() if raw is None else raw[gid.long()]

    def _raw_ids(self, name: NodeType) -> Tensor | None:
        """Of all nodes by gid; None where they are the gids.

        Raises:
            InputError: they are not 0, 1, 2, ...
        """
        if name not in self._raw:
            raw = self._joined([held.nodes[name].raw_id for held in self._parts], self.holding.book.bounds(name))
            if raw is not None and not torch.equal(raw.sort().values, torch.arange(len(raw))):
                raise InputError(
                    f"ids of {name!r} in {self._folder} are not 0 to {len(raw) - 1}, as those of partitions in memory are; read "
                    "them from halohop.open(...), or divide the graph without ids of its own"
                )
            self._raw[name] = raw
        return self._raw[name]

    def _edge_ids(self, relation: Relation) -> Tensor | None:
        return self._joined([held.edges[relation].edge_id for held in self._parts], self.holding.book.bounds(relation))

    @property
    def _parts(self) -> list[Part]:
        return [self.holding.parts[index] for index in range(self.num_parts)]

    def _joined(self, ids: list[Tensor | None], bounds: tuple[int, ...]) -> Tensor | None:
        if all(own is None for own in ids):
            return None
        return torch.cat([torch.arange(*bounds[at : at + 2]) if own is None else own.long() for at, own in enumerate(ids)])

    def _owner(self, ids: Tensor | None, bounds: tuple[int, ...]) -> Owner:
        if ids is None:
            return bounds
        owner = torch.empty(len(ids), dtype=torch.int32)
        owner[ids] = torch.repeat_interleave(torch.arange(self.num_parts, dtype=torch.int32), torch.tensor(bounds).diff())
        return owner


def _node_columns(nodes: NodePart, specs: dict[str, ColumnSpec]) -> dict[str, Tensor]:
    with warnings.catch_warnings():  # torch calls CSR a beta, at its first use
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        found = _widened(nodes.columns, specs) | {name: rows.csr() for name, rows in nodes.sparse.items()}
    return {name: found[name] for name in specs if name in found}


def _widened(columns: dict[str, Tensor], specs: dict[str, ColumnSpec]) -> dict[str, Tensor]:
    pool = ops.Pool()
    return {name: specs[name].as_given(rows, pool) for name, rows in columns.items()}
