"""Rows that are written to a graph: columns that its owners hold in memory, and a ledger, so that no push counts twice."""

import threading
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.errors import IdError, InputError, SchemaError
from halohop.leased import Leased
from halohop.partitioning.book import Book
from halohop.store.requests import HoldRequest, PushRequest
from halohop.typing import RAW_ID

_WINDOW = 65_536
"""Pushes of one sender that are remembered; older ones count as known. None is sent again that long after."""


class _Known:
    """The pushes of one sender."""

    __slots__ = ("highest", "recent")

    def __init__(self) -> None:
        self.highest = 0
        self.recent: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number in self.recent or number <= self.highest - _WINDOW

    def add(self, number: int) -> None:
        self.recent.add(number)
        self.highest = max(self.highest, number)
        if len(self.recent) > 2 * _WINDOW:
            self.recent = {other for other in self.recent if other > self.highest - _WINDOW}


class Held:
    """Columns of nodes beside the stored ones, which clients make, read and write. They last as long as the process.

    A push that is sent again, because the connection broke before its answer came, is answered again and not applied again. One
    that fails writes no row and does not count, so it may be tried again.
    Pushes are applied one after the other; a client that reads rows meanwhile may find some of them written.

    Args:
        book: who owns what.
        parts: the partitions that are here.
    """

    def __init__(self, book: Book, parts: tuple[int, ...]) -> None:
        self._book = book
        self._parts = parts
        self._lock = threading.Lock()
        self._pieces: dict[tuple[str, str], dict[int, Tensor]] = {}
        self._specs: dict[tuple[str, str], HoldRequest] = {}
        self._senders: Leased[str, _Known] = Leased()

    def hold(self, request: HoldRequest, *, stored: Iterable[str]) -> ops.Pieces | None:
        """Makes a column; None if it is there already, as asked for.

        Args:
            request: what is asked for.
            stored: names that are taken.

        Raises:
            InputError: there is another one of this name, or no such dtype or shape.
        """
        key = request.node_type, request.name
        with self._lock:
            known = self._specs.get(key)
            if repr(known) == repr(request):  # a fill of NaN equals no other by value
                return None
            if known is not None or request.name in (*stored, RAW_ID):
                what = "is stored" if known is None else f"is held as {known}"
                raise InputError(f"a column {request.name!r} of {request.node_type!r} {what}; take another name")
            bounds = self._book.bounds(request.node_type)
            tensors = {part: _filled(bounds[part + 1] - bounds[part], request) for part in self._parts}
            self._specs[key], self._pieces[key] = request, tensors
            return ops.Pieces([tensors.get(part) for part in range(self._book.num_parts)], bounds)

    def push(self, request: PushRequest) -> bool:
        """Writes rows, or adds to them; returns whether this push was new.

        Raises:
            SchemaError: no owner holds such a column.
            InputError: rows of another shape or dtype, or of a dtype that torch cannot add.
            IdError: a row that another partition owns.
        """
        key = request.node_type, request.name
        with self._lock:
            if key not in self._specs:
                raise SchemaError(f"no column {request.name!r} of {request.node_type!r} is held here; `hold` it first")
            known = self._known(request)
            if request.number in known:
                return False
            for tensor, lid, rows in self._changes(request, self._pieces[key]):  # all are made before the first is written
                ops.scatter_rows(rows, lid, tensor)  # one after the other: of equal ones the last stays
            known.add(request.number)
            return True

    def _changes(self, request: PushRequest, tensors: dict[int, Tensor]) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Where rows go, by partition: the tensor, the rows of it, and what they become."""
        sample = next(iter(tensors.values()))
        if request.rows.dtype != sample.dtype or request.rows.shape != (len(request.gid), *sample.shape[1:]):
            raise InputError(
                f"rows of {request.rows.dtype} and shape {tuple(request.rows.shape)} do not fit {request.name!r}, which has "
                f"{sample.dtype} and row shape {tuple(sample.shape[1:])}"
            )
        bounds, absent = self._book.bounds(request.node_type), len(self._parts)
        place = {part: index for index, part in enumerate(self._parts)}
        buckets = ops.bucket(request.gid, bounds, [place.get(part, absent) for part in range(self._book.num_parts)])
        if found := len(request.gid) - buckets.starts[absent]:
            raise IdError(f"{found} of {len(request.gid)} rows of {request.node_type!r} are not held here")
        changes = []
        for part, (begin, end) in zip(self._parts, pairwise(buckets.starts), strict=False):
            order = buckets.order[begin:end]
            lid = torch.from_numpy(ops.gather_rows(request.gid, order).numpy() - bounds[part])
            rows = ops.gather_rows(request.rows, order)
            changes.append((tensors[part], *(_sums(tensors[part], lid, rows) if request.add else (lid, rows))))
        return changes

    @property
    def num_senders(self) -> int:
        """Of how many the pushes are remembered."""
        return len(self._senders)

    def sweep(self, lease_seconds: float) -> None:
        """Forgets senders that have not pushed for a lease, and whose pushes can no longer come again. The columns stay."""
        self._senders.sweep(lease_seconds)

    def _known(self, request: PushRequest) -> _Known:
        known = self._senders.get(request.sender, seconds=request.repeated_seconds)
        if known is None:
            known = _Known()
            self._senders.put(request.sender, known, seconds=request.repeated_seconds)
        return known


def _filled(count: int, request: HoldRequest) -> Tensor:
    """
    Raises:
        InputError: no such dtype or shape, or a fill that the dtype does not have.
    """
    dtype = getattr(torch, request.dtype, None)
    if not isinstance(dtype, torch.dtype) or any(size < 0 for size in request.shape):
        raise InputError(f"no column of {request.dtype!r} and row shape {request.shape} can be held")
    try:
        return torch.full((count, *request.shape), request.fill, dtype=dtype)
    except RuntimeError as error:
        raise InputError(
            f"no column of {request.dtype!r} and row shape {request.shape}, filled with {request.fill}, can be held: {error}"
        ) from error


def _sums(tensor: Tensor, lid: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a tensor that are added to, each once, and what they become; the tensor stays as it is.

    Raises:
        InputError: torch cannot add this dtype.
    """
    places, row = np.unique(lid.numpy(), return_inverse=True)
    at = torch.from_numpy(places)
    try:
        return at, ops.gather_rows(tensor, at).index_add_(0, torch.from_numpy(row), rows)
    except NotImplementedError as error:
        raise InputError(f"rows of {rows.dtype} cannot be added ({error}); push them without add") from error
