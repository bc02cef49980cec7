"""Columns added to a data set on disk: `halohop.add_columns`."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from halohop.cluster.holding import Holding
from halohop.errors import InputError, SchemaError
from halohop.files.aside import remove, writing
from halohop.files.whole import sync_tree, write_file
from halohop.store.given import Given, GivenColumn, part_with, read_given, with_given
from halohop.store.manifest import Manifest, column_file, encode, sparse_files, table_folder
from halohop.store.names import MANIFEST
from halohop.store.npy import write_array
from halohop.store.part import Part
from halohop.store.schema import Schema, TableSpec
from halohop.typing import TableKey

_Named = dict[TableKey, dict[str, GivenColumn]]


def add_columns(path: str | Path, columns: Given) -> None:
    """Stores further columns of nodes and edges with the partitions of a graph; public as `halohop.add_columns`.

    For features that come after the graph was divided. The manifest is replaced at the end, so a failure leaves the data set as
    it was, and processes that have it open go on with what they have. A column that is stored already, with the same rows, stays:
    the same call again changes nothing. Copy the whole folder to its hosts again, or add columns before it is copied.

    Args:
        path: a data set, all of whose partitions are here.
        columns: by node type or relation, then by name: rows by id, as `columns` of `halohop.open`.

    Raises:
        SchemaError: a type or relation that is not there, or a column that is stored with other rows.
        InputError: rows that do not fit, a partition is missing, or there are copies of nodes, which would lack the columns.
        DatasetError: the folder is no complete, healthy data set.
        WriteError: the disk is full, or cannot be written.

    Example:
        >>> import tempfile, torch, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = halohop.partition(synthetic("tiny"), f"{folder}/parts", num_parts=2, method="random")
        ...     add_columns(f"{folder}/parts", {"node": {"age": torch.arange(1000)}})
        ...     with halohop.open(f"{folder}/parts") as graph:
        ...         graph.rows("age", torch.tensor([7, 3])).tolist()
        [7, 3]
    """
    folder = Path(path).resolve()
    holding = Holding.to_change(folder, "columns are added")
    manifest = holding.manifest
    given = read_given(columns, replace(manifest, schema=_without(manifest.schema, columns)))
    new = {
        table: {name: column for name, column in named.items() if name not in manifest.schema.table(table).columns}
        for table, named in given.items()
    }
    grown = {part: _grown(holding, part, given) for part in holding.parts}
    for part, rows in grown.items():
        _check_stored(manifest, part, holding.parts[part], given, rows)
    if not any(new.values()):
        return
    if manifest.replicas is not None:
        raise InputError(
            f"partitions of {folder} have copies of others' nodes, which would lack {[*columns]}; remove the copies first: "
            "halohop.add_replicas(path, None)"
        )
    with ExitStack() as undo:
        files = {}
        for part, rows in grown.items():
            for file, array in _files(part, rows, new):
                with writing(folder / file):
                    (folder / file).parent.mkdir(exist_ok=True)
                remove(folder / file)  # what a killed run left: no manifest names it
                undo.callback(remove, folder / file)
                files[file] = write_array(folder / file, array)
        for part in grown:
            for table in new:
                sync_tree(folder / table_folder(part, table))
        written = replace(manifest, schema=with_given(manifest.schema, new), files=manifest.files | files)
        write_file(folder / MANIFEST, encode(written))
        undo.pop_all()


def _without(schema: Schema, columns: Given) -> Schema:
    """The schema as it was before columns of these names."""

    def bare(table: TableKey, spec: TableSpec) -> TableSpec:
        named = columns.get(table, {}) if hasattr(columns, "items") else {}
        return replace(spec, columns={name: column for name, column in spec.columns.items() if name not in named})

    return Schema(
        nodes={name: bare(name, spec) for name, spec in schema.nodes.items()},
        edges={relation: bare(relation, spec) for relation, spec in schema.edges.items()},
    )


def _grown(holding: Holding, part: int, given: _Named) -> Part:
    """A partition with the given rows of its nodes and edges, in place of those that it has."""
    offsets = {table: holding.book.offset(table, part) for table in holding.manifest.schema.tables}
    return part_with(holding.parts[part], given, offsets)


def _check_stored(manifest: Manifest, part: int, held: Part, given: _Named, grown: Part) -> None:
    """
    Raises:
        SchemaError: a partition has other rows of a column.
    """
    for table, named in given.items():
        stored = manifest.schema.table(table).columns
        for name, column in named.items():
            if name not in stored:
                continue
            alike = replace(stored[name], names=()) == column.spec
            if not alike or not all(map(torch.equal, _stored(held, table, name), _stored(grown, table, name))):
                raise SchemaError(f"partition {part} has a column {name!r} of {table!r} with other rows; give it another name")


def _stored(part: Part, table: TableKey, name: str) -> tuple[Tensor, ...]:
    """What the files of a column hold: its rows, or if they are sparse where they begin, places in the row, and values."""
    if isinstance(table, str) and name in part.nodes[table].sparse:
        rows = part.nodes[table].sparse[name]
        return rows.indptr.long(), rows.indices, rows.values
    return ((part.nodes[table] if isinstance(table, str) else part.edges[table]).columns[name],)


def _files(part: int, grown: Part, new: _Named) -> Iterator[tuple[str, Tensor]]:
    """The files of a partition's new columns, and what they hold."""
    for table, named in new.items():
        for name, column in named.items():
            files = sparse_files(part, table, name) if column.spec.sparse else (column_file(part, table, name),)
            yield from zip(files, _stored(grown, table, name), strict=True)
