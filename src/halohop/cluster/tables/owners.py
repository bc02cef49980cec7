"""Who owns the rows of tables, and how questions about them are divided: every row has exactly one owner."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop import ops
from halohop.cluster.answering import answered
from halohop.errors import DeadlineExceededError, IdError, InputError, PeerLostError
from halohop.partitioning.book import Book
from halohop.store.part import Part
from halohop.tables.messages import TableRequest
from halohop.tables.owner import Owner
from halohop.tables.spec import TableSpec

_GLANCE = 0.5
"""Seconds between looks whether an owner that is waited for is lost."""
_PATIENCE = 60.0
"""Seconds that an owner in this process has for an answer, beyond those that the request itself may wait."""


class Asks(Protocol):
    """Sends a request to an owner; the reply, or the error, arrives in the future.

    Args:
        seconds: that the owner may wait for others, beyond the time that a call has.
    """

    def __call__(self, request: TableRequest[Any], *, seconds: float = 0.0) -> "Future[Any]": ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHolder:
    """An owner of tables' rows.

    Args:
        ask: sends it a request.
        parts: whose rows it owns.
        name: as errors and `graph.tables.owners` call it.
        remote: whether it is another process; such owners are asked first.
        lost: why it is gone, for a call that has waited for some seconds: nothing was heard of it for as long as a call may take;
            empty as long as it may answer.
    """

    ask: Asks
    parts: tuple[int, ...]
    name: str
    remote: bool = False
    lost: Callable[[float], str] = lambda waited: ""
    call_seconds: float = 0.0


def holder_here(answer: Callable[[TableRequest[Any]], Any], parts: Sequence[int], *, name: str = "this process") -> TableHolder:
    """An owner in this process.

    Args:
        answer: its reply to a request, or a future of it.
    """

    def ask(request: TableRequest[Any], *, seconds: float = 0.0) -> "Future[Any]":
        return answered(lambda: answer(request))

    return TableHolder(ask=ask, parts=tuple(parts), name=name)


class TableOwners:
    """All owners of a graph's tables.

    Args:
        book: of the graph.
        holders: each partition is in exactly one of them.
        parts_here: partitions that are in this process, too, also where another process owns their tables' rows.
        with_others: several processes use them together, so that they are to be closed when this one ends.
        close: ends what was begun for them; `wait` as of `Graph.shut`.

    Attributes:
        book: as given.
        holders: ascending by their first partition, so that all clients count them alike.
        names: of the owner of each partition.
        parts_here, with_others: as given.
    """

    def __init__(
        self,
        book: Book,
        holders: Sequence[TableHolder],
        *,
        parts_here: Mapping[int, Part] | None = None,
        with_others: bool = False,
        close: Callable[[bool], None] = lambda wait: None,
    ) -> None:
        self.book = book
        self.parts_here = parts_here or {}
        self.with_others = with_others
        self.holders = tuple(sorted(holders, key=lambda holder: min(holder.parts)))
        self._owner_of = {part: index for index, holder in enumerate(self.holders) for part in holder.parts}
        assert sorted(part for holder in holders for part in holder.parts) == list(range(book.num_parts))
        self.names = {part: self.holders[index].name for part, index in sorted(self._owner_of.items())}
        self._remote_first = sorted(range(len(self.holders)), key=lambda index: not self.holders[index].remote)
        self._close = close

    @property
    def num_owners(self) -> int:
        return len(self.holders)

    @property
    def call_seconds(self) -> float:
        """How long a request is repeated that an owner does not answer."""
        return max(holder.call_seconds for holder in self.holders)

    def gids_of(self, ids: Tensor, what: str) -> Tensor:
        """Ids as int64 ``[n]`` on the CPU.

        Raises:
            InputError: they are no integers, or not one-dimensional.
        """
        ids = integers(ids, what)
        if ids.dim() != 1:
            raise InputError(f"ids of {what} have shape {tuple(ids.shape)}, but they must be one-dimensional; use .view(-1)")
        return ids

    def divide(self, spec: TableSpec, gid: Tensor) -> dict[int, Tensor]:
        """Positions (int64, ascending) of some rows by owner; owners of none of them are left out.

        Raises:
            IdError: a row that the table does not have.
        """
        bounds = spec.bounds(self.book)
        array = gid.numpy()
        if not len(array):
            return {}
        if array.min() < 0 or array.max() >= bounds[-1]:
            outside = array[(array < 0) | (array >= bounds[-1])]
            raise IdError(
                f"{len(outside)} of {len(array)} rows are not among the {bounds[-1]} of table {spec.name!r}, the first is "
                f"{int(outside[0])}"
            )
        if not (array[1:] < array[:-1]).any():
            return self._runs(array, bounds)
        buckets = ops.bucket(gid, bounds, [self._owner_of[part] for part in range(self.book.num_parts)])
        found = enumerate(pairwise(buckets.starts))
        return {owner: buckets.order[begin:end] for owner, (begin, end) in found if begin < end}

    def _runs(self, ascending: NDArray[np.int64], bounds: Sequence[int]) -> dict[int, Tensor]:
        """`divide` of rows that ascend, as those of gradients do: each partition has a run of them."""
        runs: dict[int, list[Tensor]] = {}
        for part, (begin, end) in enumerate(pairwise(np.searchsorted(ascending, bounds).tolist())):
            if begin < end:
                runs.setdefault(self._owner_of[part], []).append(torch.arange(begin, end))
        return {owner: found[0] if len(found) == 1 else torch.cat(found) for owner, found in sorted(runs.items())}

    def send(self, requests: Mapping[int, TableRequest[Any]], *, seconds: float = 0.0) -> "dict[int, Future[Any]]":
        """Asks several owners, those in other processes first, so that they work while this one does.

        Args:
            requests: by owner.
            seconds: as of `Asks`.
        """
        ordered = [owner for owner in self._remote_first if owner in requests]
        return {owner: self.holders[owner].ask(requests[owner], seconds=seconds) for owner in ordered}

    def outcomes(self, asked: "Mapping[int, Future[Any]]", *, seconds: float = 0.0) -> dict[int, Any]:
        """What they answer, by owner: all replies, or some replies and at least one error, which is not raised.

        Args:
            seconds: that they may wait for others.
        """
        begun = time.monotonic()
        ends = begun + _PATIENCE + seconds
        while True:
            wait(asked.values(), timeout=_GLANCE, return_when=FIRST_EXCEPTION)
            found: dict[int, Any] = {}
            for owner, future in sorted(asked.items()):
                if future.done():
                    error = future.exception()
                    found[owner] = future.result() if error is None else error
                elif why := self.holders[owner].lost(time.monotonic() - begun):
                    found[owner] = PeerLostError(why)
                elif not self.holders[owner].remote and time.monotonic() > ends:
                    found[owner] = DeadlineExceededError(
                        f"the owner of tables in this process has not answered for {seconds:g} s"
                    )
            if len(found) == len(asked) or failures(found):
                return found

    def ask(self, requests: Mapping[int, TableRequest[Any]], *, seconds: float = 0.0) -> dict[int, Any]:
        """Their replies, by owner.

        Raises:
            InputError: an owner refuses what is asked; of one in another process it is a `RemoteError`, which names it.
            PeerLostError: an owner cannot be reached; names it.
        """
        found = self.outcomes(self.send(requests, seconds=seconds), seconds=seconds)
        for error in failures(found).values():
            raise error
        return found

    def ask_all(self, request: TableRequest[Any]) -> dict[int, Any]:
        """The same request to all."""
        return self.ask(dict.fromkeys(range(self.num_owners), request))

    def close(self, *, wait: bool) -> None:
        """Ends what was begun for them."""
        self._close(wait)


def failures(found: Mapping[int, Any]) -> dict[int, Exception]:
    """The errors among what owners answer."""
    return {owner: one for owner, one in found.items() if isinstance(one, Exception)}


def owners_here(book: Book, owners: Mapping[Owner, Sequence[int]]) -> TableOwners:
    """Owners in this process, and whose rows they own."""

    def close(wait: bool) -> None:
        for owner in owners:
            owner.close()

    return TableOwners(book, [holder_here(owner.answer, tuple(parts)) for owner, parts in owners.items()], close=close)


def integers(ids: Tensor, what: str) -> Tensor:
    """Ids of any shape as int64 on the CPU.

    Raises:
        InputError: they are no integers.
    """
    if not isinstance(ids, Tensor) or ids.dtype.is_floating_point or ids.dtype.is_complex or ids.dtype == torch.bool:
        kind = f"a tensor of {ids.dtype}" if isinstance(ids, Tensor) else f"a {type(ids).__name__}"
        raise InputError(f"ids of {what} are {kind}; give a tensor of integers, such as torch.tensor([0, 2])")
    return ids.detach().cpu().long()
