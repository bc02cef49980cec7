"""What is asked of the owners of tables. As all requests, each may be asked twice: what it does is done once."""

from dataclasses import dataclass, replace

from torch import Tensor

from halohop import ops
from halohop.store.checksums import FileRecord
from halohop.store.forms import Ids
from halohop.store.requests import Name, Reply, Request
from halohop.tables.rule_spec import RuleSpec
from halohop.tables.spec import TableSpec


class TableRequest(Request[Reply]):
    """Base of the requests that owners of tables answer. The answer of an owner may be a future."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPart:
    """Where other processes of the same machine find a partition's rows, see `halohop.tables.arrays.map_shared`.

    Args:
        part: the partition.
        path: of an open file of the owner's.
        identity: of that file.
        system: names the running system and its namespace of processes, without which the path means nothing.
    """

    part: int
    path: str
    identity: str
    system: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMade:
    """The table is there.

    Args:
        fills: partitions whose rows the client that asked has to write, and then say so (`FilledRequest`); of "given" only.
        shared: its rows here.
        owner: names this owner, as no other process is called; one that was started again has another name.
    """

    fills: tuple[int, ...]
    shared: tuple[SharedPart, ...]
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeTableRequest(TableRequest[TableMade]):
    """Makes a table, or finds it as it is; refused where one of this name differs.

    Args:
        sender: names the client.
        parts: the partitions whose rows are to be here, where others own further ones that are here, too; empty: all that are
            here. Refused where the table has the rows of other partitions: clients differ in whom they take for owners.
    """

    spec: TableSpec
    sender: Name
    parts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilled:
    """The rows count as begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledRequest(TableRequest[TableFilled]):
    """The client has written all rows of these partitions of a "given" table; others may read them from now on."""

    name: str
    parts: tuple[int, ...]
    sender: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class TableListing:
    """A table at one owner.

    Args:
        spec: what it is.
        steps: of its optimiser, so far.
        optimizer: which optimiser trains it; empty: none.
        state: of the optimiser, names of arrays and their row shapes.
        num_bytes: at this owner, rows and state.
        shared: its rows there.
    """

    spec: TableSpec
    steps: int
    optimizer: str
    state: dict[str, tuple[int, ...]]
    num_bytes: int
    shared: tuple[SharedPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableListings:
    """The tables of one owner, which is called as in `TableMade`."""

    tables: tuple[TableListing, ...]
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTablesRequest(TableRequest[TableListings]):
    """All tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDropped:
    """It is gone, or was not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTableRequest(TableRequest[TableDropped]):
    """Forgets a table, its optimiser's state, and that optimiser, if it trains no other table."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRead:
    """Per query: rows ``[n, *shape]`` in the table's dtype, and how many steps of its optimiser they have seen."""

    rows: tuple[Tensor, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """Some rows of a table.

    Args:
        name: of the table.
        gid: int64 ``[n]``.
        state: an array of its optimiser's state instead of its rows.
        spec: `TableSpec.digest` of the table as the client knows it: refused if it was dropped and made otherwise; empty: any.
    """

    name: str
    gid: Ids
    state: str = ""
    spec: str = ""

    def of(self, rows: Tensor, pool: ops.Pool | None = None) -> "TableQuery":
        """The query for some of its rows, by position."""
        return replace(self, gid=ops.gather_rows(self.gid, rows, pool=pool))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRowsRequest(TableRequest[RowsRead]):
    """Rows of several tables."""

    queries: tuple[TableQuery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTable:
    """One owner's rows of a table in a checkpoint: those that are not as they began.

    Args:
        spec: of the table.
        optimizer: which optimiser trains it; empty: none.
        rule: of that optimiser; None where it has none.
        steps: of its optimiser, so far.
        num_rows: how many rows the files hold.
        owns: of which rows this owner is, as a number of their raw ids: with the same one an owner needs no other files.
        path: folder of the files, in that of the checkpoint.
        files: array files by what they hold, which is their name: "id" (raw ids), "rows", and "state.NAME".
    """

    spec: TableSpec
    optimizer: str
    rule: RuleSpec | None
    steps: int
    num_rows: int
    owns: str
    path: str
    files: dict[str, FileRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesSaved:
    tables: tuple[SavedTable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveTablesRequest(TableRequest[TablesSaved]):
    """Writes tables, with their state, into a new folder; the client makes them a checkpoint. One folder is written once.

    Args:
        folder: where; below the folder that the server allows, or anywhere where the owner is a trainer.
        names: of the tables.
    """

    folder: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesLoaded:
    """How many rows of each table were found, by name; those who ask compare the sum of all owners with what was saved."""

    rows: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTablesRequest(TableRequest[TablesLoaded]):
    """Reads tables that `SaveTablesRequest` wrote, at any number of owners: each takes its own rows, by raw id. Rows that are
    not in the files are as they began. Done once, however often it comes.

    Args:
        token: of this request and of no other.
        folder: as of `SaveTablesRequest`.
        tables: what all owners had saved.
        only_check: compares the files with their checksums, and changes nothing.
    """

    token: Name
    folder: str
    tables: tuple[SavedTable, ...]
    only_check: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsCleared:
    """They are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearCheckpointsRequest(TableRequest[CheckpointsCleared]):
    """Removes folders that `SaveTablesRequest` made, finished or not.

    Args:
        folder: where they lie.
        keep: the names of those that stay.
    """

    folder: str
    keep: tuple[str, ...]
