"""Columns of other hosts, of which a GPU keeps the rows that are read most."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from halohop import ops
from halohop.ops.device import DevicePool
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import HOTNESS, RAW_ID, NodeType, TableKey, degree_column

if TYPE_CHECKING:
    from halohop.cluster.graph import Graph

_AT_ONCE = 1 << 18
"""Rows that are fetched with one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """Where the kept rows of a node type lie (-1: nowhere), on the CPU; and their columns, on the device."""

    places: Tensor
    columns: dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """A query in two: positions of rows that are kept, and where these lie; and the query for the others, and their positions."""

    here: Tensor
    places: Tensor
    missing: Tensor
    asked: RowQuery


class FarRows:
    """Rows that the host fetches, but for the hottest ones, which were fetched once and lie on the device.

    Args:
        host: the graph.
        hot: the rows of each node type that are kept, int64 ``[n]``, ascending.
        pool: of the device.

    Raises:
        torch.OutOfMemoryError: the device has not so much.
    """

    def __init__(self, host: "Graph", hot: Mapping[NodeType, Tensor], pool: DevicePool) -> None:
        self._host, self._pool = host, pool
        with pool.for_all_lanes():
            self._kept = {name: self._keep(name, rows) for name, rows in hot.items()}

    def fetch(self, queries: tuple[RowQuery, ...]) -> list[tuple[Tensor, ...]]:
        """Columns on the device, for queries whose gids lie on the CPU: with one request to each host."""
        split = [self._split(query) for query in queries]
        asked = tuple(query if one is None else one.asked for query, one in zip(queries, split, strict=True))
        fetched = self._host.fetch_stored(FetchRequest(queries=asked)).dense(asked, self._host.pool)
        found = []
        for query, one, rows in zip(queries, split, fetched, strict=True):
            put = tuple(map(self._pool.put, rows))
            found.append(put if one is None else self._joined(query, one, put))
        return found

    def _keep(self, name: NodeType, rows: Tensor) -> _Kept:
        names = cached_columns(self._host, name)
        columns: dict[str, Tensor] = {}
        begin = 0
        for some in rows.split(_AT_ONCE):
            query = RowQuery(table=name, columns=names, gid=some)
            (fetched,) = self._host.fetch_stored(FetchRequest(queries=(query,))).dense((query,), self._host.pool)
            for column, values in zip(names, fetched, strict=True):
                if column not in columns:
                    columns[column] = self._pool.empty((len(rows), *values.shape[1:]), values.dtype)
                columns[column][begin : begin + len(some)].copy_(self._pool.put(values))
            begin += len(some)
        places = torch.full((self._host.schema.nodes[name].count,), -1, dtype=torch.int32 if len(rows) < 2**31 else torch.int64)
        places[rows] = torch.arange(len(rows), dtype=places.dtype)
        return _Kept(places=places, columns=columns)

    def _split(self, query: RowQuery) -> _Split | None:
        kept = self._kept.get(query.table) if isinstance(query.table, str) else None
        if kept is None or not all(name in kept.columns for name in query.columns):
            return None
        known = ops.known_places(query.gid) if query.padded else None
        gid = query.gid if known is None else ops.gather_rows(query.gid, known)
        at = ops.gather_rows(kept.places, gid)
        here, missing = ops.known_places(at), ops.missing_places(at)
        places = ops.gather_rows(at, here)
        self._pool.counters.add("device_rows", len(here) * len(query.columns))
        if known is not None:
            here, missing = ops.gather_rows(known, here), ops.gather_rows(known, missing)
        return _Split(here=here, places=places, missing=missing, asked=query.of(missing))

    def _joined(self, query: RowQuery, split: _Split, fetched: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        kept = self._kept[str(query.table)]
        here, places, missing = map(self._pool.put, (split.here, split.places, split.missing))
        joined = []
        for name, others in zip(query.columns, fetched, strict=True):
            shape = (len(query.gid), *others.shape[1:])
            out = (self._pool.zeros if query.padded else self._pool.empty)(shape, others.dtype)
            ops.gather_rows_to(kept.columns[name], places, here, out)
            ops.scatter_rows(others, missing, out)
            joined.append(out)
        return tuple(joined)


def cached_columns(host: "Graph", name: NodeType) -> tuple[str, ...]:
    """The columns of a node type that are kept: all dense ones, and the user's ids where they are not the gids."""
    dense = tuple(column for column, spec in host.schema.nodes[name].columns.items() if not spec.sparse)
    return dense if name in host.identities else (RAW_ID, *dense)


def row_bytes(host: "Graph", name: NodeType) -> int:
    """What a row of these columns takes."""
    query = RowQuery(table=name, columns=cached_columns(host, name), gid=torch.zeros(0, dtype=torch.int64))
    (columns,) = host.fetch_stored(FetchRequest(queries=(query,))).dense((query,), host.pool)
    return sum(column.element_size() * column.shape[1:].numel() for column in columns)


def far_hotness(host: "Graph", name: NodeType) -> Tensor:
    """How often each node of a type is read, ``[n]``: as it is stored with the partitions, or else how many edges its lists
    hold."""
    gids = torch.arange(host.schema.nodes[name].count).split(_AT_ONCE)
    stored = torch.cat([torch.empty(0), *(host.fetch_rows(name, [HOTNESS], some)[0] for some in gids)])
    listed = [degree_column(relation) for relation in host.schema.edges if host.book.list_type(relation) == name]
    if bool(stored.any()) or not listed:
        return stored
    return torch.cat([torch.empty(0), *_degrees(host, name, listed, gids)])


def _degrees(host: "Graph", table: TableKey, columns: list[str], gids: tuple[Tensor, ...]) -> Iterator[Tensor]:
    for some in gids:
        yield sum((column.float() for column in host.fetch_rows(table, columns, some)), torch.zeros(len(some)))
