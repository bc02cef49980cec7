"""What a user's own functions are given: many edges, or many nodes with as many messages each."""

from collections.abc import Iterator, Mapping

from torch import Tensor

from halohop.typing import Relation


class Rows(Mapping[str, Tensor]):
    """Some rows of columns, those of a column taken when it is first read.

    Args:
        columns: where they are.
        ids: which rows, int64 or int32 ``[n]``.
    """

    def __init__(self, columns: Mapping[str, Tensor], ids: Tensor) -> None:
        self._columns, self._ids = columns, ids
        self._found: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._found:
            self._found[name] = self._columns[name].index_select(0, self._ids)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


class EdgeBatch:
    """Edges of a relation, and what there is at them.

    Args:
        ends: source and destination of each, ``[n]``.
        ids: of the edges ``[n]``.
        relation: theirs.
        src, dst, data: columns of the sources, of the destinations and of the edges themselves, a row for each edge.
    """

    def __init__(
        self, ends: tuple[Tensor, Tensor], ids: Tensor, relation: Relation, src: Rows, dst: Rows, data: Mapping[str, Tensor]
    ) -> None:
        self._ends, self._ids, self.canonical_etype = ends, ids, relation
        self.src, self.dst, self.data = src, dst, data

    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """Source, destination and id of each edge."""
        return *self._ends, self._ids

    def batch_size(self) -> int:
        """How many edges there are."""
        return len(self._ids)

    __len__ = batch_size


class NodeBatch:
    """Nodes of a type, and what there is at them.

    Args:
        ids: of the nodes ``[n]``.
        ntype: their type.
        data: their columns, ``[n, ...]``.
        mailbox: their messages, ``[n, messages of each, ...]``; none where the function is not one of messages.
    """

    def __init__(self, ids: Tensor, ntype: str, data: Mapping[str, Tensor], mailbox: dict[str, Tensor]) -> None:
        self._ids, self.ntype, self.data, self.mailbox = ids, ntype, data, mailbox

    def nodes(self) -> Tensor:
        """The nodes' ids."""
        return self._ids

    def batch_size(self) -> int:
        """How many nodes there are."""
        return len(self._ids)

    __len__ = batch_size
