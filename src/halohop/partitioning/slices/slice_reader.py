"""Partitions of slices that several processes have written, one at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.errors import CorruptDatasetError, IncompleteDatasetError, InputError
from halohop.files.reading import decode_json
from halohop.files.whole import read_sealed
from halohop.flags import checks_flags
from halohop.partitioning.book import Book
from halohop.partitioning.building.numbering import NodeNumbers
from halohop.partitioning.building.parts import check_halo
from halohop.partitioning.building.report import Report, measure
from halohop.partitioning.slices.agreement import check_id_sums
from halohop.partitioning.slices.own_parts import OwnBook, own_part, with_edge_ids
from halohop.partitioning.slices.owners import Owner, Owners
from halohop.partitioning.slices.slice_writer import (
    ENDS,
    IDS,
    LENGTHS,
    PLACES,
    RECORD,
    VALUES,
    SlicesRecord,
    TableSlices,
    column_file,
    writer_folder,
)
from halohop.partitioning.slices.slices import EdgeSlice, MemoryPartition, NodeSlice
from halohop.store.manifest import table_folder
from halohop.store.part import Part
from halohop.store.schema import ColumnSpec, Schema, TableSpec
from halohop.store.weight_sums import weight_columns
from halohop.store.writer import write_dataset
from halohop.typing import SOURCE_ID, NodeType, Relation, TableKey


@checks_flags
def join_slices(
    folder: str | Path,
    out: str | Path,
    *,
    num_writers: int,
    owner: Mapping[NodeType, Owner],
    halo: Sequence[str] = (),
    weight_sums: Sequence[str] = (),
    overwrite: bool = False,
) -> Report:
    """Makes a partitioned graph of what several `SliceWriter`s have written; the files are those of `halohop.partition`.

    One partition at a time is in memory, besides the owners of all nodes and the columns of the halo.

    Args:
        folder: of the slices; it stays as it is.
        out: the new folder; it appears when it is complete.
        num_writers: how many writers there were, numbered from 0 on.
        owner: as the writers had it.
        halo, weight_sums: as of `halohop.partition`.
        overwrite: whether to replace a halohop data set in `out`.

    Returns:
        Cut and balance; the data set keeps them too.

    Raises:
        IncompleteDatasetError: a writer has not finished.
        InputError: writers that were not given the same, nodes or edges that are missing or come twice, an impossible weight, or
            `out` is there.
        SchemaError: no column of weights is called so.
    """
    slices = _Slices.of(Path(folder), num_writers, owner)
    num_parts, weights = slices.book.num_parts, weight_columns(slices.schema.edge_columns, weight_sums)
    with write_dataset(out, overwrite=overwrite) as writer:
        borrowed = slices.borrowed(halo)
        reports = []
        numbered = slices.are_numbered()
        for index in range(num_parts):
            part = slices.part(index, borrowed, numbered)
            reports.append(measure(part, slices.book, index, num_bytes=writer.add(part)))
            writer.add_sums(index, part, weights, {relation: slices.book.offset(relation, index) for relation in weights})
            del part  # before the next one is made: only one at a time fits
        report = Report(parts=tuple(reports))
        writer.finish(
            schema=slices.schema,
            node_bounds=slices.book.nodes,
            edge_bounds=slices.book.edges,
            partitioned={"method": "given", "seed": 0},
            report=report.to_dict(),
            edge_dir=slices.book.edge_dir,
        )
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slices:
    """The slices of all writers.

    Args:
        folders: of the writers.
        tables: per writer, what it has of each table.
        owners, numbers: of all nodes.
        book: who owns what.
        columns: what rows of each table hold.
    """

    folders: list[Path]
    tables: list[dict[TableKey, TableSlices]]
    owners: OwnBook
    numbers: dict[NodeType, NodeNumbers]
    book: Book
    columns: dict[TableKey, dict[str, ColumnSpec]]

    @classmethod
    def of(cls, folder: Path, num_writers: int, owner: Mapping[NodeType, Owner]) -> "_Slices":
        if num_writers < 1:
            raise InputError(f"num_writers={num_writers}; give the number of writers, at least 1")
        folders = [writer_folder(folder, writer) for writer in range(num_writers)]
        records = [_record(path) for path in folders]
        first = records[0]
        books = {name: Owners.of(given, first.num_parts, f"{name} node") for name, given in owner.items()}
        digests = {name: owners.digest for name, owners in books.items()}
        for path, record in zip(folders, records, strict=True):
            if (record.num_parts, record.edge_dir, record.keys) != (first.num_parts, first.edge_dir, first.keys):
                raise InputError(
                    f"{path} was written with another num_parts, edge_dir or relations than {folders[0]}; give all the same"
                )
            if record.owners != digests:
                raise InputError(f"{path} was written with other owners of nodes than are given now; give the same")
        tables = [{table.table: table for table in record.tables} for record in records]
        columns = {key: _columns([table[key] for table in tables], folders) for key in first.keys}
        relations = [key for key in first.keys if not isinstance(key, str)]
        counts = {key: torch.tensor([table[key].counts for table in tables]).sum(0).tolist() for key in relations}
        for relation in relations:
            check_id_sums(relation, [table[relation].sums for table in tables], sum(counts[relation]))
        book = Book(
            nodes={name: owners.bounds for name, owners in books.items()},
            edges={relation: (0, *accumulate(counts[relation])) for relation in relations},
            edge_dir=first.edge_dir,
        )
        return cls(
            folders=folders,
            tables=tables,
            owners=OwnBook(nodes=books, edges=dict.fromkeys(relations)),
            numbers={name: owners.numbers() for name, owners in books.items()},
            book=book,
            columns=columns,
        )

    @property
    def schema(self) -> Schema:
        def spec(key: TableKey) -> TableSpec:
            return TableSpec(count=self.book.bounds(key)[-1], columns=self.columns[key])

        return Schema(nodes={name: spec(name) for name in self.book.nodes}, edges={key: spec(key) for key in self.book.edges})

    def part(self, index: int, borrowed: dict[NodeType, dict[str, Tensor]], numbered: set[Relation]) -> Part:
        """A partition; `borrowed` are columns of nodes for the halo, `numbered` the relations whose edge ids are the gids."""
        given = MemoryPartition(
            part=index,
            num_parts=self.book.num_parts,
            nodes={name: self._nodes(name, index) for name in self.book.nodes},
            edges={relation: self._edges(relation, index, borrowed) for relation in self.book.edges},
            edge_dir=self.book.edge_dir,
        )
        part = with_edge_ids(own_part(given, self.owners, self.numbers), self.book.edges)
        edges = {key: replace(own, edge_id=None) if key in numbered else own for key, own in part.edges.items()}
        nodes = {
            name: replace(own, sparse={key: self._shared(name, key, rows) for key, rows in own.sparse.items()})
            for name, own in part.nodes.items()
        }
        return Part(nodes=nodes, edges=edges)

    def borrowed(self, halo: Sequence[str]) -> dict[NodeType, dict[str, Tensor]]:
        """Columns of all nodes, by the user's ids, that are to be stored along the edges from them."""
        check_halo(halo, [self.columns[table] for table in self.book.nodes])
        names = sorted(dict.fromkeys(halo), key=lambda name: name == SOURCE_ID)  # the order in which they are stored
        return {
            table: {name: self._whole(table, name) for name in names if name in (*self.columns[table], SOURCE_ID)}
            for table in self.book.nodes
        }

    def are_numbered(self) -> set[Relation]:
        """The relations whose edges have the ids 0, 1, 2, ... in the order of their gids, in all partitions."""
        return {
            relation
            for relation in self.book.edges
            if all(self._is_numbered(relation, index) for index in range(self.book.num_parts))
        }

    def _is_numbered(self, relation: Relation, index: int) -> bool:
        ids, order = self._read(relation, index, IDS, torch.int64).sort()
        low, high = self.book.bounds(relation)[index : index + 2]
        if not torch.equal(ids, torch.arange(low, high)):
            return False
        name, end = self.book.list_type(relation), self.book.list_end
        gid = self.numbers[name].gid
        raw = self._read(relation, index, ENDS, torch.int64, (2,))[order, end]
        return bool(((raw if gid is None else gid[raw]).diff() >= 0).all())

    def _whole(self, table: NodeType, name: str) -> Tensor:
        count = self.book.bounds(table)[-1]
        if name == SOURCE_ID:
            return torch.arange(count)
        found = torch.zeros(count, dtype=getattr(torch, self.columns[table][name].dtype))
        for index in range(self.book.num_parts):
            found[self._read(table, index, IDS, torch.int64)] = self._column(table, index, name)
        return found

    def _nodes(self, name: NodeType, index: int) -> NodeSlice:
        columns = {key: self._column(name, index, key) for key in self.columns[name]}
        fed = any(table[name].columns or any(table[name].counts) for table in self.tables)
        ids = self._read(name, index, IDS, torch.int64) if fed else None
        return NodeSlice(owner=(), id=ids, columns=columns)

    def _edges(self, relation: Relation, index: int, borrowed: dict[NodeType, dict[str, Tensor]]) -> EdgeSlice:
        ends = self._read(relation, index, ENDS, torch.int64, (2,)).T
        neighbors = ends[1 - self.book.list_end]
        return EdgeSlice(
            edge_index=ends,
            edge_id=self._read(relation, index, IDS, torch.int64),
            columns={key: self._column(relation, index, key) for key in self.columns[relation]},
            halo={name: rows[neighbors] for name, rows in borrowed[self.book.neighbor_type(relation)].items()},
        )

    def _column(self, table: TableKey, index: int, name: str) -> Tensor:
        spec = self.columns[table][name]
        dtype, file = getattr(torch, spec.dtype), column_file(list(self.columns[table]).index(name))
        if not spec.sparse:
            return self._read(table, index, file, dtype, spec.shape)
        lengths = self._read(table, index, f"{file}.{LENGTHS}", torch.int64)
        row = torch.repeat_interleave(lengths)
        places = self._read(table, index, f"{file}.{PLACES}", torch.int64, rows=len(row))
        values = self._read(table, index, f"{file}.{VALUES}", dtype, rows=len(row))
        return torch.sparse_coo_tensor(torch.stack([row, places]), values, (len(lengths), *spec.shape), check_invariants=True)

    def _shared(self, table: NodeType, name: str, rows: ops.SparseRows) -> ops.SparseRows:
        """With one value for all entries, where those of all partitions have the same."""
        values = {value for slices in self.tables for value in slices[table].shared.get(name, [])}
        if len(values) > 1:
            return rows
        value = bytearray.fromhex(values.pop()) if values else bytearray(rows.values.itemsize)
        return replace(rows, values=torch.frombuffer(value, dtype=rows.values.dtype))

    def _read(
        self, table: TableKey, index: int, file: str, dtype: torch.dtype, shape: tuple[int, ...] = (), *, rows: int | None = None
    ) -> Tensor:
        """An array of a partition, the slices of all writers end to end: of `rows` rows, or one for each row of the table."""
        parts = []
        for folder, tables in zip(self.folders, self.tables, strict=True):
            path = folder / table_folder(index, table) / file
            parts.append(torch.from_numpy(np.fromfile(path, np.uint8)) if path.exists() else torch.empty(0, dtype=torch.uint8))
            expected = tables[table].counts[index] * dtype.itemsize * int(np.prod(shape, dtype=np.int64))
            if rows is None and len(parts[-1]) != expected:
                raise CorruptDatasetError(f"{path} has {len(parts[-1])} bytes, expected {expected}; run its writer again")
        data = torch.cat(parts)
        count = sum(tables[table].counts[index] for tables in self.tables) if rows is None else rows
        return data.view(dtype).view(count, *shape)


def _record(folder: Path) -> SlicesRecord:
    try:
        data = read_sealed(folder / RECORD)
    except IncompleteDatasetError:
        raise IncompleteDatasetError(f"{folder} is missing or incomplete: its writer has not finished; run it again") from None
    return decode_json(data, folder / RECORD, SlicesRecord)


def _columns(slices: list[TableSlices], folders: list[Path]) -> dict[str, ColumnSpec]:
    """The columns of a table, which all writers of some of its rows agree on."""
    known: tuple[dict[str, ColumnSpec], Path] | None = None
    for own, folder in zip(slices, folders, strict=True):
        if not own.columns and not any(own.counts):
            continue
        if known is not None and list(known[0].items()) != list(own.columns.items()):
            raise InputError(
                f"rows of {own.table!r} have the columns {list(own.columns)} in {folder} and {list(known[0])} in {known[1]}, or "
                "these of other dtypes or shapes; give all rows the same columns, in one order"
            )
        known = (own.columns, folder)
    return {} if known is None else known[0]
