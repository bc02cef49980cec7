"""DGL's `DistTensor`: rows that lie with the partitions, by the user's ids."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self

import torch
from torch import Tensor

import halohop
from halohop.dgl.distributed.dist_context import process
from halohop.dgl.distributed.partition_book import (
    EdgePartitionPolicy,
    GraphPartitionBook,
    NodePartitionPolicy,
    PartitionPolicy,
    bounds_of,
)
from halohop.dgl.distributed.types import Types
from halohop.dgl.notes import note
from halohop.errors import InputError
from halohop.typing import Relation, TableKey

_AT_ONCE = 1 << 20  # rows that are read at a time


class DistTensor(halohop.DistTensor):
    """A table with a row for each node of a type, or each edge of a relation, which all ranks read and write.

    All ranks make the same tables, in the same order; one without a name is found by that order. It lasts until `drop`, or until
    its owners end: nothing is sent when an object is collected.

    Args:
        shape: as many rows as there are nodes or edges, and the shape of a row.
        dtype: of the entries.
        name: with the type, what other ranks find it by; also its name in ``g.ndata`` or ``g.edata``.
        init_func: called with a shape ``(n, ...)`` and the dtype, for the rows it is asked for; or one of `halohop.init`. None:
            zeros.
        part_policy: whose rows they are; None: of the type that has as many.
        persistent: changes nothing: tables last as long as their owners.
        is_gdata: whether ``g.ndata`` or ``g.edata`` shows it.
        attach: changes nothing: names are those of one job.

    Raises:
        InputError: there is no graph yet, no type or several types have so many rows, or a table of this name differs.

    Example:
        >>> import tempfile
        >>> import halohop.dgl as dgl
        >>> from halohop.dgl.distributed import DistGraph, DistTensor, exit_client, partition_graph
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     partition_graph(dgl.graph(([0, 1, 2], [1, 2, 0])), "ring", 2, folder, part_method="random")
        ...     g = DistGraph("ring", part_config=f"{folder}/ring.json")
        ...     g.ndata["h"] = DistTensor((3, 2), name="h", part_policy=g.get_node_partition_policy("_N"))
        ...     g.ndata["h"][[2, 0]] = torch.ones(2, 2)
        ...     g.ndata["h"][torch.arange(3)].tolist()
        ...     exit_client()
        [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: torch.dtype = torch.float32,
        name: str | None = None,
        init_func: Any = None,
        part_policy: PartitionPolicy | None = None,
        persistent: bool = False,
        is_gdata: bool = True,
        attach: bool = True,
    ) -> None:
        policy = part_policy or policy_of(shape, "a DistTensor")
        if not attach:
            note("attach")
        table = policy.get_data_name(name or process.next_name("tensor"))
        graph = graph_of(policy)
        super().__init__(graph.engine, shape, dtype, table, init_of(init_func, shape[1:], dtype), **table_of(policy))
        if name is not None and is_gdata:
            graph.tensors[policy.table, name] = self

    @property
    def part_policy(self) -> PartitionPolicy:
        """Whose rows they are."""
        book = book_of(self.graph)
        assert self.table_key is not None
        of = book.types.of_table(self.table_key)
        return NodePartitionPolicy(book, of) if isinstance(of, str) else EdgePartitionPolicy(book, of)

    @property
    def table_key(self) -> TableKey | None:
        """What halohop calls the type."""
        return self.spec.key

    @property
    def kvstore_key(self) -> str:
        """The name with the type."""
        return self.name

    @property
    def tensor_name(self) -> str:
        """The name without the type."""
        return self.name.split("~", 2)[-1]

    @property
    def local_partition(self) -> Tensor:
        """A copy of the rows of the partition that is near this process, in the order of their ids."""
        return self[self.part_policy.local_ids()]

    def count_nonzero(self) -> int:
        """How many entries of all rows are not zero."""
        return sum(int(torch.count_nonzero(self[ids])) for ids in torch.arange(len(self)).split(_AT_ONCE))

    def __or__(self, other: "DistTensor") -> "DistTensor":
        """A table of its own, with the union of two masks."""
        return DistTensor(self.shape, self.dtype, None, Computed(lambda ids: self[ids] | other[ids]), self.part_policy)

    def __getitem__(self, ids: Any) -> Tensor:
        """Rows ``[n, ...]`` of ids: integers as a tensor, an array, a list, a slice or a number."""
        return super().__getitem__(ids_of(ids, len(self)))

    def __setitem__(self, ids: Any, rows: Any) -> None:
        """Writes rows; of equal ids the last stays."""
        super().__setitem__(ids_of(ids, len(self)), rows.detach().cpu() if isinstance(rows, Tensor) else rows)

    @classmethod
    def found(cls, graph: halohop.Graph, name: str) -> Self:
        """A table by its name with the type."""
        found = cls.attach(graph, name)
        assert isinstance(found, cls)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).found, (self.graph, self.name)


