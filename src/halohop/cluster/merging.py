"""Puts the answers of several shards together, in the order of the question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.landing import Landing
from halohop.store.requests import HopAnswer, RowQuery

Answer = TypeVar("Answer")

Rows = tuple[tuple[Tensor, ...], dict[str, ops.SparseRows]]
"""The rows of one query: the dense columns in its order, and the sparse ones by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece(Generic[Answer]):
    """What one shard says to a part of a query.

    Args:
        rows: which part, positions in the query, int64 ``[n]``. Where there is only one piece, it is the whole query in order.
        answer: to these.
    """

    rows: Tensor
    answer: Answer


def merge_hops(pieces: Sequence[Piece[HopAnswer]], pool: ops.Pool) -> HopAnswer:
    """The neighbours of all nodes of a query."""
    if len(pieces) == 1:
        return pieces[0].answer
    ids = _edge_ids(pieces, pool)
    columns = [[piece.answer.src_gid, piece.answer.edge_gid, *own] for piece, own in zip(pieces, ids, strict=True)]
    counts, (src_gid, edge_gid, *edge_id) = ops.stitch_lists(
        [(piece.answer.counts, piece.rows, values) for piece, values in zip(pieces, columns, strict=True)], pool=pool
    )
    return HopAnswer(counts=counts, src_gid=src_gid, edge_gid=edge_gid, edge_id=edge_id[0] if edge_id else None)


def _edge_ids(pieces: Sequence[Piece[HopAnswer]], pool: ops.Pool) -> list[list[Tensor]]:
    """The user's ids of the edges of each piece, where one has any; copies have ids also where the ids are the gids."""
    if all(piece.answer.edge_id is None for piece in pieces):
        return [[] for _ in pieces]
    ids = [piece.answer.edge_gid if (own := piece.answer.edge_id) is None else own for piece in pieces]
    if len({column.dtype for column in ids}) > 1:
        ids = [ops.copy_ids(column, pool.empty((len(column),), torch.int64)) for column in ids]
    return [[column] for column in ids]


def merge_rows(pieces: Sequence[Piece[Rows]], query: RowQuery, landing: Landing, pool: ops.Pool) -> Rows:
    """The rows of a query.

    Args:
        pieces: of the query, or of its known ids.
        query: as it was asked; with ids -1 where it is padded.
        landing: where the dense columns of all pieces are, but of one that is the whole query in order.
        pool: where the memory comes from.
    """
    dense = landing.columns() if landing.used else pieces[0].answer[0]
    return dense, _merge_sparse(pieces, query, pool)


def _merge_sparse(pieces: Sequence[Piece[Rows]], query: RowQuery, pool: ops.Pool) -> dict[str, ops.SparseRows]:
    merged = {}
    for name in pieces[0].answer[1]:
        columns = [piece.answer[1][name] for piece in pieces]
        rows = columns[0] if len(columns) == 1 else ops.merge_sparse(columns, _order(pieces, pool), pool=pool)
        merged[name] = rows.padded(query.gid) if query.padded else rows
    return merged


def _order(pieces: Sequence[Piece[Answer]], pool: ops.Pool) -> Tensor:
    return ops.join_rows([piece.rows for piece in pieces], pool=pool)
