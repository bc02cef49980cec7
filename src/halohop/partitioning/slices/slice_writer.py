"""Several processes write slices of a graph as they read them; `halohop.slices.join_slices` makes the partitions."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import torch
from torch import Tensor

from halohop import ops
from halohop.errors import IdError, InputError, SchemaError
from halohop.files.aside import writing
from halohop.files.whole import sealed_file, whole_folder
from halohop.partitioning.book import check_edge_dir
from halohop.partitioning.slices.agreement import id_sums
from halohop.partitioning.slices.owners import Owner, Owners
from halohop.store.manifest import table_folder
from halohop.store.npy import bytes_of
from halohop.store.schema import ColumnSpec, specs_of
from halohop.store.tables import check_columns, check_edge_index, check_ids, check_names, check_relation, is_dense
from halohop.typing import EdgeDir, NodeType, Relation, TableKey, relation_text

RECORD = "slices.json"
IDS, ENDS = "id", "ends"
LENGTHS, PLACES, VALUES = "lengths", "places", "values"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSlices:
    """What one writer has of a table.

    Args:
        key: ``[type]``, or ``[source, name, destination]``.
        columns: what rows hold, in the order of the first rows.
        counts: rows per partition.
        sums: of the ids, and of their squares, modulo 2**64.
        shared: per sparse column, what value all entries have, in hexadecimal; none where there are no entries, and two words
            where there are several values.
    """

    key: tuple[str, ...]
    columns: dict[str, ColumnSpec]
    counts: list[int]
    sums: tuple[int, int] = (0, 0)
    shared: dict[str, list[str]] = field(default_factory=dict)

    @property
    def table(self) -> TableKey:
        """The key as everywhere else."""
        return self.key[0] if len(self.key) == 1 else (self.key[0], self.key[1], self.key[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicesRecord:
    """What a writer has written, and how it was told to divide it."""

    num_parts: int
    edge_dir: EdgeDir
    owners: dict[NodeType, str]
    tables: list[TableSlices]

    @property
    def keys(self) -> list[TableKey]:
        """The node types, then the relations."""
        return [table.table for table in self.tables]


class SliceWriter:
    """Takes slices of nodes and edges, in any order, and puts each row where its partition will look for it; a context manager.

    Nothing is kept in memory but the owners of nodes. What is written appears when the block ends; a writer that was stopped
    starts again, and one that has finished is replaced by another one of its number.

    Args:
        folder: for the slices of all writers.
        writer: the number of this one: 0, 1, ...
        num_parts: how many partitions there will be.
        owner: the partition of every node, per node type: integers ``[num_nodes]`` by id, or ranges: see `NodeSlice`.
        relations: all relations of the graph, in the order that it will have.
        edge_dir: "in": edges go to the owner of their destination, or "out": of their source.

    Raises:
        InputError: an owner book that is none, or no relation that could be one.
        WriteError: the folder cannot be written.

    Example:
        >>> import torch, halohop
        >>> owner, ring = {"node": torch.tensor([0, 1, 0, 1])}, ("node", "to", "node")
        >>> for number in range(2):  # each in a process of its own
        ...     with SliceWriter("slices", writer=number, num_parts=2, owner=owner, relations=[ring]) as slices:
        ...         own = torch.arange(2) + 2 * number
        ...         slices.add_nodes("node", own, {"x": own.float()})
        ...         slices.add_edges(ring, torch.stack([own, (own + 1) % 4]), own)
        >>> report = halohop.slices.join_slices("slices", "parts", num_writers=2, owner=owner)
        >>> with halohop.open("parts") as graph:
        ...     graph.rows("x", torch.tensor([3, 0])).tolist()
        [3.0, 0.0]
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        writer: int,
        num_parts: int,
        owner: Mapping[NodeType, Owner],
        relations: Sequence[Relation] = (),
        edge_dir: EdgeDir = "in",
    ) -> None:
        check_edge_dir(edge_dir)
        if writer < 0:
            raise InputError(f"writer={writer} is below 0; number the writers 0, 1, ...")
        for relation in relations:
            check_relation(relation, owner)
        check_names(owner, relations)
        self._owners = {name: Owners.of(book, num_parts, f"{name} node") for name, book in owner.items()}
        self._num_parts, self._edge_dir = num_parts, edge_dir
        self._keys: list[TableKey] = [*self._owners, *relations]
        self._tables: dict[TableKey, TableSlices] = {}
        self._fed: set[TableKey] = set()
        self._target, self._stack = writer_folder(folder, writer), ExitStack()
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        self._tables = {
            table: TableSlices(key=(table,) if isinstance(table, str) else table, columns={}, counts=[0] * self._num_parts)
            for table in self._keys
        }
        self._fed = set()
        self._folder = self._stack.enter_context(whole_folder(self._target, lambda: None, overwrite=True))
        with writing(self._folder):
            for part in range(self._num_parts):
                for table in self._tables:
                    (self._folder / table_folder(part, table)).mkdir(parents=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        folder, self._folder = self._folder, None
        assert folder is not None
        if error is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            digests = {name: owners.digest for name, owners in self._owners.items()}
            tables = list(self._tables.values())
            record = SlicesRecord(num_parts=self._num_parts, edge_dir=self._edge_dir, owners=digests, tables=tables)
            with sealed_file(folder / RECORD) as stream:
                stream.write(msgspec.json.encode(record))

    def add_nodes(
        self,
        node_type: NodeType,
        id: Tensor,
        columns: Mapping[str, Tensor] | None = None,
        *,
        names: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Takes rows of some nodes; all rows of a type have the same columns.

        Args:
            id: of the nodes, integers ``[n]``; each node comes once, from any writer.
            columns: ``[n, ...]`` each.
            names: by column, of its values 0, 1, 2, ... where the user's were strings.

        Raises:
            SchemaError: there is no such type.
            InputError: rows that are not one for each id, or other columns than before.
            IdError: a node that has no owner.
        """
        self._require(node_type, "node type")
        check_ids(id, None, "id of nodes")
        ids, columns = id.detach().cpu().long(), columns or {}
        check_columns(columns, len(ids), "nodes")
        owners = self._owners[node_type]
        _require_owned(ids, owners, f"nodes of {node_type!r}")
        self._describe(node_type, specs_of(columns, names or {}))
        self._append(node_type, owners.of_ids(ids), ids, {IDS: ids}, columns)

    def add_edges(
        self, relation: Relation, edge_index: Tensor, edge_id: Tensor, columns: Mapping[str, Tensor] | None = None
    ) -> None:
        """Takes some edges of a relation; all have the same columns.

        Args:
            edge_index: ids of sources and destinations, integers ``[2, n]``.
            edge_id: numbers of the edges in the whole relation, integers ``[n]``; each of 0, 1, 2, ... comes once.
            columns: ``[n, ...]`` each.

        Raises:
            SchemaError: the relation was not named at first.
            InputError: rows that are not one for each edge, or other columns than before.
            IdError: an edge that names a node without an owner.
        """
        self._require(relation, "relation")
        check_edge_index(edge_index)
        check_ids(edge_id, edge_index.size(1), "edge_id")
        columns = columns or {}
        check_columns(columns, len(edge_id), "edges")
        ends = edge_index.detach().cpu().long()
        for row, name in enumerate(relation[::2]):
            _require_owned(ends[row], self._owners[name], f"edges of {relation_text(relation)}")
        end = 1 if self._edge_dir == "in" else 0
        ids = edge_id.detach().cpu().long()
        self._describe(relation, specs_of(columns, {}))
        self._append(relation, self._owners[relation[2 * end]].of_ids(ends[end]), ids, {IDS: ids, ENDS: ends.T}, columns)

    def _require(self, key: TableKey, what: str) -> None:
        if self._folder is None:
            raise InputError("this SliceWriter is not open, so nothing can be added; write `with SliceWriter(...) as slices:`")
        if key not in self._tables:
            raise SchemaError(f"unknown {what} {key!r}; known: {self._keys}")

    def _describe(self, table: TableKey, columns: dict[str, ColumnSpec]) -> None:
        slices = self._tables[table]
        if table in self._fed and list(slices.columns.items()) != list(columns.items()):
            raise InputError(f"rows of {table!r} have the columns {columns}, but had {slices.columns} at first; give the same")
        self._tables[table] = replace(slices, columns=columns)
        self._fed.add(table)

    def _append(
        self, table: TableKey, part: Tensor, ids: Tensor, arrays: dict[str, Tensor], columns: Mapping[str, Tensor]
    ) -> None:
        assert self._folder is not None
        slices = self._tables[table]
        starts, order = ops.build_csc(part, self._num_parts)
        sums = [(known + more) % 2**64 for known, more in zip(slices.sums, id_sums(ids), strict=True)]
        sparse = {name: ops.SparseRows.of(column) for name, column in columns.items() if not is_dense(column)}
        shared = {name: sorted({*slices.shared.get(name, []), *_shared(rows)})[:2] for name, rows in sparse.items()}
        counts = [known + more for known, more in zip(slices.counts, starts.diff().tolist(), strict=True)]
        self._tables[table] = replace(slices, counts=counts, sums=(sums[0], sums[1]), shared=shared)
        files = {name: column_file(number) for number, name in enumerate(columns)}
        dense = {files[name]: column for name, column in columns.items() if is_dense(column)}
        for index in range(self._num_parts):
            some = order[starts[index] : starts[index + 1]]
            folder = self._folder / table_folder(index, table)
            for file, array in (arrays | dense).items():
                _add_to(folder / file, ops.gather_rows(array.detach().cpu().contiguous(), some))
            for name, entries in sparse.items():
                taken = ops.SparsePieces([entries], [0, len(entries)]).take(some)
                _add_to(folder / f"{files[name]}.{LENGTHS}", taken.indptr.diff().long())
                _add_to(folder / f"{files[name]}.{PLACES}", taken.indices.long())
                _add_to(folder / f"{files[name]}.{VALUES}", taken.values.expand(len(taken.indices)))


def column_file(number: int) -> str:
    """The file of a column, by its place among the columns."""
    return f"column-{number}"


def writer_folder(folder: str | Path, writer: int) -> Path:
    """Where a writer's slices are.

    Example:
        >>> writer_folder("slices", 3).name
        'writer-0003'
    """
    return Path(folder) / f"writer-{writer:04d}"


def _shared(rows: ops.SparseRows) -> list[str]:
    """The value of all entries, none if there are no entries, and two if there are several."""
    if not len(rows.indices):
        return []
    if len(rows.values) > 1:
        return ["several", "values"]
    return [bytes(value).hex() for value in rows.values.view(-1, 1).view(torch.uint8).numpy()]


def _require_owned(ids: Tensor, owners: Owners, what: str) -> None:
    unknown = ((ids < 0) | (ids >= owners.count)).nonzero().view(-1)
    if len(unknown):
        raise IdError(
            f"{what} name node {int(ids[unknown[0]])}, which has no owner: the owner book has {owners.count} nodes; give an "
            "owner for every node"
        )


def _add_to(file: Path, array: Tensor) -> None:
    with writing(file), file.open("ab") as stream:
        stream.write(bytes_of(array.contiguous()))
