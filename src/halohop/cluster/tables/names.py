"""Which tables there are: made by one client, found by the others by name, and the same at all owners."""

import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from halohop.cluster.tables.owners import TableOwners
from halohop.cluster.tables.shared_rows import SharedRows
from halohop.errors import ClusterError, HalohopError, InputError, RemoteError, SchemaError, WriteError
from halohop.tables.messages import (
    DropTableRequest,
    ListTablesRequest,
    MakeTableRequest,
    TableListing,
    TableListings,
    TableMade,
)
from halohop.tables.spec import TableSpec

_MAKING_SECONDS = 5.0
"""How long another client may take to make a table at all owners."""
_PAUSE = 0.02


class TableNames:
    """The tables that this client knows, and how it finds others.

    Args:
        owners: of all tables.
        shared: learns where other processes of this machine have rows.

    Attributes:
        client: names this client.
    """

    def __init__(self, owners: TableOwners, shared: SharedRows) -> None:
        self.client = secrets.token_hex(8)
        self._owners, self._shared = owners, shared
        self._lock = threading.Lock()
        self._specs: dict[str, TableSpec] = {}
        self._processes: dict[int, str] = {}  # what owners call themselves, since they were first asked

    def make(self, spec: TableSpec) -> dict[int, TableMade]:
        """Makes a table at all owners, or finds it as it is; their answers.

        Raises:
            InputError: there is another one of this name, or an owner cannot have it; none has it then.
            ClusterError: only some owners have it.
        """
        found = self._found(spec.name)
        if found and (other := found[min(found)].spec).digest != spec.digest:
            raise InputError(
                f"table {spec.name!r} is there already, as {described(other)}, and not as {described(spec)}; "
                "take another name, or drop it first"
            )
        try:
            made: dict[int, TableMade] = self._owners.ask(
                {
                    owner: MakeTableRequest(spec=spec, sender=self.client, parts=holder.parts)
                    for owner, holder in enumerate(self._owners.holders)
                }
            )
        except (
            InputError,
            WriteError,
            RemoteError,
        ) as error:  # one cannot have it, so none has
            if not found:
                self._undo(spec.name, error)
            raise
        self._know(spec, made)
        self._note_processes({owner: reply.owner for owner, reply in made.items()})
        return made

    def _undo(self, name: str, error: Exception) -> None:
        try:
            self._owners.ask_all(DropTableRequest(name=name))
        except HalohopError as late:
            error.add_note(f"The table could not be dropped at all owners: {late}")

    def spec(self, name: str) -> TableSpec:
        """What a table is, asked of its owners the first time.

        Raises:
            SchemaError: there is none of this name.
            ClusterError: only some owners have it.
        """
        with self._lock:
            known = self._specs.get(name)
        if known is not None:
            return known
        found = self._found(name)
        if not found:
            raise SchemaError(f"there is no table {name!r}; there are {[table.spec.name for table in self.list()]}")
        return self._know(found[min(found)].spec, found)

    def list(self) -> tuple[TableListing, ...]:
        """All tables, by name; bytes are those at all owners together."""
        whole: dict[str, TableListing] = {}
        for listings in self._listings().values():
            for table in listings.tables:
                known = whole.get(table.spec.name)
                if known is not None:
                    table = replace(known, steps=min(known.steps, table.steps), num_bytes=known.num_bytes + table.num_bytes)
                whole[table.spec.name] = table
        return tuple(whole[name] for name in sorted(whole))

    def drop(self, name: str) -> None:
        """Forgets a table, at all owners.

        Raises:
            SchemaError: there is none of this name.
        """
        there = [table.spec.name for table in self.list()]
        if name not in there:
            raise SchemaError(f"there is no table {name!r} to drop; there are {there}")
        self._owners.ask_all(DropTableRequest(name=name))
        self.forget(name)

    def forget(self, name: str) -> None:
        """What a table is will be asked again."""
        with self._lock:
            self._specs.pop(name, None)

    def explained(self, error: Exception, owner: int, specs: Iterable[TableSpec]) -> Exception:
        """Why an owner has refused something about tables: itself, or that a table is not there any more, or is another one."""
        if not isinstance(error, RemoteError | InputError):
            return error
        before = self._processes.get(owner)
        try:
            listings: TableListings = self._owners.ask({owner: ListTablesRequest()})[owner]
        except HalohopError:  # what it answered before says more
            return error
        there = {table.spec.name: table.spec for table in listings.tables}
        who = self._owners.holders[owner].name
        for spec in specs:
            found = there.get(spec.name)
            if found is not None and found.digest == spec.digest:
                continue
            self.forget(spec.name)
            if found is not None:
                return _caused(
                    SchemaError(f"table {spec.name!r} was dropped and made as {described(found)}; attach it again"), error
                )
            if before is not None and listings.owner != before:
                return _caused(_came_back_empty(spec.name, who), error)
            return _caused(SchemaError(f"there is no table {spec.name!r} any more: it was dropped; make it again"), error)
        return error

    def _found(self, name: str) -> dict[int, TableListing]:
        """The table as all owners have it, alike; empty if there is none. One that another client is about to make is waited
        for."""
        ends, pause = time.monotonic() + _MAKING_SECONDS, threading.Event()
        while True:
            found = {
                owner: table
                for owner, listings in self._listings().items()
                for table in listings.tables
                if table.spec.name == name
            }
            if not found:
                return {}
            if len(found) == self._owners.num_owners:
                break
            if time.monotonic() > ends:
                without = [holder.name for owner, holder in enumerate(self._owners.holders) if owner not in found]
                raise _came_back_empty(name, ", ".join(without))
            pause.wait(_PAUSE)
        if len({table.spec.digest for table in found.values()}) > 1:
            raise ClusterError(f"the owners of table {name!r} have it in different ways; drop it, and make it again")
        return found

    def _listings(self) -> dict[int, TableListings]:
        listings: dict[int, TableListings] = self._owners.ask_all(ListTablesRequest())
        self._note_processes({owner: reply.owner for owner, reply in listings.items()})
        return listings

    def _note_processes(self, names: dict[int, str]) -> None:
        with self._lock:
            for owner, name in names.items():
                self._processes.setdefault(owner, name)

    def _know(self, spec: TableSpec, at: Mapping[int, TableListing | TableMade]) -> TableSpec:
        """Notes a table, and where its owners have it."""
        for owner, found in at.items():
            if self._owners.holders[owner].remote:
                self._shared.know(spec, found.shared)
        with self._lock:
            self._specs[spec.name] = spec
        return spec


