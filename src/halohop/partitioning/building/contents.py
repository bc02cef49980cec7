"""What the partitions of a build hold, once all their rows are written: every file, its checksums, and the manifest."""

import errno
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from halohop.errors import WriteError
from halohop.files.aside import writing
from halohop.files.whole import written_stream
from halohop.partitioning.book import Book
from halohop.partitioning.building.fields import Table
from halohop.partitioning.building.report import PartReport, measure
from halohop.partitioning.building.sorting import SortedLists
from halohop.store.checksums import Extent, FileRecord
from halohop.store.disk import map_part
from halohop.store.filling import ArraySpec
from halohop.store.manifest import STAMP, Manifest, part_folder, stamp_of, table_folder
from halohop.store.npy import ArrayFile
from halohop.store.part import Part
from halohop.store.schema import ColumnSpec, Schema
from halohop.typing import EdgeDir, NodeType, Relation, TableKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The files of a data set.

    Args:
        schema: of the graph.
        book: who owns what.
        bare: of each partition, the files in which nothing was written.
        records: of all files of each partition.
        halo: as of `Manifest`.
        ascending: likewise.
        num_blocks: likewise.
    """

    schema: Schema
    book: Book
    bare: tuple[tuple[ArraySpec, ...], ...]
    records: tuple[dict[str, FileRecord], ...]
    halo: dict[Relation, dict[str, ColumnSpec]]
    ascending: dict[Relation, tuple[str, ...]]
    num_blocks: int

    def finish_part(self, folder: Path, part: int) -> tuple[Part, PartReport]:
        """Makes the folders and files of a partition in which nothing was written, measures it, and writes its stamp."""
        with writing(folder / part_folder(part)):
            for table in self.schema.tables:
                (folder / table_folder(part, table)).mkdir(parents=True, exist_ok=True)
        for array in self.bare[part]:
            ArrayFile.provided(folder / array.path, array.dtype, array.shape).close()
        self._check_names(folder, part)
        with written_stream(folder / part_folder(part) / STAMP) as stream:
            stream.write(f"{stamp_of(self.records[part])}\n".encode())
        found = map_part(folder, self.manifest({}, {}), part)
        return found, measure(found, self.book, part, num_bytes=sum(record.bytes for record in self.records[part].values()))

    def _check_names(self, folder: Path, part: int) -> None:
        """
        Raises:
            WriteError: the file system takes two names for one, as some do with x and X.
        """
        first: dict[str, str] = {}
        for path in self.records[part]:
            other = first.setdefault(path.casefold(), path)
            if other != path and (folder / other).samefile(folder / path):
                reason = f"{folder / other} has the same name there; name the columns or types differently"
                raise WriteError.of(folder / path, FileExistsError(errno.EEXIST, reason))

    def manifest(self, partitioned: Mapping[str, str | int], report: Mapping[str, Any]) -> Manifest:
        """The manifest; `partitioned` and `report` are its own."""
        return Manifest(
            schema=self.schema,
            node_bounds=self.book.nodes,
            edge_bounds=self.book.edges,
            files={path: record for records in self.records for path, record in records.items()},
            partitioned=dict(partitioned),
            report=dict(report),
            halo=self.halo,
            ascending=self.ascending,
            stamps=tuple(map(stamp_of, self.records)),
            edge_dir=self.book.edge_dir,
            num_blocks=self.num_blocks,
        )


def contents_of(
    schema: Schema,
    node_bounds: dict[NodeType, tuple[int, ...]],
    edge_dir: EdgeDir,
    tables: Mapping[TableKey, Table],
    results: Iterable[Mapping[str, Any]],
    num_blocks: int,
) -> Contents:
    """What steps have written.

    Args:
        schema: of the graph.
        node_bounds, edge_dir: of the book.
        tables: which were to be stored.
        results: of the steps that wrote them; each may have "extents", "lists" of a "table", and "arrays" besides its fields.
        num_blocks: as of `Manifest`.
    """
    extents: dict[str, list[Extent]] = {}
    lists: dict[TableKey, list[SortedLists]] = {}
    arrays: list[tuple[int, ArraySpec]] = []
    sparse: dict[TableKey, list[tuple[int, ArraySpec]]] = {}
    for result in results:
        for path, written in result.get("extents", {}).items():
            extents.setdefault(path, []).extend((begin, end, checksum) for begin, end, checksum in written)
        if "lists" in result:
            lists.setdefault(_key(result["table"]), []).append(msgspec.convert(result["lists"], SortedLists))
        for part, path, dtype, shape in result.get("arrays", ()):
            array = ArraySpec(path=path, dtype=getattr(torch, dtype), shape=tuple(shape))
            sparse.setdefault(_key(result["table"]), []).append((part, array))
    for key, table in tables.items():
        found = lists.get(key, [])
        bounds = found[0].bounds if table.lists else node_bounds[str(key)]
        arrays += table.arrays(bounds, with_id=not all(one.in_order for one in found))
        arrays += sparse.get(key, ())
    num_parts = len(next(iter(node_bounds.values()))) - 1
    by_part = tuple(tuple(array for owner, array in arrays if owner == part) for part in range(num_parts))
    relations = [key for key in tables if isinstance(key, tuple)]
    return Contents(
        schema=schema,
        book=Book(nodes=node_bounds, edges={relation: lists[relation][0].bounds for relation in relations}, edge_dir=edge_dir),
        bare=tuple(tuple(array for array in part if not extents.get(array.path)) for part in by_part),
        records=tuple({array.path: array.record(extents.get(array.path, ())) for array in part} for part in by_part),
        halo={
            relation: {name: ColumnSpec.of(torch.empty(0, dtype=dtype)) for name, dtype in tables[relation].halo.items()}
            for relation in relations
        },
        ascending={
            relation: tuple(sorted(tables[relation].times - {name for one in lists[relation] for name in one.falling}))
            for relation in relations
        },
        num_blocks=num_blocks,
    )


def _key(names: Sequence[str] | str) -> TableKey:
    return names if isinstance(names, str) else (names[0], names[1], names[2])
