"""What some partitions list: nodes by the user's ids, nodes of a split, edges in the order of the user's input."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from halohop.cluster.edge_ids import EdgeIds
from halohop.cluster.named import named
from halohop.errors import InputError
from halohop.partitioning.book import Book
from halohop.store.part import Part
from halohop.store.requests import EdgesReply, EdgesRequest, LocateReply, LocateRequest, SelectReply, SelectRequest
from halohop.typing import Relation


def in_order(ids: Sequence[Tensor], *others: Sequence[Tensor]) -> list[Tensor]:
    """Columns in pieces, as a whole, ascending by the first column, in which no number is twice."""
    columns = ([piece.numpy() for piece in pieces] for pieces in (ids, *others))
    whole = [pieces[0] if len(pieces) == 1 else np.concatenate(pieces) for pieces in columns]
    if not (whole[0][1:] > whole[0][:-1]).all():
        order = np.argsort(whole[0])
        whole = [column[order] for column in whole]
    return [torch.from_numpy(column) for column in whole]


class Listed:
    """Answers the questions that are about whole partitions.

    Args:
        book: who owns what.
        parts: the partitions by number.
        edge_ids: finds edges in them.
    """

    def __init__(self, book: Book, parts: dict[int, Part], edge_ids: EdgeIds) -> None:
        self._book, self._parts, self._edge_ids = book, parts, edge_ids

    def locate(self, request: LocateRequest) -> LocateReply:
        raw = request.raw.numpy()
        gid = np.full(len(raw), -1)
        for index, part in self._parts.items():
            nodes = named(part.nodes, request.node_type, "node type")
            offset = self._book.offset(request.node_type, index)
            if nodes.raw_id is None:
                found = np.flatnonzero((raw >= offset) & (raw < offset + nodes.num_nodes))
                gid[found] = raw[found]
            elif nodes.num_nodes:
                known = nodes.raw_id.numpy()
                lid = np.minimum(np.searchsorted(known, raw), nodes.num_nodes - 1)
                found = np.flatnonzero(known[lid] == raw)
                gid[found] = lid[found] + offset
        return LocateReply(gid=torch.from_numpy(gid))

    def select(self, request: SelectRequest) -> SelectReply:
        chosen = [self._selected(request, part) for part in request.parts]
        raw, gid = in_order([raw for _, raw in chosen], [gid for gid, _ in chosen])
        return SelectReply(gid=gid, raw=raw)

    def _selected(self, request: SelectRequest, part: int) -> tuple[Tensor, Tensor]:
        nodes = named(named(self._parts, part, "partition").nodes, request.node_type, "node type")
        if request.mask is None:
            lid = torch.arange(nodes.num_nodes)
        else:
            mask = named(nodes.columns, request.mask, f"column of {request.node_type!r}")
            if mask.dtype != torch.bool or mask.dim() != 1:
                raise InputError(
                    f"column {request.mask!r} of {request.node_type!r} has dtype {mask.dtype} and {mask.dim()} dimensions; "
                    "a mask has torch.bool and 1"
                )
            lid = mask.nonzero().view(-1)
        gid = lid + self._book.offset(request.node_type, part)
        return gid, gid if nodes.raw_id is None else nodes.raw_id[lid]

    def edges(self, request: EdgesRequest) -> EdgesReply:
        pieces = [self._edges_of(request.relation, part, request.edge_id) for part in request.parts]
        neighbors, gids, edge_ids = ([piece[number] for piece in pieces] for number in range(3))
        edge_id, neighbor_gid, gid = in_order(edge_ids, neighbors, gids)
        src_gid, dst_gid = (neighbor_gid, gid) if self._book.list_end else (gid, neighbor_gid)
        return EdgesReply(src_gid=src_gid, dst_gid=dst_gid, edge_id=edge_id)

    def _edges_of(self, relation: Relation, part: int, wanted: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Of the edges in the partition's lists, the neighbours, the nodes whose lists they are, and the ids."""
        edges = named(named(self._parts, part, "partition").edges, relation, "relation")
        first, first_edge = self._book.offset(self._book.list_type(relation), part), self._book.offset(relation, part)
        if wanted is None:
            lid = torch.repeat_interleave(edges.indptr.diff())
            edge_id = torch.arange(edges.num_edges) + first_edge if edges.edge_id is None else edges.edge_id
            return edges.indices.long(), lid + first, edge_id.long()
        found, at = self._edge_ids.places(relation, part, wanted.numpy())
        listed = np.searchsorted(edges.indptr.numpy(), at, side="right") - 1
        return (
            torch.from_numpy(edges.indices.numpy()[at].astype(np.int64)),
            torch.from_numpy(listed + first),
            torch.from_numpy(wanted.numpy()[found]),
        )
