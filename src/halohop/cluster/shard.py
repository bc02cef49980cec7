"""One partition in this process: answers every request about the rows and edges that it owns."""

from concurrent.futures import Future
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import SchemaError
from halohop.partitioning.book import Book
from halohop.store.part import Part
from halohop.store.requests import (
    FetchReply,
    FetchRequest,
    LocateReply,
    LocateRequest,
    Reply,
    Request,
    RowQuery,
    SampleReply,
    SampleRequest,
    SelectReply,
    SelectRequest,
)
from halohop.store.topology import Topology
from halohop.typing import EDGE_ID, RAW_ID, NodeType, Relation, TableKey

Value = TypeVar("Value")


class LocalShard:
    """Partition `index` of the graph, in memory or memory-mapped.

    Raises (from `ask`):
        SchemaError: a request names a type, relation or column that does not exist.
        IdError: a request names a row that another partition owns.
    """

    def __init__(self, part: Part, *, book: Book, index: int, pool: ops.Pool) -> None:
        self._part = part
        self._book = book
        self._index = index
        self._pool = pool
        self._topologies: dict[Relation, Topology] = {
            relation: Topology(
                relation=relation,
                edges=edges,
                dst_raw=part.nodes[relation[2]].raw_id,
                dst_offset=book.offset(relation[2], index),
                edge_offset=book.offset(relation, index),
            )
            for relation, edges in part.edges.items()
        }

    def ask(self, request: Request[Reply]) -> "Future[Reply]":
        """Answers at once: the future that comes back is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(self._answer(request))
        except Exception as error:
            future.set_exception(error)
        return cast("Future[Reply]", future)

    def _answer(self, request: Request[Any]) -> object:
        match request:
            case SampleRequest():
                return self._sample(request)
            case FetchRequest():
                return FetchReply(rows=tuple(self._rows(query) for query in request.queries))
            case LocateRequest():
                return self._locate(request)
            case SelectRequest():
                return self._select(request)
        raise SchemaError(f"a partition cannot answer {type(request).__name__}")

    def _sample(self, request: SampleRequest) -> SampleReply:
        return SampleReply(
            answers=tuple(
                _lookup(self._topologies, query.relation, "relation").sample(query, request.draw, self._pool)
                for query in request.queries
            )
        )

    def _rows(self, query: RowQuery) -> tuple[Tensor, ...]:
        offset = self._offset(query.table)
        lid = query.gid - offset if offset else query.gid
        return tuple(self._column(query.table, name, query.gid, lid) for name in query.columns)

    def _column(self, table: TableKey, name: str, gid: Tensor, lid: Tensor) -> Tensor:
        part = self._part.nodes[table] if isinstance(table, str) else self._part.edges[table]
        if name in (RAW_ID, EDGE_ID):
            ids = part.raw_id if isinstance(table, str) else self._part.edges[table].edge_id  # type: ignore[union-attr]
            return gid if ids is None else ops.gather_rows(ids, lid, pool=self._pool).long()
        return ops.gather_rows(_lookup(part.columns, name, f"column of {table!r}"), lid, pool=self._pool)

    def _locate(self, request: LocateRequest) -> LocateReply:
        nodes = _lookup(self._part.nodes, request.node_type, "node type")
        offset = self._offset(request.node_type)
        if nodes.raw_id is None:
            gid, found = request.raw, (request.raw >= offset) & (request.raw < offset + nodes.num_nodes)
        elif nodes.num_nodes == 0:
            gid, found = request.raw, torch.zeros_like(request.raw, dtype=torch.bool)
        else:
            lid = torch.searchsorted(nodes.raw_id, request.raw).clamp_(max=nodes.num_nodes - 1)
            gid, found = lid + offset, nodes.raw_id[lid] == request.raw
        return LocateReply(gid=torch.where(found, gid, -1))

    def _select(self, request: SelectRequest) -> SelectReply:
        nodes = _lookup(self._part.nodes, request.node_type, "node type")
        if request.mask is None:
            lid = torch.arange(nodes.num_nodes)
        else:
            mask = _lookup(nodes.columns, request.mask, f"column of {request.node_type!r}")
            lid = mask.nonzero().view(-1)
        gid = lid + self._offset(request.node_type)
        return SelectReply(gid=gid, raw=gid if nodes.raw_id is None else nodes.raw_id[lid])

    def _offset(self, table: NodeType | Relation) -> int:
        known: dict[Any, Any] = self._part.nodes if isinstance(table, str) else self._part.edges
        _lookup(known, table, "table")
        return self._book.offset(table, self._index)


def _lookup(known: dict[Any, Value], key: object, what: str) -> Value:
    try:
        return known[key]
    except KeyError:
        raise SchemaError(f"unknown {what} {key!r}; known: {list(known)}") from None
