"""Writes a data set: partitions one at a time, the manifest last, under another name until everything has reached the disk."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from halohop.errors import DatasetError, InputError, VersionMismatchError
from halohop.files.aside import writing
from halohop.files.private import refuse_links
from halohop.files.whole import publish_folder, whole_folder, written_stream
from halohop.store.checksums import FileRecord
from halohop.store.disk import read_manifest
from halohop.store.manifest import (
    BLOCK_FILE,
    EDGE_ID_FILE,
    HALO,
    HOTNESS_FILE,
    INDICES,
    INDPTR,
    RAW_ID_FILE,
    SPARSE,
    STAMP,
    Manifest,
    column_file,
    encode,
    halo_file,
    part_folder,
    sparse_files,
    stamp_of,
    structure_file,
    table_folder,
)
from halohop.store.names import MANIFEST
from halohop.store.npy import write_array
from halohop.store.part import Part
from halohop.store.schema import ColumnSpec, Schema
from halohop.store.weight_sums import ColumnSums, with_sums, write_sums
from halohop.typing import EdgeDir, NodeType, Relation, TableKey


class DatasetWriter:
    """Takes the partitions of a data set one at a time; made by `write_dataset`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, FileRecord] = {}
        self._stamps: list[str] = []
        self._halo: dict[Relation, dict[str, ColumnSpec]] = {}
        self._ascending: dict[Relation, frozenset[str]] = {}
        self._sums: list[ColumnSums] = []
        self.finished = False

    def add(self, part: Part) -> int:
        """Writes the next partition; returns its size in bytes."""
        index = len(self._stamps)
        arrays: dict[str, Tensor | None] = {}
        for key, nodes in part.nodes.items():
            for name, array in ((RAW_ID_FILE, nodes.raw_id), (BLOCK_FILE, nodes.block), (HOTNESS_FILE, nodes.hotness)):
                arrays[structure_file(index, key, name)] = array
            arrays |= {column_file(index, key, name): column for name, column in nodes.columns.items()}
            for name, rows in nodes.sparse.items():
                stored = (rows.indptr, rows.indices, rows.values)
                arrays |= dict(zip(sparse_files(index, key, name), stored, strict=True))
        for relation, edges in part.edges.items():
            for name, ids in ((INDPTR, edges.indptr), (INDICES, edges.indices), (EDGE_ID_FILE, edges.edge_id)):
                arrays[structure_file(index, relation, name)] = ids
            arrays |= {column_file(index, relation, name): column for name, column in edges.columns.items()}
            arrays |= {halo_file(index, relation, name): column for name, column in edges.halo.items()}
            self._halo[relation] = {name: ColumnSpec.of(column) for name, column in edges.halo.items()}
            self._ascending[relation] = self._ascending.get(relation, edges.ascending) & edges.ascending
        tables: list[TableKey] = [*part.nodes, *part.edges]
        with writing(self._folder / part_folder(index)):
            (self._folder / part_folder(index)).mkdir()
            for table in tables:
                (self._folder / table_folder(index, table)).mkdir(parents=True)
            for name in (name for name, nodes in part.nodes.items() if nodes.sparse):
                (self._folder / table_folder(index, name) / SPARSE).mkdir()
            for relation in (relation for relation, edges in part.edges.items() if edges.halo):
                (self._folder / table_folder(index, relation) / HALO).mkdir()
        written = {path: write_array(self._folder / path, array) for path, array in arrays.items() if array is not None}
        self._stamps.append(stamp_of(written))
        self._write(f"{part_folder(index)}/{STAMP}", f"{self._stamps[-1]}\n".encode())
        self._files |= written
        return sum(record.bytes for record in written.values())

    def add_sums(self, index: int, part: Part, columns: dict[Relation, tuple[str, ...]], first_edge: dict[Relation, int]) -> None:
        """Writes the running sums of weights of the last partition, see `write_sums`."""
        self._sums += write_sums(self._folder, index, part.edges, columns, first_edge)

    def finish(
        self,
        *,
        schema: Schema,
        node_bounds: dict[NodeType, tuple[int, ...]],
        edge_bounds: dict[Relation, tuple[int, ...]],
        partitioned: dict[str, str | int],
        report: dict[str, Any],
        edge_dir: EdgeDir = "in",
        num_blocks: int = 0,
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
            stamps=tuple(self._stamps),
            edge_dir=edge_dir,
            num_blocks=num_blocks,
        )
        assert manifest.num_parts == len(self._stamps), (
            f"{len(self._stamps)} partitions written, bounds are of {manifest.num_parts}"
        )
        manifest = with_sums(manifest, self._sums)
        self._write(MANIFEST, encode(manifest))
        self.finished = True
        return manifest

    def _write(self, path: str, data: bytes) -> None:
        with written_stream(self._folder / path) as stream:
            stream.write(data)


@contextmanager
def write_dataset(out: str | Path, *, overwrite: bool = False) -> Iterator[DatasetWriter]:
    """A writer for a new data set, which appears under the name `out` when the block ends, or not at all.

    Args:
        out: a folder that does not exist, or is empty.
        overwrite: `out` may also be a halohop data set; the new one takes its place when it is complete.

    Raises:
        InputError: `out` exists already, or is something else than a halohop data set.
    """
    with new_dataset(Path(out).resolve(), overwrite=overwrite) as partial:
        writer = DatasetWriter(partial)
        yield writer
        assert writer.finished, "a data set without manifest"


def new_dataset(out: Path, *, overwrite: bool) -> AbstractContextManager[Path]:
    """The folder of a new data set, to be filled; the arguments and errors are those of `write_dataset`."""
    return whole_folder(out, lambda: check_target(out, overwrite=overwrite), overwrite=overwrite)


def publish_dataset(folder: Path, out: Path, *, overwrite: bool) -> None:
    """Gives a finished folder the name of the data set; the arguments and errors are those of `write_dataset`."""
    check_target(out, overwrite=overwrite)
    publish_folder(folder, out, overwrite=overwrite)


def check_target(out: Path, *, overwrite: bool) -> None:
    """
    Raises:
        InputError: as of `write_dataset`.
    """
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
    refuse_links(out)
    foreign = [path.name for path in out.iterdir() if path.name != MANIFEST and not re.fullmatch(r"part-\d{4,}", path.name)]
    if foreign:
        raise InputError(f"{out} also holds {sorted(foreign)[0]!r}, which would be deleted with the data set; move it away first")
