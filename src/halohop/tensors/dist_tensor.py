"""`halohop.DistTensor`: a table of rows that lie with the partitions, read and written by the user's ids."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.cluster.tables.names import described
from halohop.cluster.tables.tables import Tables
from halohop.errors import InputError, SchemaError
from halohop.init import Init, beginning_of
from halohop.tables.spec import MAX_NAME, Storage, TableSpec
from halohop.typing import NodeType, Relation, TableKey


class DistTensor:
    """Rows of the nodes of a type, of the edges of a relation, or of their own, which all clients of a graph read and write.

    Each row lies with the owner of its node or edge, in memory or on disk, and begins as `init` says; nothing is sent for that.
    Changes are made at all owners or at none. A named table is found by other processes by its name, and is there until it is
    dropped or its owners end; `halohop.DistEmbedding` trains one, and checkpoints keep it.

    Args:
        graph: from `halohop.open`, `halohop.connect` or `halohop.graph`.
        shape: ``[num_rows, *row_shape]``; of nodes or edges the first may be None, for as many as there are.
        dtype: of the entries.
        name: the same in all processes that share it; None: a table of its own, which is to be dropped by hand.
        init: of `halohop.init`, or a callable that returns rows ``[n, *row_shape]`` for ids (int64 ``[n]``), which one of the
            clients calls, some rows at a time. None: zeros.
        node_type: whose rows they are; ids are the user's.
        relation: whose rows they are; ids are places of edges in the user's input (`e_id` of batches).
        storage: "memory", or "disk" for files of the owners that they map (`tables=` of `halohop.open` and `halohop.serve`).
        seed: of random beginnings.

    Raises:
        InputError: a table of this name that differs, a wrong number of rows, or an `init` that does not fit.
        SchemaError: no such node type or relation.
        ClusterError: only some owners have the table: one was started again.
        TransportError: an owner cannot be asked; names it.

    Example:
        >>> import halohop
        >>> from halohop.datasets import synthetic
        >>> from halohop.cluster.graph import in_memory
        >>> graph = in_memory(synthetic("tiny"))
        >>> state = DistTensor(graph, (None, 2), name="state", node_type="node")
        >>> state[torch.tensor([5, 2])] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> state.add(torch.tensor([2]), torch.tensor([[0.5, 0.5]]))
        >>> state[torch.tensor([2, 7])].tolist(), state.shape
        ([[3.5, 4.5], [0.0, 0.0]], (1000, 2))
        >>> state.drop()
    """

    def __init__(
        self,
        graph: Graph,
        shape: Sequence[int | None],
        dtype: torch.dtype = torch.float32,
        name: str | None = None,
        init: Init | Callable[[Tensor], Tensor] | None = None,
        *,
        node_type: NodeType | None = None,
        relation: Relation | None = None,
        storage: Storage = "memory",
        seed: int = 0,
    ) -> None:
        key = _key_of(graph, node_type, relation)
        num_rows, row_shape = _sizes(graph, shape, key)
        name = f"unnamed-{secrets.token_hex(8)}" if name is None else name
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise InputError(f"name={name!r} is no name of a table; give text of 1 to {MAX_NAME} characters")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise InputError(f"seed={seed!r} is no whole number; give one, such as 0")
        if storage not in get_args(Storage):
            raise InputError(f"storage={storage!r} is none of {list(get_args(Storage))}")
        if not isinstance(dtype, torch.dtype):
            raise InputError(f"dtype={dtype!r} is none of torch's; give one, such as torch.float32")
        begin, rows_of = beginning_of(init, num_rows, row_shape, seed=seed)
        if begin.kind == "column" and key is not None and not graph.stores(key, begin.name):
            begin, rows_of = replace(begin, kind="given"), partial(_column, graph, key, begin.name)
        spec = TableSpec(
            name=name,
            key=key,
            num_rows=num_rows,
            shape=row_shape,
            dtype=str(dtype).removeprefix("torch."),
            begin=begin,
            storage=storage,
        )
        graph.tables.make(spec, rows_of)
        self._graph, self._spec = graph, spec

    @classmethod
    def attach(cls, graph: Graph, name: str) -> "DistTensor":
        """A table that another process has made, by its name.

        Raises:
            SchemaError: there is none.
            ClusterError, TransportError: as of `DistTensor`.
        """
        made = cls.__new__(cls)
        made._graph, made._spec = graph, graph.tables.spec(name)
        return made

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def spec(self) -> TableSpec:
        """What the table is."""
        return self._spec

    @property
    def graph(self) -> Graph:
        """Whose table it is."""
        return self._graph

    @property
    def shape(self) -> tuple[int, ...]:
        """``[num_rows, *row_shape]``."""
        return (self._spec.num_rows, *self._spec.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self._spec.torch_dtype

    def __len__(self) -> int:
        return self._spec.num_rows

    def __repr__(self) -> str:
        of = "" if self._spec.key is None else f", of {self._spec.key!r}"
        return f"DistTensor({self.name!r}, shape={self.shape}, dtype={self.dtype}{of})"

    def gid(self, ids: Tensor) -> Tensor:
        """Where rows lie (int64 ``[n]``): what `graph.tables` takes.

        Args:
            ids: integers ``[n]``.

        Raises:
            IdError: an id that the table does not have.
            InputError: ids of another type, or not one-dimensional.
        """
        return self._graph.tables.locate(self._spec, ids)

    def __getitem__(self, ids: Tensor) -> Tensor:
        """Rows ``[n, *row_shape]`` of some ids.

        Raises:
            IdError, InputError: as of `gid`.
            SchemaError: the table was dropped.
            PeerLostError: an owner is lost; names it.
            ClusterError: an owner was started again, empty.
        """
        gid = self.gid(ids)
        return self._tables.read(self.name, gid)

    def __setitem__(self, ids: Tensor, rows: Tensor | float) -> None:
        """Writes rows; of equal ids the last stays. Nothing is written where that fails.

        Args:
            ids: integers ``[n]``.
            rows: ``[n, *row_shape]`` in the table's dtype, or one number.

        Raises:
            IdError, SchemaError, PeerLostError, ClusterError: as of reading.
            InputError: rows of another number, shape or dtype.
        """
        gid = self.gid(ids)
        if isinstance(rows, bool | int | float | complex):
            try:
                rows = torch.full((len(gid), *self._spec.shape), rows, dtype=self.dtype)
            except (RuntimeError, OverflowError) as error:
                raise InputError(f"{rows!r} is no {self.dtype}, which table {self.name!r} has; give one: {error}") from error
        self._tables.write(self.name, gid, rows)

    def add(self, ids: Tensor, rows: Tensor) -> None:
        """Adds to rows; those of equal ids are all added.

        Args, Raises: as of writing; `InputError` also where torch cannot add this dtype.
        """
        gid = self.gid(ids)
        self._tables.add(self.name, gid, rows)

    def drop(self) -> None:
        """Ends the table, for all clients; its memory is free then.

        Raises:
            SchemaError: it was dropped before.
        """
        self._graph.tables.drop(self.name)

    @property
    def _tables(self) -> Tables:
        """Those of the graph, which have this one."""
        tables = self._graph.tables
        found = tables.spec(self.name)
        if found is not self._spec and found.digest != self._spec.digest:
            raise SchemaError(f"table {self.name!r} was dropped and made as {described(found)}; attach it again")
        return tables

    def __reduce__(self) -> tuple[Any, ...]:
        return DistTensor.attach, (self._graph, self.name)


def _column(graph: Graph, key: TableKey, name: str, ids: Tensor) -> Tensor:
    """Rows of a column that lies in the user's object."""
    gid = graph.locate(ids, key) if isinstance(key, str) else graph.locate_edges(key, ids)
    (rows,) = graph.fetch_rows(key, [name], gid)
    return rows


