"""``g.ndata``, ``g.edata``, ``g.nodes[type].data`` and ``g.edges[relation].data`` of a `DistGraph`."""

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from halohop.dgl.distributed.dist_tensor import DistTensor, StoredTensor
from halohop.dgl.views import MissingColumnError
from halohop.errors import InputError
from halohop.typing import TableKey

if TYPE_CHECKING:
    from halohop.dgl.distributed.dist_graph import DistGraph

IMPORTED = {"feat": ("x", "edge_attr"), "label": ("y",), "labels": ("y",)}
"""What columns of DGL's partitions are called where these were imported."""


class DataView(MutableMapping[str, DistTensor]):
    """The columns of a type: stored ones, and tables that were assigned or made with a name.

    Args:
        graph: whose.
        table: what halohop calls the type.
    """

    def __init__(self, graph: "DistGraph", table: TableKey) -> None:
        self._graph, self._table = graph, table
        self._name = graph.types.of_table(table)

    def __getitem__(self, name: str) -> DistTensor:
        given = self._graph.tensors.get((self._table, name))
        if given is not None:
            return given
        for column in (name, *IMPORTED.get(name, ())):
            if column in self._stored:
                return StoredTensor(self._graph.engine, self._table, column)
        raise MissingColumnError(f"{self._name!r} has no {name!r}, only {sorted(self)}; assign a DistTensor first")

    def __setitem__(self, name: str, tensor: DistTensor) -> None:
        count = self._graph.engine.schema.table(self._table).count
        if not isinstance(tensor, DistTensor) or len(tensor) != count:
            what = f"a DistTensor of {len(tensor)} rows" if isinstance(tensor, DistTensor) else f"a {type(tensor).__name__}"
            raise InputError(
                f"{name!r} of {self._name!r} is {what}; give DistTensor(({count}, ...), dtype, {name!r}, part_policy=...), "
                "and write into its rows"
            )
        self._graph.tensors[self._table, name] = tensor

    def __delitem__(self, name: str) -> None:
        if name in self._stored and (self._table, name) not in self._graph.tensors:
            raise InputError(f"{name!r} is a stored column, which stays; halohop.partition writes graphs without it")
        if self._graph.tensors.pop((self._table, name), None) is None:
            raise MissingColumnError(f"{self._name!r} has no {name!r}, only {sorted(self)}")

    def __iter__(self) -> Iterator[str]:
        given = (name for table, name in self._graph.tensors if table == self._table)
        return iter(dict.fromkeys([*self._stored, *given]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    @property
    def _stored(self) -> Any:
        return self._graph.engine.schema.table(self._table).columns
