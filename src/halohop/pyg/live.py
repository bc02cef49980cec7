"""The rows of a PyG graph in memory, read from the user's object whenever a batch asks for them.

A user may change a graph between two batches: bind a column anew, add or delete one, write into one. Every batch has what the
graph holds when the loop gets the batch, as with PyG's loaders that make batches in the training process.
"""

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop import ops
from halohop.cluster.device import DeviceGraph
from halohop.errors import InputError, SchemaError
from halohop.ops.device import DevicePool
from halohop.pyg.attributes import Rows, copied, is_sparse, plain, put, rows_of, stores_of
from halohop.pyg.near import block_of, check_place, is_there, near
from halohop.pyg.state import Attribute, State, is_now, state_of
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock, tensor_bytes
from halohop.sampling.columns import Columns
from halohop.sampling.padding import fill_places
from halohop.store.schema import ColumnSpec, Schema, TableSpec
from halohop.typing import EDGE_ID, RAW_ID, Relation, TableKey

Fill = Callable[[str, torch.dtype], float]
"""What a column holds in the empty places of a padded batch, by its name and dtype."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a graph held at one time.

    Args:
        number: how many times it was seen changed.
        data: a shallow copy of it, so that a change while a batch is made does not reach half of the batch.
        state: of every storage, its key and its attributes.
        rows: the attributes that have rows, by table.
        sparse: those of them that are sparse matrices, by table and name, as their tensor and as rows that can be taken.
    """

    number: int
    data: Data | HeteroData
    state: State
    rows: dict[TableKey, list[Rows]]
    sparse: dict[tuple[TableKey, str], tuple[Tensor, int | None, ops.SparsePieces]] = field(default_factory=dict)


