"""The rows of a table that begins as a callable of ids says: the client that has made it writes them."""

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from halohop.cluster.lookups import Lookups
from halohop.cluster.tables.owners import TableOwners
from halohop.errors import InputError
from halohop.tables.messages import FilledRequest
from halohop.tables.spec import TableSpec
from halohop.typing import EDGE_ID, RAW_ID

RowsOf = Callable[[Tensor], Tensor]
"""Rows ``[n, *shape]`` of ids (int64 ``[n]``): the user's ids of nodes or edges, or numbers of rows."""

_BLOCK_BYTES = 1 << 24
"""Of rows that are made and written at a time."""


class _Writer(Protocol):
    @property
    def client(self) -> str: ...
    def write(self, name: str, gid: Tensor, rows: Tensor) -> None: ...


def fill_rows(
    tables: _Writer,
    graph: Lookups,
    owners: TableOwners,
    spec: TableSpec,
    parts: Mapping[int, tuple[int, ...]],
    rows_of: RowsOf | None,
) -> None:
    """Writes all rows of some partitions (by owner), in blocks, then says so: those who wait for them read them now.

    Raises:
        InputError: `rows_of` is missing, or returns rows that do not fit the table; they must be made again by another client.
    """
    if rows_of is None:
        raise InputError(f"table {spec.name!r} begins as {spec.begin.name!r} says; give the callable that makes its rows")
    bounds = spec.bounds(graph.book)
    step = max(_BLOCK_BYTES // max(spec.row_bytes, 1), 1)
    for mine in parts.values():
        for part in mine:
            for begin in range(bounds[part], bounds[part + 1], step):
                gid = torch.arange(begin, min(begin + step, bounds[part + 1]))
                tables.write(spec.name, gid, _checked(rows_of(ids_of(graph, spec, gid)), spec, len(gid)))
    owners.ask({owner: FilledRequest(name=spec.name, parts=mine, sender=tables.client) for owner, mine in parts.items()})


def ids_of(graph: Lookups, spec: TableSpec, gid: Tensor) -> Tensor:
    """The user's ids (int64 ``[n]``) of rows, or their numbers."""
    if spec.key is None:
        return gid
    (ids,) = graph.fetch_rows(spec.key, [RAW_ID if isinstance(spec.key, str) else EDGE_ID], gid)
    return ids


def _checked(rows: object, spec: TableSpec, count: int) -> Tensor:
    want = f"{spec.torch_dtype} {[count, *spec.shape]}"
    if not isinstance(rows, Tensor):
        raise InputError(
            f"{spec.begin.name!r} returned a {type(rows).__name__} for {count} ids, but must return a tensor, {want}"
        )
    if rows.dtype != spec.torch_dtype or tuple(rows.shape) != (count, *spec.shape):
        raise InputError(f"{spec.begin.name!r} returned {rows.dtype} {list(rows.shape)} for {count} ids, but must return {want}")
    return rows
