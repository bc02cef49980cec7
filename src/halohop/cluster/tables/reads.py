"""Rows of tables on their way: asked of their owners at once, put together when they are needed."""

import threading
import time
from dataclasses import dataclass, replace

from torch import Tensor

from halohop import ops
from halohop.cluster.tables.names import TableNames
from halohop.cluster.tables.owners import TableOwners, failures
from halohop.cluster.tables.shared_rows import SharedRows
from halohop.errors import ClusterError
from halohop.tables.messages import ReadRowsRequest, TableQuery
from halohop.tables.spec import TableSpec
from halohop.telemetry import Counters

_SETTLE_SECONDS = 5.0
"""How long owners may differ in their steps: one step reaches them one after the other."""
_PAUSE = 0.01
_FILLING_SECONDS = 3600.0
"""How long another client may take to write the rows of a table that begins as a callable says; owners see whether it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Rows of a table, or of its optimiser's state, by gid (int64 ``[n]``)."""

    spec: TableSpec
    gid: Tensor
    state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """A query's rows at one owner: positions in the question (int64, ascending), and the gids there."""

    query: int
    owner: int
    positions: Tensor
    gid: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What was read of a share; `lands` where its rows are in the answer already."""

    share: _Share
    rows: Tensor
    steps: int
    lands: bool = False


class Reading:
    """Rows of several tables that owners are asked for; `result` waits for them.

    Args:
        owners: of all tables.
        names: explain what an owner refuses.
        shared: what can be read in the memory of owners.
        wanted: what is asked for.
        pool: where the memory of the rows comes from.
        counters: of rows, by where they were read.

    Attributes:
        steps: per table, how many steps its rows have seen, once `result` has returned them.
    """

    def __init__(
        self,
        owners: TableOwners,
        names: TableNames,
        shared: SharedRows,
        wanted: tuple[Wanted, ...],
        pool: ops.Pool,
        counters: Counters,
    ) -> None:
        self._owners, self._names, self._shared = owners, names, shared
        self._wanted = wanted
        self._pool, self._counters = pool, counters
        begun_elsewhere = any(one.spec.begin.kind == "given" for one in wanted)
        self._seconds = _FILLING_SECONDS if begun_elsewhere else 0.0
        self.steps: tuple[int, ...] = ()
        self._shares: list[_Share] = []
        self._answers: dict[int, Tensor] = {}
        for number, one in enumerate(wanted):
            divided = owners.divide(one.spec, one.gid) or {0: one.gid}  # one is asked all the same: its answer has the dtype
            for owner, positions in divided.items():
                whole = len(positions) == len(one.gid)
                gid = one.gid if whole else ops.gather_rows(one.gid, positions, pool=pool)
                self._shares.append(_Share(query=number, owner=owner, positions=positions, gid=gid))
        self._send()

    def done(self) -> bool:
        """Whether all owners have answered."""
        return all(future.done() for future in self._asked.values())

    def result(self) -> tuple[Tensor, ...]:
        """Per table, rows ``[n, ...]`` in the order of their gids, all after the same number of steps.

        Raises:
            SchemaError: a table is not there any more, or is another one.
            PeerLostError: an owner is lost; names it.
            ClusterError: an owner came back empty, or has another number of steps than the others.
        """
        ends, pause = time.monotonic() + _SETTLE_SECONDS, threading.Event()
        while True:
            found = [*self._found, *self._answered()]
            uneven = self._uneven(found)
            if not uneven:
                seen = {one.share.query: one.steps for one in found}
                self.steps = tuple(seen[number] for number in range(len(self._wanted)))
                return tuple(self._merged(number, found) for number in range(len(self._wanted)))
            if time.monotonic() > ends:
                raise ClusterError(uneven)
            pause.wait(_PAUSE)
            self._send()

    def _send(self) -> None:
        """Reads what is in reach, and asks owners for the rest."""
        self._found: list[_Found] = []
        self._pending: dict[int, list[_Share]] = {}
        for share in self._shares:
            one, rest = self._wanted[share.query], share
            if self._owners.holders[share.owner].remote and not one.state:
                taken = self._shared.take(one.spec, share.gid, self._answer(share.query), share.positions)
                if taken is not None:
                    self._found.append(_Found(share=share, rows=taken.rows, steps=taken.steps, lands=True))
                    if not len(taken.missing):
                        continue
                    positions = ops.gather_rows(share.positions, taken.missing)
                    rest = replace(share, positions=positions, gid=ops.gather_rows(share.gid, taken.missing))
            self._pending.setdefault(share.owner, []).append(rest)
            where = "remote" if self._owners.holders[share.owner].remote else "local"
            self._counters.add(f"table_{where}_rows", len(rest.gid))
        self._asked = self._owners.send(
            {owner: self._request(shares) for owner, shares in self._pending.items()}, seconds=self._seconds
        )

    def _answer(self, query: int) -> Tensor:
        """The memory of a query's answer."""
        if query not in self._answers:
            one = self._wanted[query]
            self._answers[query] = self._pool.empty((len(one.gid), *one.spec.shape), one.spec.torch_dtype)
        return self._answers[query]

    def _request(self, shares: list[_Share]) -> ReadRowsRequest:
        wanted = [(self._wanted[share.query], share.gid) for share in shares]
        return ReadRowsRequest(
            queries=tuple(TableQuery(name=one.spec.name, gid=gid, state=one.state, spec=one.spec.digest) for one, gid in wanted)
        )

    def _answered(self) -> list[_Found]:
        """What owners answer."""
        replies = self._owners.outcomes(self._asked, seconds=self._seconds)
        for owner, error in failures(replies).items():
            specs = [self._wanted[share.query].spec for share in self._pending[owner]]
            explained = self._names.explained(error, owner, specs)
            if explained is error:
                raise error
            raise explained from error
        return [
            _Found(share=share, rows=rows, steps=steps)
            for owner, reply in replies.items()
            for share, rows, steps in zip(self._pending[owner], reply.rows, reply.steps, strict=True)
        ]

    def _uneven(self, found: list[_Found]) -> str:
        """Why the rows of a table are not of one moment; empty if they are."""
        seen: dict[str, dict[int, str]] = {}
        for one in found:
            name = self._wanted[one.share.query].spec.name
            seen.setdefault(name, {})[one.steps] = self._owners.holders[one.share.owner].name
        for name, owners in seen.items():
            if len(owners) > 1:
                counts = ", ".join(f"{who} {steps}" for steps, who in sorted(owners.items()))
                return (
                    f"the owners of table {name!r} have made different numbers of steps ({counts}): a step reached only some; "
                    "go on from the last checkpoint (--resume)"
                )
        return ""

    def _merged(self, number: int, found: list[_Found]) -> Tensor:
        pieces = [one for one in found if one.share.query == number]
        first = pieces[0].rows
        if len(pieces) == 1:
            return first
        out = self._answers.get(number)
        if out is None:
            out = self._pool.empty((len(self._wanted[number].gid), *first.shape[1:]), first.dtype)
        for one in pieces:
            if not one.lands:
                ops.scatter_rows(one.rows, one.share.positions, out)
        return out
