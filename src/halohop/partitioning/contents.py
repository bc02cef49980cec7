"""What the partitions of a build hold, once all their rows are written: every file, its checksums, and the manifest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import torch

from halohop.files.aside import writing
from halohop.files.whole import write_file
from halohop.partitioning.book import Book
from halohop.partitioning.fields import Table
from halohop.partitioning.report import PartReport, measure
from halohop.partitioning.sorting import SortedLists
from halohop.store.checksums import Extent, FileRecord
from halohop.store.disk import map_part
from halohop.store.filling import ArraySpec
from halohop.store.manifest import STAMP, Manifest, part_folder, stamp_of, table_folder
from halohop.store.npy import ArrayFile
from halohop.store.schema import ColumnSpec, Schema
from halohop.typing import EdgeDir, NodeType, Relation, TableKey


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The files of a data set.

    Args:
        schema: of the graph.
        book: who owns what.
        arrays: partition and file.
        extents: what was written of each file, by path.
        halo: as of `Manifest`.
        ascending: likewise.
        num_blocks: likewise.
    """

    schema: Schema
    book: Book
    arrays: tuple[tuple[int, ArraySpec], ...]
    extents: Mapping[str, Sequence[Extent]]
    halo: dict[Relation, dict[str, ColumnSpec]]
    ascending: dict[Relation, tuple[str, ...]]
    num_blocks: int

    def finish_part(self, folder: Path, part: int) -> PartReport:
        """Makes the folders and files of a partition in which nothing was written, measures it, and writes its stamp."""
        with writing(folder / part_folder(part)):
            for table in self.schema.tables:
                (folder / table_folder(part, table)).mkdir(parents=True, exist_ok=True)
        for owner, array in self.arrays:
            if owner == part:
                ArrayFile.provided(folder / array.path, array.dtype, array.shape).close()
        write_file(folder / part_folder(part) / STAMP, f"{self.stamps[part]}\n".encode())
        found = map_part(folder, self.manifest({}, {}), part)
        return measure(found, self.book, part, num_bytes=sum(record.bytes for record in self.records[part].values()))

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
            stamps=self.stamps,
            edge_dir=self.book.edge_dir,
            num_blocks=self.num_blocks,
        )

    @cached_property
    def records(self) -> tuple[dict[str, FileRecord], ...]:
        """Of the files of each partition, by path."""
        found: tuple[dict[str, FileRecord], ...] = tuple({} for _ in range(self.book.num_parts))
        for part, array in self.arrays:
            found[part][array.path] = array.record(self.extents.get(array.path, ()))
        return found

    @cached_property
    def stamps(self) -> tuple[str, ...]:
        return tuple(stamp_of(records) for records in self.records)


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
    relations = [key for key in tables if isinstance(key, tuple)]
    return Contents(
        schema=schema,
        book=Book(nodes=node_bounds, edges={relation: lists[relation][0].bounds for relation in relations}, edge_dir=edge_dir),
        arrays=tuple(arrays),
        extents=extents,
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
