"""The user's ids and the gids of the nodes of a batch: those that it has met need not be asked for again."""

import threading
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import IdError
from halohop.sampling.numbering import Numbering
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import RAW_ID, NodeType


class KnownIds:
    """Both ids of the nodes that a batch has met, where they differ. One thread's, for one batch after the other.

    Args:
        graph: whose nodes they are.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._types: dict[NodeType, _Type] = {}
        self._owner: object = None

    def begin(self, owner: object) -> None:
        """Forgets what other batches have met, if the last who asked was another one."""
        if self._owner is not owner:
            self._owner = owner
            for known in self._types.values():
                known.start()

    def gids(self, node_type: NodeType, raw: Tensor) -> Tensor:
        """Gids of nodes given by the user's ids, int64 ``[n]`` each.

        Raises:
            IdError: an id that the graph does not have.
        """
        if node_type in self._graph.identities:
            _check_range(raw, self._graph.schema.nodes[node_type].count, node_type)
            return raw
        return self._of(node_type).gids(self._graph, node_type, raw)

    def raws(self, gids: Mapping[NodeType, list[Tensor]]) -> dict[NodeType, list[Tensor]]:
        """The user's ids of nodes given by gid, int64 ``[n]`` each, of several types with one request."""
        found: dict[NodeType, list[Tensor]] = {}
        pending: dict[NodeType, list[Tensor]] = {}
        queries = []
        for name, pieces in gids.items():
            if name in self._graph.identities:
                found[name] = pieces
                continue
            known = self._of(name)
            pending[name] = [known.number(piece) for piece in pieces]
            if len(new := known.unnamed()):
                queries.append(RowQuery(table=name, columns=(RAW_ID,), gid=new))
        rows = self._named(tuple(queries)) if queries else ()
        for query, (raw,) in zip(queries, rows, strict=True):
            assert isinstance(query.table, str)
            self._of(query.table).name(raw)
        return found | {name: [self._of(name).named(numbers) for numbers in pieces] for name, pieces in pending.items()}

    def _named(self, queries: tuple[RowQuery, ...]) -> tuple[tuple[Tensor, ...], ...]:
        try:
            return self._graph.fetch(FetchRequest(queries=queries))
        except BaseException:
            self._types.clear()  # numbers without names are worth nothing
            raise

    def _of(self, node_type: NodeType) -> "_Type":
        if node_type not in self._types:
            self._types[node_type] = _Type(self._graph.schema.nodes[node_type].count, self._graph.pool)
        return self._types[node_type]


class KnownIdsOfThreads:
    """`KnownIds` of every thread that asks, made once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._per_thread = threading.local()

    def mine(self) -> KnownIds:
        """Those of this thread."""
        known: KnownIds | None = getattr(self._per_thread, "known", None)
        if known is None:
            known = self._per_thread.known = KnownIds(self._graph)
        return known


class _Type:
    """Nodes of one type, numbered alike by both of their ids. Nodes that have no name yet are those that were numbered last."""

    def __init__(self, num_nodes: int, pool: ops.Pool) -> None:
        self._pool = pool
        self._by_gid = ops.Relabeler(num_nodes, pool=pool)
        self._by_raw = Numbering(pool)
        self.start()

    def start(self) -> None:
        none = torch.empty(0, dtype=torch.int64)
        self._by_gid.start(none)
        self._by_raw.start(none)

    def gids(self, graph: Graph, node_type: NodeType, raw: Tensor) -> Tensor:
        if len(raw) and int(raw.numpy().min()) < 0:
            return graph.locate(raw, node_type)  # which refuses it
        numbers = self._by_raw.find(raw)
        unknown = np.unique(raw.numpy()[numbers.numpy() < 0])
        if len(unknown):
            new = torch.from_numpy(unknown)
            self.number(graph.locate(new, node_type))
            self.name(new)
            numbers = self._by_raw.find(raw)
        return ops.gather_rows(self._by_gid.nodes(), numbers, pool=self._pool)

    def number(self, gid: Tensor) -> Tensor:
        """The numbers of nodes, int64 ``[n]``; new ones get the next."""
        return self._by_gid.add(gid)

    def unnamed(self) -> Tensor:
        """The gids of nodes whose other ids are not known yet."""
        return self._by_gid.nodes(self._by_raw.count)

    def name(self, raw: Tensor) -> None:
        """Takes the user's ids of these."""
        self._by_raw.add(raw)

    def named(self, numbers: Tensor) -> Tensor:
        """The user's ids of nodes by their numbers."""
        return ops.gather_rows(self._by_raw.nodes(), numbers, pool=self._pool)


def _check_range(raw: Tensor, count: int, node_type: NodeType) -> None:
    ids = raw.numpy()
    if len(ids) and not (ids.min() >= 0 and ids.max() < count):
        wrong = ids[(ids < 0) | (ids >= count)]
        raise IdError(
            f"{len(wrong)} of {len(ids)} ids are not among the {count} nodes of {node_type!r}, the first is {int(wrong[0])}"
        )
