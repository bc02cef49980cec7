"""A partitioned graph as a folder: `manifest.json`, and one `.npy` file per array.

    parts/manifest.json
    parts/part-0000/nodes/<type>/{raw_id,<column>}.npy
    parts/part-0000/edges/<source>__<name>__<destination>/{indptr,indices,edge_id,<column>,halo/<column of the source>}.npy

A host needs the manifest and the folders of those partitions that it serves. Arrays are mapped, not read: opening takes
milliseconds, all processes of a host share the same pages, and a graph may be larger than RAM.

A folder is written under another name, its manifest last, and renamed when everything has reached the disk. Whatever a crash
leaves behind is refused by name.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from halohop.errors import CorruptDatasetError, DatasetError, IncompleteDatasetError, InputError, VersionMismatchError
from halohop.store.manifest import (
    HALO,
    INDICES,
    INDPTR,
    MANIFEST,
    FileRecord,
    Manifest,
    column_file,
    decode,
    encode,
    halo_file,
    part_folder,
    structure_file,
    table_folder,
)
from halohop.store.npy import map_array, numpy_name, write_array
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.schema import ColumnSpec, Schema
from halohop.typing import EDGE_ID, RAW_ID, NodeType, Relation, TableKey

__all__ = [
    "DatasetWriter",
    "FileRecord",
    "Manifest",
    "held_parts",
    "map_part",
    "read_manifest",
    "sync_folder",
    "whole_file",
    "write_dataset",
]

_PARTIAL = re.compile(r"\.partial-[0-9a-f]{8}$")
_ID_DTYPES = {numpy_name(dtype): dtype for dtype in (torch.int32, torch.int64)}


def read_manifest(path: str | Path) -> Manifest:
    """What the data set in folder `path` is made of.

    Raises:
        IncompleteDatasetError: the folder was not written to its end.
        CorruptDatasetError: the manifest was changed or damaged.
        VersionMismatchError: written in another version of the format.
        DatasetError: there is no such folder.
    """
    folder = Path(path).resolve()
    if _PARTIAL.search(folder.name):
        raise IncompleteDatasetError(f"{folder} was not written to its end; delete it, and run the partitioning again")
    try:
        return decode((folder / MANIFEST).read_bytes(), str(folder / MANIFEST))
    except FileNotFoundError:
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
        CorruptDatasetError: a file is not what the manifest says; the file is named.
    """
    if not 0 <= part < manifest.num_parts:
        raise InputError(f"part={part}, but the data set has the partitions 0 to {manifest.num_parts - 1}")
    if not (Path(path) / part_folder(part)).is_dir():
        raise IncompleteDatasetError(f"{Path(path) / part_folder(part)} is missing: this host does not hold partition {part}")
    files = _Files(folder=Path(path), records=manifest.files, verify=verify)
    counts: dict[TableKey, int] = {}
    for bounds in (manifest.node_bounds, manifest.edge_bounds):
        counts |= {key: ends[part + 1] - ends[part] for key, ends in bounds.items()}
    nodes = {
        key: NodePart(
            num_nodes=counts[key],
            raw_id=files.optional_ids(structure_file(part, key, RAW_ID), counts[key]),
            columns=files.columns(part, key, spec.columns, counts[key]),
        )
        for key, spec in manifest.schema.nodes.items()
    }
    edges = {
        key: EdgePart(
            indptr=files.ids(structure_file(part, key, INDPTR), counts[key[2]] + 1),
            indices=files.ids(structure_file(part, key, INDICES), counts[key]),
            edge_id=files.optional_ids(structure_file(part, key, EDGE_ID), counts[key]),
            columns=files.columns(part, key, spec.columns, counts[key]),
            halo=files.halo(part, key, manifest.halo.get(key, {}), counts[key]),
            ascending=frozenset(manifest.ascending.get(key, ())),
        )
        for key, spec in manifest.schema.edges.items()
    }
    return Part(nodes=nodes, edges=edges)