class StoredTensor(DistTensor):
    """A stored column of the nodes of a type, or of the edges of a relation: rows that are read, and not written.

    Args:
        graph: of halohop.
        table: what halohop calls the type.
        column: its name.
    """

    def __init__(self, graph: halohop.Graph, table: TableKey, column: str) -> None:
        self._graph, self._table, self.column = graph, table, column
        self._stored = graph.schema.table(table)

    @property
    def name(self) -> str:
        return self.part_policy.get_data_name(self.column)

    @property
    def table_key(self) -> TableKey:
        return self._table

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._stored.count, *self._stored.columns[self.column].shape)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self._stored.columns[self.column].dtype)
        return dtype

    @property
    def is_split(self) -> bool:
        """Whether halohop knows it as a split, such as ``train_mask`` for "train"."""
        return self.column in [f"{name}_mask" for name in self._graph.schema.splits(self._table)]

    def __len__(self) -> int:
        return self._stored.count

    def __repr__(self) -> str:
        return f"DistTensor({self.name!r}, shape={self.shape}, dtype={self.dtype}, stored)"

    def gid(self, ids: Tensor) -> Tensor:
        if isinstance(self._table, str):
            return self._graph.locate(ids, self._table)
        return self._graph.locate_edges(self._table, ids)

    def __getitem__(self, ids: Any) -> Tensor:
        (rows,) = self._graph.rows_by_id(self._table, [self.column], ids_of(ids, len(self)))
        return rows

    def __setitem__(self, ids: Any, rows: Any) -> None:
        self._refuse()

    def add(self, ids: Any, rows: Any) -> None:
        self._refuse()

    def drop(self) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InputError(
            f"{self.column!r} is a stored column, which is only read; to change rows make a table that begins with it: "
            f"DistTensor({self.shape}, {self.dtype}, 'NAME', halohop.init.column({self.column!r}), part_policy)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredTensor, (self._graph, self._table, self.column)


class Computed:
    """Rows by ids, as `halohop.DistTensor` takes them."""

    def __init__(self, rows_of: Callable[[Tensor], Tensor]) -> None:
        self._rows_of = rows_of

    def __call__(self, ids: Tensor) -> Tensor:
        return self._rows_of(ids)


def init_of(init_func: Any, row_shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Any:
    """A function of a shape and a dtype as one of ids."""
    if init_func is None:
        return halohop.init.zeros()
    if isinstance(init_func, halohop.init.Init | Computed):
        return init_func
    return Computed(lambda ids: init_func((len(ids), *row_shape), dtype))


def ids_of(index: Any, count: int) -> Tensor:
    """Integers ``[n]`` of what rows are asked for by."""
    if isinstance(index, slice):
        return torch.arange(*index.indices(count))
    ids = torch.as_tensor(index)
    if ids.dtype == torch.bool:
        raise InputError("rows are asked for by ids, and these are bools; give mask.nonzero().view(-1)")
    return (ids.long() if not ids.numel() else ids).cpu().reshape(-1)


def policy_of(shape: Sequence[int], what: str) -> PartitionPolicy:
    """The only type with as many rows.

    Raises:
        InputError: there is none, or there are several.
    """
    book = process.graph(what).get_partition_book()
    nodes: list[str | Relation] = [name for name, table in book.types.nodes.items() if book.num_rows(table) == shape[0]]
    found = nodes + [name for name, table in book.types.edges.items() if book.num_rows(table) == shape[0]]
    if len(found) != 1:
        raise InputError(
            f"{what} of {shape[0]} rows: {len(found)} types of nodes and edges have so many {found}; give "
            "part_policy=g.get_node_partition_policy(TYPE), or halohop.DistTensor(g.engine, ...) for rows of their own"
        )
    return NodePartitionPolicy(book, found[0]) if isinstance(found[0], str) else EdgePartitionPolicy(book, found[0])


def graph_of(policy: PartitionPolicy) -> Any:
    """The open graph whose rows they are."""
    return policy.partition_book.graph or process.graph("a table")


def book_of(engine: halohop.Graph) -> GraphPartitionBook:
    """The book of an open graph."""
    known = next((graph for graph in process.graphs if graph.engine is engine), None)
    if known is not None:
        return known.get_partition_book()
    return GraphPartitionBook(Types.of(engine.schema), bounds_of(engine), 0, lambda: engine)


def table_of(policy: PartitionPolicy) -> dict[str, Any]:
    """Whose rows they are, as tables of halohop's take it."""
    return {"node_type" if policy.is_node else "relation": policy.table}
