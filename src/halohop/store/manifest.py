"""What a data set on disk says of itself, and how its files are called.

`manifest.json` begins with the format's name, its version and a checksum of the rest, so that an old or damaged data set is
refused before anything of it is believed. File names are made here from the names of types, relations and columns, never read
from the manifest.
"""

import hashlib
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from halohop.errors import CorruptDatasetError, VersionMismatchError
from halohop.files.reading import decode_json
from halohop.store.checksums import FileRecord, chunk_begins
from halohop.store.replica import ReplicaRecord
from halohop.store.schema import ColumnSpec, Schema, TableSpec
from halohop.typing import EdgeDir, NodeType, Relation, TableKey

FORMAT = "halohop"
VERSION = 2
STAMP = "stamp"
"""In the folder of each partition: which data set it belongs to."""
VERIFYING = "verifying"
"""Beside it, while a verification is unfinished: how far that came."""

INDPTR = "indptr"
INDICES = "indices"
RAW_ID_FILE = "raw_id"
EDGE_ID_FILE = "edge_id"
BLOCK_FILE = "block_"
HOTNESS_FILE = "hotness_"
"""No file of a column ends so, in any version: `quoted_name`."""
HALO = "halo"
SUMS = "weight_sums"
SPARSE = "sparse"

_AS_THEY_ARE = ("partitioned", "report", "stamps", "edge_dir", "num_blocks", "replicas")  # in the file as in `Manifest`
_NO_CHECKSUM = "00000000"
_LONGEST_NAME = 60  # characters of one name in a path; three of them and the "%%" marks stay below 255, the limit of file systems