class DatasetWriter:
    """Takes the partitions of a data set one at a time; made by `write_dataset`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, FileRecord] = {}
        self._num_parts = 0
        self._halo: dict[Relation, dict[str, ColumnSpec]] = {}
        self._ascending: dict[Relation, frozenset[str]] = {}
        self.finished = False

    def add(self, part: Part) -> int:
        """Writes the next partition; returns its size in bytes."""
        index, self._num_parts = self._num_parts, self._num_parts + 1
        (self._folder / part_folder(index)).mkdir()
        arrays: dict[str, Tensor | None] = {}
        for key, nodes in part.nodes.items():
            arrays[structure_file(index, key, RAW_ID)] = nodes.raw_id
            arrays |= {column_file(index, key, name): column for name, column in nodes.columns.items()}
        for relation, edges in part.edges.items():
            for name, ids in ((INDPTR, edges.indptr), (INDICES, edges.indices), (EDGE_ID, edges.edge_id)):
                arrays[structure_file(index, relation, name)] = ids
            arrays |= {column_file(index, relation, name): column for name, column in edges.columns.items()}
            arrays |= {halo_file(index, relation, name): column for name, column in edges.halo.items()}
            self._halo[relation] = {name: ColumnSpec.of(column) for name, column in edges.halo.items()}
            self._ascending[relation] = self._ascending.get(relation, edges.ascending) & edges.ascending
        tables: list[TableKey] = [*part.nodes, *part.edges]
        for table in tables:
            (self._folder / table_folder(index, table)).mkdir(parents=True)
        for relation in (relation for relation, edges in part.edges.items() if edges.halo):
            (self._folder / table_folder(index, relation) / HALO).mkdir()
        written = {path: write_array(self._folder / path, array) for path, array in arrays.items() if array is not None}
        self._files |= written
        return sum(record.bytes for record in written.values())

    def finish(
        self,
        *,
        schema: Schema,
        node_bounds: dict[NodeType, tuple[int, ...]],
        edge_bounds: dict[Relation, tuple[int, ...]],
        partitioned: dict[str, str | int],
        report: dict[str, Any],
    ) -> Manifest:
        """Writes the manifest, after the last partition; the arguments are those of `Manifest`."""
        manifest = Manifest(
            schema=schema,
            node_bounds=node_bounds,
            edge_bounds=edge_bounds,
            files=self._files,
            partitioned=partitioned,
            report=report,
            halo=self._halo,
            ascending={relation: tuple(sorted(names)) for relation, names in self._ascending.items()},
        )
        assert manifest.num_parts == self._num_parts, f"{self._num_parts} partitions written, bounds are of {manifest.num_parts}"
        for folder in [path for path in self._folder.rglob("*") if path.is_dir()]:
            sync_folder(folder)
        with (self._folder / MANIFEST).open("xb") as stream:
            stream.write(encode(manifest))
            stream.flush()
            os.fsync(stream.fileno())
        sync_folder(self._folder)
        self.finished = True
        return manifest


@contextmanager
def write_dataset(out: str | Path, *, overwrite: bool = False) -> Iterator[DatasetWriter]:
    """A writer for a new data set, which appears under the name `out` when the block ends, or not at all.

    Args:
        out: a folder that does not exist, or is empty.
        overwrite: `out` may also be a halohop data set; the new one takes its place when it is complete.

    Raises:
        InputError: `out` exists already, or is something else than a halohop data set.
    """
    out = Path(out).resolve()
    _check_target(out, overwrite=overwrite)
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = _aside(out, "partial")
    partial.mkdir()
    try:
        writer = DatasetWriter(partial)
        yield writer
        assert writer.finished, "a data set without manifest"
        _check_target(out, overwrite=overwrite)  # somebody else may have written meanwhile
        _publish(partial, out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check_target(out: Path, *, overwrite: bool) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not overwrite:
        raise InputError(f"{out} exists; choose another folder, or pass overwrite=True to replace the data set there")
    try:
        read_manifest(out)
    except VersionMismatchError:
        pass  # an older data set is replaced too: that is the remedy which read_manifest names
    except (DatasetError, NotADirectoryError) as error:
        raise InputError(f"{out} is not a halohop data set and is not overwritten; delete it yourself ({error})") from error
    foreign = [path.name for path in out.iterdir() if path.name != MANIFEST and not re.fullmatch(r"part-\d{4,}", path.name)]
    if foreign:
        raise InputError(f"{out} also holds {sorted(foreign)[0]!r}, which would be deleted with the data set; move it away first")


def _publish(partial: Path, out: Path) -> None:
    replaced = None
    if out.exists() and any(out.iterdir()):
        # Between the two renames a crash leaves no folder `out`; read_manifest then says where the old one is.
        replaced = out.rename(_aside(out, "replaced"))
    try:
        partial.rename(out)
    except OSError:
        if replaced is not None:
            replaced.rename(out)
        raise
    sync_folder(out.parent)
    if replaced is not None:
        shutil.rmtree(replaced)  # whoever has mapped it keeps its pages


def _aside(out: Path, why: str) -> Path:
    return out.with_name(f"{out.name}.{why}-{secrets.token_hex(4)}")


def _siblings(folder: Path) -> Iterator[Path]:
    return folder.parent.iterdir() if folder.parent.is_dir() else iter(())


@contextmanager
def whole_file(file: Path, suffix: str = "new") -> Iterator[IO[bytes]]:
    """A file that appears under its name when all of it is written, and stays through a crash; until then what was there remains.

    Args:
        file: the name.
        suffix: of the unfinished file; one for each of several processes that may write the same file at a time.
    """
    partial = file.with_name(f"{file.name}.{suffix}")
    with partial.open("wb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable; the files' contents are synced on their own."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """Maps files of one data set, each against its record and against what the schema wants there."""

    folder: Path
    records: dict[str, FileRecord]
    verify: bool

    def columns(self, part: int, table: TableKey, specs: dict[str, ColumnSpec], rows: int) -> dict[str, Tensor]:
        return {name: self._column(column_file(part, table, name), spec, rows) for name, spec in specs.items()}

    def halo(self, part: int, relation: Relation, specs: dict[str, ColumnSpec], rows: int) -> dict[str, Tensor]:
        return {name: self._column(halo_file(part, relation, name), spec, rows) for name, spec in specs.items()}

    def _column(self, path: str, spec: ColumnSpec, rows: int) -> Tensor:
        dtype = getattr(torch, spec.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise CorruptDatasetError(
                f"{MANIFEST} says {path} holds {spec.dtype!r}, which this torch does not know; upgrade torch"
            )
        return self._map(path, dtype, (rows, *spec.shape))

    def optional_ids(self, path: str, rows: int) -> Tensor | None:
        return self.ids(path, rows) if path in self.records else None

    def ids(self, path: str, rows: int) -> Tensor:
        recorded = self.records[path].dtype if path in self.records else ""
        return self._map(path, _ID_DTYPES.get(recorded, torch.int64), (rows,))

    def _map(self, path: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        record = self.records.get(path)
        if record is None or record.dtype != numpy_name(dtype) or record.shape != shape:
            said = "does not list it" if record is None else f"says {record.dtype} of shape {record.shape}"
            raise CorruptDatasetError(
                f"{path} should be {dtype} of shape {shape}, but {MANIFEST} {said}; write the data set again"
            )
        return map_array(self.folder / path, record, dtype, verify=self.verify)
