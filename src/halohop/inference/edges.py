"""Reads what a stage of layer-wise inference needs, a batch of bounded size at a time, a little ahead of who computes."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.inference.model import LayeredModel, Neighbours
from halohop.inference.stages import HIDDEN, Chunk
from halohop.store.part import EdgePart
from halohop.typing import NodeType, Relation

_AHEAD = 2
"""Pieces that may be read before somebody computes with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Something to read for the nodes ``begin <= lid < end`` of a partition.

    Args:
        relation: the in-edges at the positions ``first <= position < last``; None for the rows of the nodes themselves.
    """

    part: int
    begin: int
    end: int
    relation: Relation | None = None
    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Read:
    """What a piece says: columns as they are stored, of the nodes or of their neighbours, and the rest of `Neighbours`."""

    x: tuple[Tensor, ...]
    src: Tensor
    counts: Tensor
    degree: Tensor


class Reader:
    """The batches of one stage.

    Args:
        model: whose stage.
        stage: its number.
        source: where the rows of the stage before lie; for stage 0 the graph itself.
        edges: in-edges of the partitions that are computed here.
        bounds: gid ranges of the graph's partitions, per node type.
        batch_size: most nodes of a batch.
        batch_edges: most in-edges of a batch, and of a piece. Only a node with more of them is a batch by itself, in pieces if
            the model can fold them.
        device: where to compute.
    """

    def __init__(
        self,
        model: LayeredModel,
        stage: int,
        source: Graph,
        edges: dict[int, dict[Relation, EdgePart]],
        bounds: dict[NodeType, tuple[int, ...]],
        *,
        batch_size: int,
        batch_edges: int,
        device: torch.device,
    ) -> None:
        self._model, self._stage, self._source, self._edges, self._bounds = model, stage, source, edges, bounds
        self._batch_size, self._batch_edges, self._device = batch_size, batch_edges, device
        sources = {relation[0] for name in model.node_types(stage) for relation in model.relations_into(stage, name)}
        self._relabelers = {name: ops.Relabeler(bounds[name][-1], pool=source.pool) for name in sources}

    def batches(self, chunk: Chunk, thread: ThreadPoolExecutor) -> Iterator[tuple[Tensor, Iterator[Neighbours]]]:
        """Per batch its nodes' rows, and their in-edges; these must be used up before the next batch.

        Args:
            chunk: whose nodes.
            thread: reads ahead; a single one.
        """
        batches = [self._pieces(chunk, begin, end) for begin, end in self._cuts(chunk)]
        ready = self._ahead(thread, chunk.node_type, (piece for pieces in batches for piece in pieces))
        for pieces in batches:
            _, read = next(ready)
            x = self._rows(chunk.node_type, read.x)
            neighbours = (self._neighbours(chunk.node_type, x, *item) for item in islice(ready, len(pieces) - 1))
            yield x, neighbours
            assert next(neighbours, None) is None, "a stage left edges unread"

    def _cuts(self, chunk: Chunk) -> Iterator[tuple[int, int]]:
        """Where batches begin and end: at most so many nodes, and in-edges, or a single node."""
        ends = torch.zeros(chunk.end - chunk.begin + 1, dtype=torch.int64)
        for relation in self._model.relations_into(self._stage, chunk.node_type):
            ends += self._edges[chunk.part][relation].indptr[chunk.begin : chunk.end + 1]
        begin, last = 0, len(ends) - 1
        while begin < last:
            full = int(torch.searchsorted(ends, ends[begin] + self._batch_edges, right=True)) - 1
            end = min(max(full, begin + 1), begin + self._batch_size, last)
            yield chunk.begin + begin, chunk.begin + end
            begin = end

    def _pieces(self, chunk: Chunk, begin: int, end: int) -> list[_Piece]:
        pieces = [_Piece(part=chunk.part, begin=begin, end=end)]
        for relation in self._model.relations_into(self._stage, chunk.node_type):
            indptr = self._edges[chunk.part][relation].indptr
            first, last = int(indptr[begin]), int(indptr[end])
            size = self._batch_edges if self._model.folds else max(last - first, 1)
            starts = range(first, last, size) if self._model.folds or first < last else [first]
            pieces += [
                _Piece(part=chunk.part, begin=begin, end=end, relation=relation, first=start, last=min(start + size, last))
                for start in starts
            ]
        return pieces

    def _ahead(self, thread: ThreadPoolExecutor, node_type: NodeType, pieces: Iterable[_Piece]) -> Iterator[tuple[_Piece, _Read]]:
        """What the pieces say, in order; the next ones are being read meanwhile."""
        waiting: deque[tuple[_Piece, Future[_Read]]] = deque()
        for piece in pieces:
            waiting.append((piece, thread.submit(self._read, node_type, piece)))
            if len(waiting) > _AHEAD:
                piece, future = waiting.popleft()
                yield piece, future.result()
        while waiting:
            piece, future = waiting.popleft()
            yield piece, future.result()

    def _read(self, node_type: NodeType, piece: _Piece) -> _Read:
        """Runs in the thread."""
        offset = self._bounds[node_type][piece.part]
        own = torch.arange(offset + piece.begin, offset + piece.end)
        if piece.relation is None:
            return _Read(x=self._fetch(node_type, own), src=own[:0], counts=own[:0], degree=own[:0])
        edges = self._edges[piece.part][piece.relation]
        source = piece.relation[0]
        own = own if source == node_type else own[:0]
        relabeler = self._relabelers[source]
        relabeler.start(own)
        src = relabeler.add(edges.indices[piece.first : piece.last])
        ends = edges.indptr[piece.begin : piece.end + 1].long()
        return _Read(
            x=self._fetch(source, relabeler.nodes(begin=len(own))),
            src=src,
            counts=ends.clamp(piece.first, piece.last).diff(),
            degree=ends.diff(),
        )

    def _fetch(self, node_type: NodeType, gid: Tensor) -> tuple[Tensor, ...]:
        columns = (HIDDEN,) if self._stage else self._model.columns(node_type)
        return self._source.fetch_rows(node_type, columns, gid)

    def _rows(self, node_type: NodeType, stored: tuple[Tensor, ...]) -> Tensor:
        columns = tuple(column.to(self._device) for column in stored)
        return columns[0] if self._stage else self._model.inputs(node_type, columns)

    def _neighbours(self, node_type: NodeType, x: Tensor, piece: _Piece, read: _Read) -> Neighbours:
        assert piece.relation
        others = self._rows(piece.relation[0], read.x)
        return Neighbours(
            relation=piece.relation,
            x=torch.cat([x, others]) if piece.relation[0] == node_type else others,
            src=read.src.to(self._device),
            counts=read.counts.to(self._device),
            degree=read.degree.to(self._device),
        )