def described(spec: TableSpec) -> str:
    """A table in few words.

    Example:
        >>> described(TableSpec(name="e", key="node", num_rows=9, shape=(4,), dtype="float32"))
        "float32 [9, 4] of 'node', constant 0"
    """
    begin = spec.begin
    words = {
        "constant": f"constant {begin.low:g}",
        "uniform": f"uniform from {begin.low:g} to {begin.high:g}, seed {begin.seed}",
        "normal": f"normal of mean {begin.low:g} and deviation {begin.high:g}, seed {begin.seed}",
        "column": f"column {begin.name!r}",
        "given": f"given by {begin.name!r}",
    }[begin.kind]
    rows = "" if spec.key is None else f" of {spec.key!r}"
    where = "" if spec.storage == "memory" else f", on {spec.storage}"
    return f"{spec.dtype} {[spec.num_rows, *spec.shape]}{rows}, {words}{where}"


def _came_back_empty(name: str, who: str) -> ClusterError:
    return ClusterError(
        f"{who} has no table {name!r}, and other owners or earlier answers say that there is one: it was started again, empty; "
        "go on from the last checkpoint (--resume), or drop the table and make it again"
    )


def _caused(error: HalohopError, cause: Exception) -> HalohopError:
    error.__cause__ = cause
    return error