Key = TypeVar("Key", NodeType, Relation)
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The contents of `manifest.json`.

    Args:
        schema: node types, relations and columns of the whole graph.
        node_bounds, edge_bounds: gid ranges of the partitions, the arguments of `halohop.partitioning.book.Book`.
        files: every array of every partition, by its path inside the folder, whichever host holds it.
        partitioned: how it was partitioned: ``method``, ``seed``.
        report: cut and balance, see `halohop.partitioning.building.report`; empty if they were not measured.
        halo: per relation, columns of the sources that are stored along its edges.
        ascending: per relation, the columns (halo ones too) that never fall within a list, in any partition.
        stamps: per partition, what `stamp_of` says of its files; its folder holds the same.
        edge_dir: which edges the lists of nodes hold: those to them ("in"), or those from them ("out").
        num_blocks: every node belongs to one of so many blocks, and a partition is a run of blocks; 0 where there are none.
        replicas: what partitions have copied of each other; None where they have nothing.
        weight_sums: per relation, the columns of weights whose running sums are stored, and how many nodes have edges, but none
            with a weight above 0.

    Data sets written before there were `halo`, `ascending` and `stamps` have none, and lists of in-edges; they are read as they
    always were.
    """

    schema: Schema
    node_bounds: dict[NodeType, tuple[int, ...]]
    edge_bounds: dict[Relation, tuple[int, ...]]
    files: dict[str, FileRecord]
    partitioned: dict[str, str | int]
    report: dict[str, Any]
    halo: dict[Relation, dict[str, ColumnSpec]] = field(default_factory=dict)
    ascending: dict[Relation, tuple[str, ...]] = field(default_factory=dict)
    stamps: tuple[str, ...] = ()
    edge_dir: EdgeDir = "in"
    num_blocks: int = 0
    replicas: ReplicaRecord | None = None
    weight_sums: dict[Relation, dict[str, int]] = field(default_factory=dict)

    @property
    def num_parts(self) -> int:
        return len(next(iter(self.node_bounds.values()))) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """A table in JSON, where a key cannot be a tuple: ``[type]`` or ``[source, name, destination]``."""

    key: tuple[str, ...]
    bounds: tuple[int, ...]
    columns: dict[str, ColumnSpec]
    halo: dict[str, ColumnSpec] = field(default_factory=dict)
    ascending: tuple[str, ...] = ()
    weight_sums: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    format: str
    version: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordOfVersion1:
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    crc32: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document(Generic[Record]):
    format: str
    version: int
    checksum: str
    nodes: tuple[_Table, ...]
    edges: tuple[_Table, ...]
    partitioned: dict[str, str | int]
    report: dict[str, Any]
    files: dict[str, Record]
    stamps: tuple[str, ...] = ()
    edge_dir: EdgeDir = "in"
    num_blocks: int = 0
    replicas: ReplicaRecord | None = None


def encode(manifest: Manifest) -> bytes:
    """The manifest as the bytes of `manifest.json`."""
    document = _Document(
        format=FORMAT,
        version=VERSION,
        checksum=_NO_CHECKSUM,
        nodes=tuple(
            _Table(key=(name,), bounds=manifest.node_bounds[name], columns=spec.columns)
            for name, spec in manifest.schema.nodes.items()
        ),
        edges=tuple(
            _Table(
                key=relation,
                bounds=manifest.edge_bounds[relation],
                columns=spec.columns,
                halo=manifest.halo.get(relation, {}),
                ascending=manifest.ascending.get(relation, ()),
                weight_sums=manifest.weight_sums.get(relation, {}),
            )
            for relation, spec in manifest.schema.edges.items()
        ),
        files=manifest.files,
        **{name: getattr(manifest, name) for name in _AS_THEY_ARE},
    )
    data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    return data.replace(_NO_CHECKSUM.encode(), f"{zlib.crc32(data):08x}".encode(), 1)


def decode(data: bytes, name: str) -> Manifest:
    """The inverse of `encode`; `name` is the file's name for error messages.

    Raises:
        VersionMismatchError: written in another version of the format.
        CorruptDatasetError: not a manifest, or changed since it was written.
    """
    head: _Head = decode_json(data, name, _Head)
    if head.format != FORMAT:
        raise CorruptDatasetError(f"{name} describes a {head.format!r} data set, not a {FORMAT!r} one")
    if not 1 <= head.version <= VERSION:
        remedy = "upgrade halohop" if head.version > VERSION else "run `halohop partition` again on the source data"
        raise VersionMismatchError(
            f"{name} is of format version {head.version}, this halohop reads versions 1 to {VERSION}; {remedy}"
        )
    if head.checksum != f"{zlib.crc32(data.replace(head.checksum.encode(), _NO_CHECKSUM.encode(), 1)):08x}":
        raise CorruptDatasetError(f"{name} was changed after it was written: its checksum differs; copy the data set again")
    kind = _Document[_RecordOfVersion1] if head.version == 1 else _Document[FileRecord]
    document: _Document[Any] = decode_json(data, name, kind)
    files = {path: _current(record) for path, record in document.files.items()}
    if problem := _contradiction(document, files):
        raise CorruptDatasetError(f"{name} contradicts itself: {problem}")
    nodes = {table.key[0]: table for table in document.nodes}
    edges = {(table.key[0], table.key[1], table.key[2]): table for table in document.edges}
    return Manifest(
        schema=Schema(nodes=_specs(nodes), edges=_specs(edges)),
        node_bounds={key: table.bounds for key, table in nodes.items()},
        edge_bounds={key: table.bounds for key, table in edges.items()},
        files=files,
        halo={key: table.halo for key, table in edges.items()},
        ascending={key: table.ascending for key, table in edges.items()},
        weight_sums={key: table.weight_sums for key, table in edges.items()},
        **{name: getattr(document, name) for name in _AS_THEY_ARE},
    )


def stamp_of(records: dict[str, FileRecord]) -> str:
    """Identifies a partition among those of all data sets: a digest of its files' checksums. The same data have the same."""
    return hashlib.blake2b(msgspec.json.encode(records, order="sorted"), digest_size=16).hexdigest()


def part_folder(part: int) -> str:
    """The folder of a partition.

    Example:
        >>> part_folder(3)
        'part-0003'
    """
    return f"part-{part:04d}"


def table_folder(part: int, table: TableKey) -> str:
    """The folder of a table's arrays in one partition.

    Example:
        >>> table_folder(0, ("paper", "cited by", "paper"))
        'part-0000/edges/paper__cited%20by__paper'
    """
    if isinstance(table, str):
        return f"{part_folder(part)}/nodes/{quoted_name(table)}"
    return f"{part_folder(part)}/edges/{'__'.join(quoted_name(name) for name in table)}"


