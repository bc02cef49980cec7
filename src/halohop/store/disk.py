"""A partitioned graph as a folder: `manifest.json`, and one `.npy` file per array.

    parts/manifest.json
    parts/part-0000/stamp
    parts/part-0000/nodes/<type>/{raw_id,block_,hotness_,<column>}.npy
    parts/part-0000/edges/<source>__<name>__<destination>/{indptr,indices,edge_id,<column>}.npy
    parts/part-0000/edges/<source>__<name>__<destination>/{halo/<column of the source>,weight_sums/<column>}.npy

A host needs the manifest and the folders of those partitions that it serves. Arrays are mapped, not read: opening takes
milliseconds, all processes of a host share the same pages, and a graph may be larger than RAM.

Each partition's folder holds a stamp that the manifest repeats, so a manifest is not taken for that of another data set's
partitions. Folders are written by `halohop.store.writer`; what a crash leaves behind is refused by name.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from halohop.errors import CorruptDatasetError, DatasetError, IncompleteDatasetError, InputError
from halohop.files.aside import UNFINISHED, mention_leftovers
from halohop.files.reading import read_regular
from halohop.files.urls import refuse_url
from halohop.ops import SparseRows
from halohop.ops.sparse import index_dtype
from halohop.store.checksums import FileRecord
from halohop.store.manifest import (
    BLOCK_FILE,
    EDGE_ID_FILE,
    HOTNESS_FILE,
    INDICES,
    INDPTR,
    RAW_ID_FILE,
    STAMP,
    VERIFYING,
    Key,
    Manifest,
    column_file,
    decode,
    halo_file,
    part_folder,
    sparse_files,
    structure_file,
    sums_file,
)
from halohop.store.names import MANIFEST
from halohop.store.npy import map_array, numpy_name
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.replica import FIRST_FILE, GID_FILE, Replica, replica_file
from halohop.store.schema import ColumnSpec
from halohop.store.verify import verify_files
from halohop.typing import NodeType, OnProgress, Relation, TableKey

_ID_DTYPES = {numpy_name(dtype): dtype for dtype in (torch.int64, torch.int32)}
_OF_GLT = "META"
_BLOCK_DTYPES = {numpy_name(dtype): dtype for dtype in (torch.uint8, torch.int16)}


def read_manifest(path: str | Path) -> Manifest:
    """What the data set in folder `path` is made of.

    Raises:
        IncompleteDatasetError: the folder was not written to its end.
        CorruptDatasetError: the manifest was changed or damaged.
        VersionMismatchError: written in another version of the format.
        DatasetError: there is no such folder.
        InputError: a URL.
    """
    refuse_url(path, "path", "fetch it first: halohop.fetch(url, folder), `halohop fetch URL FOLDER`")
    folder = Path(path).resolve()
    if UNFINISHED.search(folder.name):
        raise IncompleteDatasetError(f"{folder} was not written to its end; delete it, and run the partitioning again")
    mention_leftovers(folder)
    try:
        return decode(read_regular(folder / MANIFEST), str(folder / MANIFEST))
    except FileNotFoundError:
        if (folder / _OF_GLT).is_file():
            raise DatasetError(
                f"{folder} holds partitions that GraphLearn-for-PyTorch wrote; convert them: "
                f"halohop partition 'glt:{folder}' OUT --edge-dir out (or in, where GLT assigned edges 'by_dst')"
            ) from None
        if folder.is_dir():
            raise IncompleteDatasetError(
                f"{folder} has no {MANIFEST}: it is no halohop data set, or was not copied to its end; copy it again"
            ) from None
        replaced = [str(found) for found in _siblings(folder) if found.name.startswith(f"{folder.name}.replaced-")]
        remedy = f"; a run that was to replace it was stopped, the old data set is {replaced[0]}" if replaced else ""
        raise DatasetError(f"there is no folder {folder}{remedy}") from None


def held_parts(path: str | Path, manifest: Manifest) -> tuple[int, ...]:
    """The partitions whose folders are here; a host may hold some of them only."""
    return tuple(part for part in range(manifest.num_parts) if (Path(path) / part_folder(part)).is_dir())


def map_part(path: str | Path, manifest: Manifest, part: int, *, verify: bool = False) -> Part:
    """Partition `part`, its tensors laid over the files.

    Existence, size, dtype and shape of every file are always checked. `verify` also reads everything and compares checksums.
    Writing to the tensors changes neither the files nor what other processes see.

    Raises:
        InputError: there is no partition of that number.
        IncompleteDatasetError: the partition, or a file of it, is not here.
        CorruptDatasetError: a file is not what the manifest says, or the partition is of another data set; the file is named.
    """
    if not 0 <= part < manifest.num_parts:
        raise InputError(f"part={part}, but the data set has the partitions 0 to {manifest.num_parts - 1}")
    if not (Path(path) / part_folder(part)).is_dir():
        raise IncompleteDatasetError(f"{Path(path) / part_folder(part)} is missing: this host does not hold partition {part}")
    _check_stamp(Path(path), manifest, part)
    files = _Files(folder=Path(path), records=manifest.files)
    counts: dict[TableKey, int] = {}
    for bounds in (manifest.node_bounds, manifest.edge_bounds):
        counts |= {key: ends[part + 1] - ends[part] for key, ends in bounds.items()}
    if verify:
        verify_files(Path(path), files_of(manifest, part))
    return Part(
        nodes={key: files.nodes(part, key, manifest, counts[key]) for key in manifest.schema.nodes},
        edges={
            key: files.edges(part, key, manifest, counts[key[2] if manifest.edge_dir == "in" else key[0]], counts[key])
            for key in manifest.schema.edges
        },
    )


def map_replica(path: str | Path, manifest: Manifest, part: int) -> Replica | None:
    """The copies that lie with a partition which is here; None where the data set has none.

    Raises:
        IncompleteDatasetError, CorruptDatasetError: as of `map_part`.
    """
    if manifest.replicas is None:
        return None
    name = manifest.replicas.name
    inside, begin = replica_file(name, f"{part_folder(part)}/"), f"{part_folder(part)}/"
    records = {file.replace(inside, begin, 1): record for file, record in manifest.files.items() if file.startswith(inside)}
    files = _Files(folder=Path(path), records=records, replicas=name)
    relations = list(manifest.schema.edges) if manifest.replicas.lists else []
    gid = {key: files.ids(file, files.length(file)) for key, file in _structures(part, manifest.schema.nodes, GID_FILE)}
    listed = {key: len(gid[key[2] if manifest.edge_dir == "in" else key[0]]) for key in relations}
    return Replica(
        gid=gid,
        first={key: files.ids(file, listed[key]) for key, file in _structures(part, relations, FIRST_FILE)},
        part=Part(
            nodes={key: files.nodes(part, key, manifest, len(ids)) for key, ids in gid.items()},
            edges={
                key: files.edges(part, key, manifest, listed[key], files.length(file))
                for key, file in _structures(part, relations, INDICES)
            },
        ),
    )


def _structures(part: int, tables: Iterable[Key], name: str) -> Iterator[tuple[Key, str]]:
    """Tables, and where a structural array of each lies."""
    return ((table, structure_file(part, table, name)) for table in tables)


def verify_parts(path: str | Path, progress: OnProgress = lambda stage, done, total: None) -> None:
    """Reads every file of the partitions that are here, and compares it with its checksum. Where it was stopped, it goes on,
    if the folder may be written: what was right and has not been touched since is not read again.

    Args:
        path: the folder of the data set.
        progress: called with "verify", how many bytes are right, and of how many.

    Raises:
        DatasetError: a file is not what the manifest says; names it.
    """
    manifest = read_manifest(path)
    records = {part: files_of(manifest, part) for part in held_parts(path, manifest)}
    for part in records:
        map_part(path, manifest, part)  # what is missing or of another size is found before anything is read
        map_replica(path, manifest, part)
    right, total = 0, sum(record.bytes for files in records.values() for record in files.values())

    def report(count: int) -> None:
        nonlocal right
        right += count
        progress("verify", right, total)

    report(0)
    for part, files in records.items():
        verify_files(Path(path), files, journal=Path(path) / part_folder(part) / VERIFYING, on_bytes=report)


def files_of(manifest: Manifest, part: int) -> dict[str, FileRecord]:
    """The files of a partition, with those of its copies of others, by their paths in the data set."""
    return {path: record for path, record in manifest.files.items() if path.startswith(f"{part_folder(part)}/")}


def _check_stamp(path: Path, manifest: Manifest, part: int) -> None:
    folder = path / part_folder(part)
    try:
        found = read_regular(folder / STAMP).decode(errors="replace").strip()
    except FileNotFoundError:
        found = ""
    expected = manifest.stamps[part] if manifest.stamps else ""
    if found != expected:
        raise CorruptDatasetError(
            f"{folder} belongs to another data set than the {MANIFEST} beside it (it has {_named(found)}, the manifest says "
            f"{_named(expected)}); copy the manifest and all partitions from the same data set"
        )


def _named(stamp: str) -> str:
    return f"the stamp {stamp[:8]}" if stamp else "no stamp"


def _siblings(folder: Path) -> Iterator[Path]:
    return folder.parent.iterdir() if folder.parent.is_dir() else iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """Maps files of one data set, each against its record and against what the schema wants there.

    Args:
        folder: of the data set.
        records: of the files, by path; of copies by the paths of their originals.
        replicas: which copies these are, by name; None of originals.
    """

    folder: Path
    records: dict[str, FileRecord]
    replicas: str | None = None

    def nodes(self, part: int, key: NodeType, manifest: Manifest, rows: int) -> NodePart:
        specs, copied = manifest.schema.nodes[key].columns, self.replicas is not None
        return NodePart(
            num_nodes=rows,
            raw_id=self.optional_ids(structure_file(part, key, RAW_ID_FILE), rows),
            columns=self.columns(part, key, specs, rows),
            sparse=self.sparse(part, key, specs, rows),
            block=self.blocks(structure_file(part, key, BLOCK_FILE), rows) if manifest.num_blocks and not copied else None,
            hotness=self.optional(structure_file(part, key, HOTNESS_FILE), torch.float32, rows),
        )

    def edges(self, part: int, key: Relation, manifest: Manifest, rows: int, entries: int) -> EdgePart:
        return EdgePart(
            indptr=self.ids(structure_file(part, key, INDPTR), rows + 1),
            indices=self.ids(structure_file(part, key, INDICES), entries),
            edge_id=self.optional_ids(structure_file(part, key, EDGE_ID_FILE), entries),
            columns=self.columns(part, key, manifest.schema.edges[key].columns, entries),
            halo=self.halo(part, key, manifest.halo.get(key, {}), entries),
            ascending=frozenset(manifest.ascending.get(key, ())),
            weight_sums={
                name: self._map(sums_file(part, key, name), torch.float64, (entries // 8 + rows,))
                for name in manifest.weight_sums.get(key, {})
            },
        )

    def columns(self, part: int, table: TableKey, specs: dict[str, ColumnSpec], rows: int) -> dict[str, Tensor]:
        dense = {name: spec for name, spec in specs.items() if not spec.sparse}
        return {name: self._column(column_file(part, table, name), spec, rows) for name, spec in dense.items()}

    def sparse(self, part: int, table: TableKey, specs: dict[str, ColumnSpec], rows: int) -> dict[str, SparseRows]:
        return {name: self._sparse(sparse_files(part, table, name), spec, rows) for name, spec in specs.items() if spec.sparse}

    def _sparse(self, paths: tuple[str, str, str], spec: ColumnSpec, rows: int) -> SparseRows:
        indptr, indices, values = paths
        (width,), entries = spec.shape, [self.length(path) for path in paths]
        if entries[2] not in (1, entries[1]):
            raise CorruptDatasetError(
                f"{MANIFEST} lists {entries[1]} entries in {indices} and {entries[2]} values; write it again"
            )
        return SparseRows(
            indptr=self._map(indptr, torch.int64, (rows + 1,)),
            indices=self._map(indices, index_dtype(width), (entries[1],)),
            values=self._column(values, replace(spec, shape=()), entries[2]),
            width=width,
        )

    def length(self, path: str) -> int:
        shape = self.records[path].shape if path in self.records else ()
        return shape[0] if len(shape) == 1 else -1

    def halo(self, part: int, relation: Relation, specs: dict[str, ColumnSpec], rows: int) -> dict[str, Tensor]:
        return {name: self._column(halo_file(part, relation, name), spec, rows) for name, spec in specs.items()}

    def _column(self, path: str, spec: ColumnSpec, rows: int) -> Tensor:
        dtype = getattr(torch, spec.stored_dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise CorruptDatasetError(
                f"{MANIFEST} says {path} holds {spec.stored_dtype!r}, which this torch does not know; upgrade torch"
            )
        return self._map(path, dtype, (rows, *spec.shape))

    def optional_ids(self, path: str, rows: int) -> Tensor | None:
        return self.ids(path, rows) if path in self.records else None

    def ids(self, path: str, rows: int) -> Tensor:
        return self._one_of(path, _ID_DTYPES, rows)

    def blocks(self, path: str, rows: int) -> Tensor:
        return self._one_of(path, _BLOCK_DTYPES, rows)

    def optional(self, path: str, dtype: torch.dtype, rows: int) -> Tensor | None:
        return self._map(path, dtype, (rows,)) if path in self.records else None

    def _one_of(self, path: str, dtypes: dict[str, torch.dtype], rows: int) -> Tensor:
        """One number per row in the dtype that is recorded, if it is one of these."""
        recorded = self.records[path].dtype if path in self.records else ""
        return self._map(path, dtypes.get(recorded, next(iter(dtypes.values()))), (rows,))

    def _map(self, path: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        record = self.records.get(path)
        if record is None or record.dtype != numpy_name(dtype) or record.shape != shape:
            said = "does not list it" if record is None else f"says {record.dtype} of shape {record.shape}"
            raise CorruptDatasetError(
                f"{path} should be {dtype} of shape {shape}, but {MANIFEST} {said}; write the data set again"
            )
        place = path if self.replicas is None else replica_file(self.replicas, path)
        return map_array(self.folder / place, record, dtype)
