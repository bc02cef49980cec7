"""Columns that a user gives beside a data set: rows by the ids of nodes or edges, in memory or in a `.npy` file.

Only the rows that a process owns are read. Where partitions hold their nodes in the order of the ids, those are the file's own
pages; elsewhere they are copied once, into the order of the partitions.
"""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError, SchemaError
from halohop.ops import SparsePieces, SparseRows
from halohop.store.foreign import map_foreign
from halohop.store.manifest import Manifest, column_file, sparse_files
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.schema import ColumnSpec, Schema, TableSpec
from halohop.store.tables import is_dense
from halohop.typing import EDGE, NODE, RESERVED, TableKey

Rows: TypeAlias = Tensor | np.ndarray[Any, Any] | str | os.PathLike[str]
Given: TypeAlias = Mapping[Any, Mapping[str, Rows | tuple[Any, Rows]]]
"""By node type or relation, then by name: a row for each id from 0 on, or a pair of ids and rows. A path is that of a `.npy`."""

_STRUCTURE = ("edge_index", "num_nodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenColumn:
    """One column, before a partition's rows of it are taken.

    Args:
        label: what errors call it.
        rows: ``[n, ...]``, in memory or mapped; or sparse rows.
        spec: as the schema has it.
        ids: whose rows they are, ascending, int64 ``[n]``; None: 0 to n - 1.
        places: where the row of each of `ids` is, int64 ``[n]``; None with `ids`.
    """

    label: str
    rows: Tensor | SparseRows
    spec: ColumnSpec
    ids: Tensor | None = None
    places: Tensor | None = None

    def take(self, first: int, count: int, owned: Tensor | None) -> Tensor | SparseRows:
        """The rows of `count` owned nodes or edges: of those ids, or of the ids from `first` on.

        Raises:
            InputError: an id that has no row.
        """
        if owned is None and self.ids is None and isinstance(self.rows, Tensor):
            return self.rows[first : first + count].contiguous()
        places = self._places(torch.arange(first, first + count) if owned is None else owned.long())
        if isinstance(self.rows, Tensor):
            return self.rows.index_select(0, places)
        return SparsePieces([self.rows], [0, len(self.rows)]).take(places)

    def _places(self, owned: Tensor) -> Tensor:
        if self.ids is None or self.places is None:
            outside = owned[(owned < 0) | (owned >= len(self.rows))]
            if len(outside):
                raise InputError(
                    f"{self.label} has rows for the ids 0 to {len(self.rows) - 1}, but the graph has id {int(outside[0])}; "
                    "give a pair of ids and their rows"
                )
            return owned
        found = torch.searchsorted(self.ids, owned).clamp_(max=max(len(self.ids) - 1, 0))
        known = self.ids[found] == owned if len(self.ids) else torch.zeros(len(owned), dtype=torch.bool)
        if not bool(known.all()):
            raise InputError(f"{self.label} has no row for id {int(owned[~known][0])}; give rows for all ids that are held here")
        return self.places[found]


def read_given(columns: Given, manifest: Manifest) -> dict[TableKey, dict[str, GivenColumn]]:
    """What a user gives, checked against a data set.

    Raises:
        SchemaError: a node type or relation that the data set does not have, or a name that is taken or cannot be one.
        InputError: a file that is not there or cannot be read, rows that are no numbers, or not as many as there are ids.
    """
    if not hasattr(columns, "items"):
        raise InputError(f"columns is a {type(columns).__name__}; give a dict such as {{'node': {{'y': rows}}}}")
    found: dict[TableKey, dict[str, GivenColumn]] = {}
    for key, named in columns.items():
        table = _table(manifest.schema, key)
        if not hasattr(named, "items"):
            raise InputError(f"columns[{key!r}] is a {type(named).__name__}; give a dict of rows by the column's name")
        for name, value in sorted(named.items(), key=lambda item: str(item[0])):
            _check_name(manifest, table, name)
            count = manifest.schema.table(table).count
            found.setdefault(table, {})[name] = _column(f"columns[{table!r}][{name!r}]", value, table, count)
    _check_places(manifest.schema, found)
    return found


def with_absolute_paths(columns: Given | None) -> Given | None:
    """The same columns for a process that may have another working directory."""

    def absolute(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(absolute, value))
        return Path(value).absolute() if isinstance(value, str | os.PathLike) else value

    if columns is None:
        return None
    return {key: {name: absolute(value) for name, value in named.items()} for key, named in columns.items()}


def given_names(manifest: Manifest) -> tuple[str, ...]:
    """The columns of a data set that no file of it holds: what was given with it, as text for errors."""
    return tuple(
        f"{name!r} of {table!r} ({spec.dtype} {list(spec.shape)})"
        for table in manifest.schema.tables
        for name, spec in sorted(manifest.schema.table(table).columns.items())
        if (sparse_files(0, table, name)[0] if spec.sparse else column_file(0, table, name)) not in manifest.files
    )


def other_columns(mine: tuple[str, ...], theirs: tuple[str, ...]) -> str | None:
    """How two processes that hold one data set differ in what they were given with it; None if they do not.

    Example:
        >>> other_columns(("'y' of 'node' (int64 [])",), ())
        "was given other columns: 'y' of 'node' (int64 []) here only; give all processes that hold this data set the same columns"
    """
    here, there = (", ".join(sorted({*one} - {*other})) for one, other in ((mine, theirs), (theirs, mine)))
    if not here and not there:
        return None
    found = "; ".join(f"{names} {where} only" for names, where in ((here, "here"), (there, "there")) if names)
    return f"was given other columns: {found}; give all processes that hold this data set the same columns"


def with_given(schema: Schema, given: dict[TableKey, dict[str, GivenColumn]]) -> Schema:
    """The schema with the columns that were given, too."""

    def longer(table: TableKey, spec: TableSpec) -> TableSpec:
        return replace(spec, columns=spec.columns | {name: column.spec for name, column in given.get(table, {}).items()})

    return Schema(
        nodes={name: longer(name, spec) for name, spec in schema.nodes.items()},
        edges={relation: longer(relation, spec) for relation, spec in schema.edges.items()},
    )


def part_with(part: Part, given: dict[TableKey, dict[str, GivenColumn]], offsets: Mapping[TableKey, int]) -> Part:
    """A partition with the rows of its nodes and edges.

    Args:
        part: as it is stored.
        given: by table and name.
        offsets: the first gid of the partition in every table.

    Raises:
        InputError: a node or edge of it has no row.
    """

    def nodes(name: str, held: NodePart) -> NodePart:
        taken = {key: column.take(offsets[name], held.num_nodes, held.raw_id) for key, column in given.get(name, {}).items()}
        dense = {key: rows for key, rows in taken.items() if isinstance(rows, Tensor)}
        sparse = {key: rows for key, rows in taken.items() if not isinstance(rows, Tensor)}
        return replace(held, columns=held.columns | dense, sparse=held.sparse | sparse)

    def edges(relation: Any, held: EdgePart) -> EdgePart:
        taken = {
            key: column.take(offsets[relation], held.num_edges, held.edge_id) for key, column in given.get(relation, {}).items()
        }
        return replace(held, columns=held.columns | {key: rows for key, rows in taken.items() if isinstance(rows, Tensor)})

    return Part(
        nodes={name: nodes(name, held) for name, held in part.nodes.items()},
        edges={relation: edges(relation, held) for relation, held in part.edges.items()},
    )


def _table(schema: Schema, key: Any) -> TableKey:
    if isinstance(key, str):
        return schema.node_type(key)
    if not isinstance(key, tuple | list):
        raise InputError(f"columns has the key {key!r}; keys are node types and relations (source, name, destination)")
    return schema.relation(key)


def _check_name(manifest: Manifest, table: TableKey, name: Any) -> None:
    if not isinstance(name, str) or not name or name.startswith(RESERVED):
        raise SchemaError(f"{name!r} cannot name a column: a name is text, not empty, and does not begin with {RESERVED!r}")
    if name in _STRUCTURE:
        raise SchemaError(f"{name!r} cannot name a column: batches have their own edges and number of nodes there; rename yours")
    if name in manifest.schema.table(table).columns:
        raise SchemaError(f"{table!r} has a column {name!r} stored already; give yours another name")
    if not isinstance(table, str) and name in manifest.halo.get(table, {}):
        raise SchemaError(f"{table!r} has a column {name!r} of its sources stored (halo); give yours another name")


def _check_places(schema: Schema, given: dict[TableKey, dict[str, GivenColumn]]) -> None:
    """Batches of one type and one relation have one place for a name, whether it is a column of nodes or of edges."""
    whole = with_given(schema, given)
    if not schema.is_homogeneous:
        return
    for table, other in ((NODE, EDGE), (EDGE, NODE)):
        for name in given.get(table, {}):
            if name in whole.table(other).columns:
                raise SchemaError(
                    f"{name!r} is given for {table!r}, but {other!r} has a column of that name, and a batch has one place for "
                    "both; rename it"
                )


def _column(label: str, value: Any, table: TableKey, count: int) -> GivenColumn:
    ids = places = None
    if isinstance(value, tuple):
        if len(value) != 2:
            raise InputError(f"{label} is a tuple of {len(value)}; give rows, or a pair of ids and their rows")
        ids, places = _sorted_ids(label, value[0])
        value = value[1]
    if isinstance(value, str | os.PathLike):
        label = f"{label} ({os.fspath(value)})"
    rows = _tensor(label, value)
    what = f"nodes of {table!r}" if isinstance(table, str) else f"edges of {table!r}"
    if ids is None and len(rows) != count:
        raise InputError(
            f"{label} has {len(rows)} rows, but there are {count} {what}; give a row for each id from 0 to {count - 1}, "
            "or a pair of ids and their rows"
        )
    if ids is not None and len(rows) != len(ids):
        raise InputError(f"{label} has {len(ids)} ids and {len(rows)} rows; give a row for each id")
    spec = ColumnSpec.of(rows)
    if spec.sparse and not isinstance(table, str):
        raise InputError(f"{label} is {rows.layout}; only columns of nodes may be sparse: use .to_dense()")
    return GivenColumn(label=label, rows=_sparse(label, rows) if spec.sparse else rows, spec=spec, ids=ids, places=places)


def _sparse(label: str, rows: Tensor) -> SparseRows:
    try:
        return SparseRows.of(rows)
    except InputError as error:
        raise InputError(f"{label}: {error}") from error


def _sorted_ids(label: str, ids: Any) -> tuple[Tensor, Tensor]:
    """The ids ascending, and where each was."""
    ids = _tensor(f"ids of {label}", ids)
    if ids.dim() != 1 or ids.dtype not in (torch.int64, torch.int32):
        raise InputError(f"ids of {label} are {ids.dtype} of shape {tuple(ids.shape)}; give int64 in one dimension")
    ids, places = ids.long().sort(stable=True)
    twice = ids[1:][ids.diff() == 0]
    if len(twice):
        raise InputError(f"ids of {label} hold {int(twice[0])} twice; give one row for each id")
    return ids, places


def _tensor(label: str, value: Any) -> Tensor:
    """A user's rows as a tensor over their own memory."""
    if isinstance(value, str | os.PathLike):
        value = map_foreign(Path(value))
    if isinstance(value, np.ndarray):
        value = _of_array(label, value)
    if not isinstance(value, Tensor):
        raise InputError(f"{label} is a {type(value).__name__}; give a tensor, an array, or the path of a .npy file")
    if value.device.type != "cpu" or value.is_quantized:
        raise InputError(f"{label} is a {value.dtype} tensor on {value.device}; give one of plain numbers on the CPU: .cpu()")
    if value.dim() == 0:
        raise InputError(f"{label} is a single number; give a row for each id")
    rows: Tensor = value.detach()
    return rows.resolve_conj().resolve_neg() if is_dense(rows) else rows


def _of_array(label: str, array: np.ndarray[Any, Any]) -> Tensor:
    try:
        with warnings.catch_warnings():  # torch has no tensors that cannot be written, and warns of arrays; this one is only read
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            return torch.from_numpy(array)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{label} holds {array.dtype}, which torch cannot take ({error}); give integers, floats or bools in native byte order"
        ) from error
