"""What nodes add to their partition, and evening out what an assigner left uneven."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from halohop import ops
from halohop.partitioning.assigners.division import AssignRequest
from halohop.partitioning.assigners.union import Adjacency, first_nodes
from halohop.partitioning.building.report import train_rows
from halohop.store.tables import GraphTables
from halohop.typing import NodeType

_PIECE = 1 << 18  # edges, or nodes, that are read at a time
_CHEAPEST, _DEAREST = -10, 6  # powers of two of the price of a move
_LAST_SWEEPS = 50  # at any price; a few do
_NO_CLASSES: Mapping[NodeType, Tensor] = {}
_AIM = 0.9  # of the tolerance


class Loads:
    """The loads of the nodes of a graph, numbered through all types: nodes, those of each class, those for training, in-edges.

    In memory are 4 bytes a node; the rest is read from the tables.

    Args:
        tables: the graph.
        balance_types: whether the nodes of each type are a load of their own, rather than all together.
        classes: by node type, the class of each node, int64 ``[num_nodes]``; each class is a load of its own.

    Example:
        >>> from halohop.store.tables import EdgeTable, NodeTable
        >>> star = EdgeTable(src=torch.tensor([0, 2]), dst=torch.tensor([1, 1]))
        >>> loads = Loads(GraphTables(nodes={"v": NodeTable(num_nodes=3)}, edges={("v", "to", "v"): star}))
        >>> loads.kinds, loads.totals.tolist(), loads.rows(0, 3).tolist()
        (('nodes', 'in-edges'), [3, 2], [[1, 0], [1, 2], [1, 0]])
    """

    def __init__(
        self, tables: GraphTables, *, balance_types: bool = False, classes: Mapping[NodeType, Tensor] = _NO_CLASSES
    ) -> None:
        self._tables, self._balance_types, self._first = tables, balance_types, first_nodes(tables)
        self._num_nodes = sum(table.num_nodes for table in tables.nodes.values())
        self._in_edges = torch.zeros(self._num_nodes, dtype=torch.int32)
        for (_, _, destination), table in tables.edges.items():
            own = self._in_edges[self._first[destination] :][: tables.nodes[destination].num_nodes]
            for begin in range(0, table.num_edges, _PIECE):
                ops.count_keys(table.dst[begin : begin + _PIECE], own)
        self._classes = {name: (classes[name], classes[name].unique()) for name in tables.nodes if name in classes}
        nodes = [f"nodes of {name!r}" for name in tables.nodes] if balance_types else ["nodes"]
        by_class = [f"{name!r} of class {value}" for name, (_, known) in self._classes.items() for value in known.tolist()]
        kinds = (*nodes, *by_class, "training nodes", "in-edges")
        self._first_class, self._all_kinds = len(nodes), len(kinds)
        self._used = torch.arange(len(kinds))
        totals = sum((self.rows(low, high).sum(0) for low, high in self._pieces()), torch.zeros(len(kinds), dtype=torch.int64))
        self._used = totals.nonzero().view(-1)
        self.kinds = tuple(kinds[index] for index in self._used.tolist())
        self.totals = totals[self._used]

    def rows(self, first: int, last: int) -> Tensor:
        """The loads of the nodes ``first <= v < last``, int32 ``[last - first, k]``, of the kinds that any node has."""
        loads = torch.zeros(last - first, self._all_kinds, dtype=torch.int32)
        begin = self._first_class
        for index, (name, table) in enumerate(self._tables.nodes.items()):
            low, high = (min(max(end - self._first[name], 0), table.num_nodes) for end in (first, last))
            if low < high:
                rows = slice(low + self._first[name] - first, high + self._first[name] - first)
                masks = {key: column[low:high] for key, column in table.columns.items() if key == "train_mask"}
                loads[rows, index if self._balance_types else 0] = 1
                loads[rows, -2] = train_rows(masks, high - low).int()
                if name in self._classes:
                    own, known = self._classes[name]
                    loads[rows].scatter_(1, (begin + torch.searchsorted(known, own[low:high])).view(-1, 1), 1)
            begin += len(self._classes[name][1]) if name in self._classes else 0
        loads[:, -1] = self._in_edges[first:last]
        return loads[:, self._used].contiguous()

    def limit(self, num_parts: int, tolerance: float) -> Tensor:
        """What no part shall carry more of: ``1 + tolerance`` times the mean, or the mean rounded up; float64 ``[k]``."""
        mean = self.totals.double() / num_parts
        return torch.maximum((1 + tolerance) * mean, mean.ceil())

    def fullest(self, part: Tensor, request: AssignRequest) -> float:
        """What the fullest part carries, relative to its limit."""
        carried = carried_by(part, self, request.num_parts)
        return float((carried / self.limit(request.num_parts, request.tolerance)).max())

    def _pieces(self) -> list[tuple[int, int]]:
        return [(low, min(low + _PIECE, self._num_nodes)) for low in range(0, self._num_nodes, _PIECE)]


def even_out(part: Tensor, graph: Adjacency, loads: Loads | Tensor, limit: Tensor, num_parts: int) -> None:
    """Moves nodes, in place, until no part is above a limit or no move helps; the cheapest first.

    One node may be more than a part shall carry; then the rest goes elsewhere, and that part stays above the limit. Once any is
    above, all are brought below an aim that lies a little lower, so that loads which conflict find room.

    Args:
        part: int32 ``[n]``.
        loads: of the nodes.
        limit: what no part shall carry more of, float64 ``[k]``.
    """
    carried = carried_by(part, loads, num_parts)
    if (carried <= limit).all():
        return
    mean = carried.sum(0).double() / num_parts
    parts = ops.Parts(part, carried, torch.maximum(mean + (limit - mean) * _AIM, mean.ceil()))
    price = len(graph.neighbors) / num_parts  # the weight of all edges of a mean part, about
    for power in (*range(_CHEAPEST, _DEAREST), *[float("inf")] * _LAST_SWEEPS):
        moved = sum(parts.relieve(lists, dearest=price * 2.0**power) for lists in lists_of(graph, loads))
        if (carried <= limit).all() or (moved == 0 and power == float("inf")):
            return


def carried_by(part: Tensor, loads: Loads | Tensor, num_parts: int) -> Tensor:
    """The loads of each part, int64 ``[num_parts, k]``."""
    kinds = loads.size(1) if isinstance(loads, Tensor) else len(loads.kinds)
    carried = torch.zeros(num_parts, kinds, dtype=torch.int64)
    for low in range(0, len(part), _PIECE):
        own = part[low : low + _PIECE]
        rows = loads[low : low + _PIECE] if isinstance(loads, Tensor) else loads.rows(low, low + len(own))
        carried.index_add_(0, own.long(), rows.long())
    return carried


def lists_of(graph: Adjacency, loads: Loads | Tensor, first: int = 0) -> Iterator[ops.Lists]:
    """The lists of all nodes, a piece at a time, beginning with those of node `first`."""
    for low, high in graph.pieces(first):
        begin, end = int(graph.indptr[low]), int(graph.indptr[high])
        yield ops.Lists(
            first=low,
            indptr=graph.indptr[low : high + 1] - begin,
            neighbors=graph.neighbors[begin:end],
            weights=None if graph.weights is None else graph.weights[begin:end],
            loads=loads[low:high] if isinstance(loads, Tensor) else loads.rows(low, high),
        )