class LiveRows:
    """Rows of a `Data` or `HeteroData`.

    Args:
        data: the user's graph.
        schema: how many rows its tables have. Neither nodes nor edges may change afterwards.
        pool: where the memory of batches comes from.

    Raises:
        InputError: an attribute that cannot be divided into rows.
    """

    def __init__(self, data: Data | HeteroData, schema: Schema, pool: ops.Pool) -> None:
        self._data = data
        self._counts: dict[TableKey, int] = {name: spec.count for name, spec in schema.nodes.items()}
        self._counts |= {relation: spec.count for relation, spec in schema.edges.items()}
        self._pool = pool
        self._lock = threading.Lock()
        self._lent: dict[tuple[TableKey, str], Attribute] = {}
        self._view = View(number=-1, data=data, state=[], rows={})
        self._view = self._seen(0)

    @property
    def columns(self) -> dict[TableKey, list[str]]:
        """The attributes that have rows, by node type and relation."""
        rows = self.view().rows
        return {table: [found.key for found in rows.get(table, ())] for table in self._counts}

    def view(self) -> View:
        """The graph as it is now. Its number is another one than before if an attribute has changed in between.

        Raises:
            InputError: its nodes, edges or types have changed, or an attribute cannot be divided into rows.
        """
        view = self._view
        if is_now(view.state, self._data):
            return view
        with self._lock:
            if not is_now(self._view.state, self._data):
                self._view = self._seen(self._view.number + 1)
            return self._view

    def lend(self) -> dict[TableKey, dict[str, ops.Pieces]]:
        """The columns that a device can read by itself, as kernels read them; each for as long as it is not changed."""
        found: dict[TableKey, dict[str, ops.Pieces]] = {}
        for rows in (rows for columns in self.view().rows.values() for rows in columns):
            if rows.pieces is not None:
                self._lent[rows.table, rows.key] = Attribute.of(rows.value)
                found.setdefault(rows.table, {})[rows.key] = rows.pieces
        return found

    def check_device(self, pool: DevicePool) -> None:
        """
        Raises:
            InputError: a column lies on another device.
        """
        for rows in (rows for columns in self.view().rows.values() for rows in columns):
            check_place(rows, pool)

    def _read_there(self, rows: Rows, block: NodeBlock | EdgeBlock) -> bool:
        """Whether a device reads the rows by itself: the column is still what it was when it was lent, and one table's."""
        if isinstance(block, EdgeBlock) and block.flips is not None:
            return False
        known, now = self._lent.get((rows.table, rows.key)), Attribute.of(rows.value)
        return known is not None and known.value is now.value and (known.version, known.address) == (now.version, now.address)

    def described(self, schema: Schema) -> Schema:
        """The schema with all columns that batches have."""
        rows = self.view().rows

        def spec(table: TableKey, count: int) -> TableSpec:
            tensors = [found for found in rows.get(table, ()) if isinstance(found.value, Tensor) and found.dim == 0]
            return TableSpec(count=count, columns={found.key: ColumnSpec.of(found.value) for found in tensors})

        return Schema(
            nodes={name: spec(name, known.count) for name, known in schema.nodes.items()},
            edges={relation: spec(relation, known.count) for relation, known in schema.edges.items()},
        )

    def has(self, table: TableKey, name: str) -> bool:
        """Whether there is such a column now, whose rows are tensors."""
        return name not in (RAW_ID, EDGE_ID) and self._column(self.view(), table, name) is not None

    def taken(self, table: TableKey, name: str, ids: Tensor, *, padded: bool) -> Tensor | ops.SparseRows:
        """Rows of a column that there is, on the CPU, by the user's ids; zeros where an id is -1, if they are padded."""
        view = self.view()
        rows = self._column(view, table, name)
        assert rows is not None
        if is_sparse(rows.value):
            return view.sparse[table, name][2].take(ids, padded=padded, pool=self._pool)
        found: Tensor = self._taken(rows, ids, padded, lambda key, dtype: 0)
        return found.detach().cpu()

    def _column(self, view: View, table: TableKey, name: str) -> Rows | None:
        found = (rows for rows in view.rows.get(table, ()) if rows.key == name and rows.dim == 0)
        return next((rows for rows in found if isinstance(rows.value, Tensor)), None)

    def check_processes(self) -> None:
        """
        Raises:
            InputError: rows that a forked process cannot give back.
        """
        for rows in (rows for columns in self.view().rows.values() for rows in columns):
            value = rows.value
            if isinstance(value, Tensor) and (value.requires_grad or value.device.type != "cpu"):
                why = "requires a gradient" if value.requires_grad else f"lies on {value.device}"
                raise InputError(f"{rows.key!r} {why}, which does not reach worker processes; use run='threads'")

    def _seen(self, number: int) -> View:
        data = copy.copy(self._data)
        state, known = state_of(data), stores_of(data)
        if {key for key, _ in known} - {*self._counts}:
            raise InputError(f"the graph has got {[key for key, _ in known if key not in self._counts]}; make the loader anew")
        for key, store in known:
            edges = None if isinstance(key, str) else store.get("edge_index")
            if edges is not None and edges.size(1) != self._counts[key]:
                raise InputError(
                    f"the graph has {edges.size(1)} edges {key}, but had {self._counts[key]} at first; make the loader anew"
                )
        rows: dict[TableKey, list[Rows]] = {}
        for found in rows_of(data, self._counts):
            rows.setdefault(found.table, []).append(found.prepared())
        sparse = {
            (found.table, found.key): self._sparse(found)
            for columns in rows.values()
            for found in columns
            if is_sparse(found.value)
        }
        return View(number=number, data=data, state=state, rows=rows, sparse=sparse)

    def _sparse(self, rows: Rows) -> tuple[Tensor, int | None, ops.SparsePieces]:
        """Made once for a matrix, until it is written to."""
        known, version = self._view.sparse.get((rows.table, rows.key)), Attribute.of(rows.value).version
        if known is not None and known[0] is rows.value and known[1] == version:
            return known
        if rows.value.requires_grad or rows.value.device.type != "cpu":
            why = "requires a gradient" if rows.value.requires_grad else f"lies on {rows.value.device}"
            raise InputError(f"{rows.key!r} is sparse and {why}, which only dense columns may: use .to_dense()")
        return rows.value, version, ops.SparsePieces([ops.SparseRows.of(rows.value)], [0, len(rows.value)])

    def filled(
        self, batch: Batch, columns: Columns, fill: Fill, layout: torch.layout, *, there: DeviceGraph | None = None
    ) -> tuple[Data | HeteroData, int]:
        """A copy of the graph with the rows of a batch, as far as their columns are asked for, and what these weigh in bytes.

        Of a batch that lies on a device (`there`) the rows do, too: it reads those of columns that were lent by itself.
        """
        view = self.view()
        beside = {} if there is None else self._beside(view, batch, columns, there.pool)
        out = copied(view.data)
        num_bytes = 0
        for table, store in stores_of(out):
            block = block_of(batch, table)
            has_rows, taken = False, dict[str, Any]()
            for rows in view.rows.get(table, ()):
                if not columns.has(table, rows.key):
                    del store[rows.key]
                    continue
                has_rows = True
                reads = there if there is not None and self._read_there(rows, block) else None
                own = block if reads is not None or is_there(rows) else beside.get(table, block)
                if is_sparse(rows.value):
                    found = self._of_sparse(rows, own, view, fill, layout)
                else:
                    found = self._of_block(rows, own, view, fill, reads)
                if there is not None and isinstance(found, Tensor):
                    found = there.pool.put(found)
                taken[rows.key] = found
                num_bytes += tensor_bytes(found) if isinstance(found, Tensor) else 0
            put(store, taken)
            if isinstance(table, str) and ("num_nodes" in store._mapping or not has_rows):
                store.num_nodes = len(block.gid)
        return out, num_bytes

    def _beside(self, view: View, batch: Batch, columns: Columns, pool: DevicePool) -> dict[TableKey, NodeBlock | EdgeBlock]:
        """The blocks whose rows the host reads, some of them, with their ids there."""
        needed = []
        for table, known in view.rows.items():
            asked = [rows for rows in known if columns.has(table, rows.key)]
            for rows in asked:
                check_place(rows, pool)
            block = block_of(batch, table)
            if not all(is_there(rows) or self._read_there(rows, block) for rows in asked):
                needed.append(table)
        return near(batch, needed, pool)

    def _of_block(self, rows: Rows, block: NodeBlock | EdgeBlock, view: View, fill: Fill, there: DeviceGraph | None) -> Any:
        if isinstance(block, NodeBlock):
            return self._taken(rows, block.gid, block.padded, fill, there)  # in memory gids are the user's ids
        ids = block.columns[EDGE_ID]
        if block.flips is None:
            return self._taken(rows, ids, block.padded, fill, there)
        both = (rows, _partner_of(rows, block.flips.relation, view))
        places = block.own_and_flipped()
        taken = [self._taken(values, ops.gather_rows(ids, own), False, fill) for values, own in zip(both, places, strict=True)]
        if not all(map(plain, both)):
            shape = [len(ids) if dim == rows.dim else size for dim, size in enumerate(rows.value.shape)]
            out = rows.value.new_full(shape, fill(rows.key, rows.value.dtype))
            for values, own in zip(taken, places, strict=True):
                out = out.index_copy(rows.dim, own.to(out.device), values)
            return out
        out = self._pool.empty((len(ids), *rows.value.shape[1:]), rows.value.dtype)
        for values, own in zip(taken, places, strict=True):
            ops.scatter_rows(values, own, out)
        if block.padded:
            ops.fill_missing(out, block.gid, fill(rows.key, rows.value.dtype))
        return out

    def _of_sparse(self, rows: Rows, block: NodeBlock | EdgeBlock, view: View, fill: Fill, layout: torch.layout) -> Tensor:
        found = view.sparse[rows.table, rows.key][2].take(block.gid, padded=block.padded, pool=self._pool)
        out = found.dense(self._pool) if layout == torch.strided else found.csr()
        if block.padded:
            fill_places(rows.key, out, block.gid, fill(rows.key, out.dtype))
        return out

    def _taken(self, rows: Rows, ids: Tensor, padded: bool, fill: Fill, there: DeviceGraph | None = None) -> Any:
        """The rows with these ids; where an id is -1, what fills an empty place."""
        value = rows.value
        if there is not None or rows.pieces is not None or plain(rows):
            gather = ops.gather_known if padded else ops.gather_rows
            if there is not None:
                out = there.take(rows.table, rows.key, ids, padded=padded)
            else:
                out = gather(value if rows.pieces is None else rows.pieces, ids, pool=self._pool)
            if padded:
                fill_places(rows.key, out, ids, fill(rows.key, value.dtype))
            return out
        if not isinstance(value, Tensor):
            if padded:
                raise InputError(f"attribute {rows.key!r} of type {type(value).__name__} has no empty rows; leave out pad")
            return value[ids]
        taken = value.index_select(rows.dim, ids.clamp(min=0) if ids.is_cuda else ids.clamp(min=0).to(value.device))
        if not padded:
            return taken
        if ids.is_cuda:
            shape = [1] * value.dim()
            shape[rows.dim] = len(ids)
            return taken.masked_fill((ids < 0).view(shape), fill(rows.key, value.dtype))
        missing = (ids < 0).nonzero().view(-1).to(value.device)
        return taken.index_fill(rows.dim, missing, fill(rows.key, value.dtype))


def _partner_of(rows: Rows, partner: Relation, view: View) -> Rows:
    """The column of the same name whose rows the flips of another relation keep."""
    for other in view.rows.get(partner, ()):
        tensors = isinstance(rows.value, Tensor) and isinstance(other.value, Tensor)
        if other.key == rows.key and tensors and _kind(rows) == _kind(other):
            return other
    raise SchemaError(
        f"flips of {partner} are edges of {rows.table} and keep their features, but {rows.key!r} is not alike in both; "
        "remove it, or add it where it is missing"
    )


def _kind(rows: Rows) -> tuple[Any, ...]:
    value = rows.value
    return value.dtype, rows.dim, value.shape[: rows.dim], value.shape[rows.dim + 1 :], value.device