def column_file(part: int, table: TableKey, column: str) -> str:
    """The file of a user's column."""
    name = quoted_name(column)
    if name in ((RAW_ID_FILE,) if isinstance(table, str) else (INDPTR, INDICES, EDGE_ID_FILE)):
        name = f"%{ord(name[0]):02X}{name[1:]}"  # beside the arrays of that name; quoting never writes a letter so
    return f"{table_folder(part, table)}/{name}.npy"


def sparse_files(part: int, table: TableKey, column: str) -> tuple[str, str, str]:
    """The files of a column of which only some entries are stored: where rows begin, places in the row, values."""
    stem = f"{table_folder(part, table)}/{SPARSE}/{quoted_name(column)}"
    return f"{stem}.indptr.npy", f"{stem}.indices.npy", f"{stem}.values.npy"


def halo_file(part: int, relation: Relation, column: str) -> str:
    """The file of a column of the sources that is stored along the edges."""
    return f"{table_folder(part, relation)}/{HALO}/{quoted_name(column)}.npy"


def sums_file(part: int, relation: Relation, column: str) -> str:
    """The file of the running sums of a column of weights."""
    return f"{table_folder(part, relation)}/{SUMS}/{quoted_name(column)}.npy"


def structure_file(part: int, table: TableKey, name: str) -> str:
    """The file of an array that is not a user's column: raw_id, block_, hotness_; indptr, indices, edge_id."""
    return f"{table_folder(part, table)}/{name}.npy"


@lru_cache(maxsize=1024)
def quoted_name(name: str) -> str:
    """A file name for a name; different for different names, and without the ``__`` that separates the parts of a relation."""
    quoted = quote(name, safe="")
    if len(quoted) > _LONGEST_NAME:
        quoted = f"{quoted[: _LONGEST_NAME - 20]}%%{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    if quoted.startswith("."):
        quoted = f"%2E{quoted[1:]}"
    return f"{quoted[:-1]}%5F" if quoted.endswith("_") else quoted


def _current(record: FileRecord | _RecordOfVersion1) -> FileRecord:
    if isinstance(record, FileRecord):
        return record
    return FileRecord(dtype=record.dtype, shape=record.shape, bytes=record.bytes, checksums=(record.crc32,))


def _contradiction(document: _Document[Any], files: dict[str, FileRecord]) -> str | None:
    nodes = [table.key[0] for table in document.nodes if len(table.key) == 1]
    tables = (*document.nodes, *document.edges)
    if not nodes or len(nodes) != len(document.nodes) or any(len(table.key) != 3 for table in document.edges):
        return "a node type has one name, a relation three, and there is at least one node type"
    if len({table.key for table in tables}) != len(tables):
        return "a table occurs twice"
    for table in tables:
        if any(end not in nodes for end in table.key[::2]):
            return f"{table.key} names an unknown node type"
        if len(table.bounds) != len(tables[0].bounds) or len(table.bounds) < 2 or table.bounds[0] != 0:
            return f"{table.key} has bounds {table.bounds}"
        if any(low > high for low, high in pairwise(table.bounds)):
            return f"{table.key} has bounds that fall: {table.bounds}"
        if unknown := {*table.ascending} - {*table.columns, *table.halo} | {*table.weight_sums} - {*table.columns}:
            return f"{table.key} has no columns {sorted(unknown)}"
    if document.stamps and len(document.stamps) != len(tables[0].bounds) - 1:
        return f"{len(document.stamps)} stamps of {len(tables[0].bounds) - 1} partitions"
    if document.replicas is not None and not document.replicas.is_named:
        return f"copies are called {document.replicas.name!r}"
    if document.num_blocks < 0:
        return f"there are {document.num_blocks} blocks"
    for path, record in files.items():
        if len(record.checksums) not in (1, len(chunk_begins(record.bytes))):
            return f"{path} has {record.bytes} bytes and {len(record.checksums)} checksums"
    return None


def _specs(tables: dict[Key, _Table]) -> dict[Key, TableSpec]:
    return {key: TableSpec(count=table.bounds[-1], columns=table.columns) for key, table in tables.items()}