def _key_of(graph: Graph, node_type: NodeType | None, relation: Relation | None) -> TableKey | None:
    """Whose rows a table has."""
    if node_type is not None and relation is not None:
        raise InputError(f"node_type={node_type!r} and relation={relation!r} are both given; rows belong to one of them")
    if relation is not None:
        return graph.schema.relation(relation)
    return None if node_type is None else graph.schema.node_type(node_type)


def _sizes(graph: Graph, shape: Sequence[int | None], key: TableKey | None) -> tuple[int, tuple[int, ...]]:
    """How many rows, and the shape of one."""
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    num_rows, row_shape = (sizes[0] if sizes else 0), tuple(size for size in sizes[1:] if isinstance(size, int) and size >= 0)
    if len(row_shape) != len(sizes) - 1 or not (num_rows is None or (isinstance(num_rows, int) and num_rows >= 0)):
        raise InputError(f"shape={sizes} is no shape of a table; give (num_rows, ...), such as (1000, 64)")
    if key is None:
        if num_rows is None:
            raise InputError(f"shape={sizes} says no number of rows, which a table that is of no node_type or relation needs")
        return num_rows, row_shape
    count = graph.schema.table(key).count
    if num_rows not in (None, count):
        raise InputError(f"shape={sizes} has {num_rows} rows, but {key!r} has {count}; give ({count}, ...), or None for all")
    return count, row_shape
