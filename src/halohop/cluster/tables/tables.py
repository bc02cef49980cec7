"""`graph.tables`: tables of rows that lie with the partitions, and what a client can do with them."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.lookups import Lookups
from halohop.cluster.tables.changes import Change
from halohop.cluster.tables.checkpoint import forget_others, load_tables, save_tables
from halohop.cluster.tables.export import export_rows
from halohop.cluster.tables.filling import RowsOf, fill_rows, ids_of
from halohop.cluster.tables.names import TableNames
from halohop.cluster.tables.owners import TableOwners
from halohop.cluster.tables.reads import Reading, Wanted
from halohop.cluster.tables.shared_rows import SharedRows
from halohop.errors import IdError, InputError
from halohop.tables.change_messages import Moment, Share, Way
from halohop.tables.messages import TableListing
from halohop.tables.spec import TableSpec
from halohop.telemetry import Counters

STEP_SECONDS = 60.0
"""How long owners wait for the shares of other ranks."""


class Tables:
    """The tables of a graph, at their owners; `graph.tables`. Any number of threads may use it.

    A table is made by one client, and found by the others by its name. Its rows are named by gid here; see `locate`. In programs
    `halohop.DistTensor` is what reads and writes them.

    Args:
        graph: finds ids.
        owners: of all tables.
        pool: where the memory of rows comes from.
        counters: of rows, by where they were read.

    Attributes:
        is_open: whether the graph is.
        pool: as given.
    """

    def __init__(self, graph: Lookups, owners: TableOwners, pool: ops.Pool, counters: Counters) -> None:
        self._graph = graph
        self._owners = owners
        self.pool, self._counters = pool, counters
        self._shared = SharedRows(owners.book, owners.parts_here, pool, counters)
        self._names = TableNames(owners, self._shared)
        self._writes = itertools.count()
        self.is_open = True

    @property
    def owners(self) -> Mapping[int, str]:
        """Who owns the rows of each partition."""
        return self._owners.names

    @property
    def client(self) -> str:
        """What owners call this client."""
        return self._names.client

    @property
    def directory(self) -> TableOwners:
        """Whom to ask what is not asked here."""
        return self._owners

    def make(self, spec: TableSpec, rows_of: RowsOf | None = None) -> None:
        """Makes a table, or finds it as it is.

        Args:
            rows_of: of a table that begins as "given": its rows by ids, of which each client may be asked for some; others wait.

        Raises:
            InputError: there is another one of this name, or an owner cannot have it.
            ClusterError: only some owners have it.
            TransportError: an owner cannot be asked; names it.
        """
        made = self._names.make(spec)
        parts = {owner: reply.fills for owner, reply in made.items() if reply.fills}
        if parts:
            try:
                fill_rows(self, self._graph, self._owners, spec, parts, rows_of)
            except Exception:
                self._names.drop(spec.name)  # those who wait for its rows hear that they do not come
                raise

    def spec(self, name: str) -> TableSpec:
        """What a table is.

        Raises:
            SchemaError: there is none of this name.
        """
        return self._names.spec(name)

    def list(self) -> tuple[TableListing, ...]:
        """All tables, by name; bytes are those at all owners together."""
        return self._names.list()

    def drop(self, name: str) -> None:
        """Forgets a table and its optimiser's state, for all clients.

        Raises:
            SchemaError: there is none of this name.
        """
        self._names.drop(name)

    def read(self, name: str, gid: Tensor, *, state: str = "") -> Tensor:
        """Rows ``[n, *shape]`` in the table's dtype, as they were after one number of steps.

        Args:
            gid: int64 ``[n]``.
            state: an array of its optimiser's state instead of its rows.

        Raises:
            SchemaError: no such table, or it was dropped.
            IdError: a row that it does not have.
            PeerLostError: an owner is lost; names it.
            ClusterError: an owner was started again, empty; or a step reached only some owners.
        """
        return self.read_later([(name, gid)], state=state).result()[0]

    def read_later(self, wanted: Sequence[tuple[str, Tensor]], *, state: str = "") -> Reading:
        """Asks for rows of several tables, and returns at once; `Reading.result` has them, and raises what `read` does.

        Raises:
            SchemaError: no such table.
            IdError: a row that it does not have.
        """
        asked = []
        for name, gid in wanted:
            spec = self._names.spec(name)
            asked.append(Wanted(spec=spec, gid=self._owners.gids_of(gid, f"table {name!r}"), state=state))
        return Reading(self._owners, self._names, self._shared, tuple(asked), self.pool, self._counters)

    def write(self, name: str, gid: Tensor, rows: Tensor) -> None:
        """Writes rows; of equal ones the last stays. If one owner cannot, none does.

        Args:
            gid: int64 ``[n]``.
            rows: ``[n, *shape]`` in the table's dtype.

        Raises:
            InputError: rows of another number, shape or dtype.
            SchemaError, IdError, PeerLostError, ClusterError: as of `read`.
        """
        self._write("write", name, gid, rows)

    def add(self, name: str, gid: Tensor, rows: Tensor) -> None:
        """The same, but adds to the rows; equal ones are all added."""
        self._write("add", name, gid, rows)

    def _write(self, way: Way, name: str, gid: Tensor, rows: Tensor) -> None:
        moment = Moment(group=self.client, session="", rank=0, size=1, round=0, index=next(self._writes))
        self.change(moment, way, [Share(name=name, gid=gid, rows=rows)]).apply()

    def change(
        self,
        moment: Moment,
        way: Way,
        shares: Sequence[Share],
        *,
        norm: bool = False,
        scale: Callable[[float], float] | None = None,
        max_norm: float = 0.0,
        seconds: float = STEP_SECONDS,
    ) -> Change:
        """A change at all owners, wholly or not at all, and once: `Change.apply` sends it. Nothing is sent before.

        Args:
            moment, way, shares: as of `ChangeRequest`.
            norm: of a step: the sum of the squared entries of all gradients is asked for, over all tables and owners.
            scale: the factor of all gradients, by that sum. All ranks give the same function.
            max_norm: that it follows from; ranks that differ are refused.
            seconds: how long to wait for other ranks.

        Raises:
            InputError: what does not fit a table.
            SchemaError, IdError, ClusterError: as of `read`.
        """
        return Change(
            self._owners,
            self._names,
            moment,
            way,
            [self._fitting(share, way) for share in shares],
            norm=norm,
            scale=scale,
            max_norm=max_norm,
            seconds=seconds,
            pool=self.pool,
        )

    def _fitting(self, share: Share, way: Way) -> tuple[TableSpec, Share]:
        """The share with tensors as owners take them."""
        spec = self._names.spec(share.name)
        gid = self._owners.gids_of(share.gid, f"table {share.name!r}")
        dtype = spec.torch_dtype
        if way == "step":
            dtype = torch.float64 if dtype == torch.float64 else torch.float32
        rows = share.rows
        if not isinstance(rows, Tensor) or rows.dtype != dtype or tuple(rows.shape) != (len(gid), *spec.shape):
            have = f"{rows.dtype} {list(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            want = f"{dtype} {[len(gid), *spec.shape]}"
            raise InputError(f"rows for {len(gid)} ids of table {share.name!r} are {have}, but must be {want}")
        rows = rows.detach().cpu().contiguous()
        return spec, Share(name=share.name, gid=gid, rows=rows, lr=share.lr, spec=spec.digest)

    def locate(self, spec: TableSpec, ids: Tensor) -> Tensor:
        """Gids (int64 ``[n]``) of a table's rows.

        Args:
            ids: integers ``[n]``: the user's ids of nodes, places of edges in the user's input, or numbers of rows of their own.

        Raises:
            IdError: an id that the table does not have.
            InputError: ids of another type, or not one-dimensional.
        """
        ids = self._owners.gids_of(ids, f"table {spec.name!r}")
        if isinstance(spec.key, str):
            return self._graph.locate(ids, spec.key)
        if spec.key is not None:
            return self._graph.locate_edges(spec.key, ids)
        outside = ids[(ids < 0) | (ids >= spec.num_rows)]
        if len(outside):
            raise IdError(
                f"{len(outside)} of {len(ids)} ids are not among the {spec.num_rows} rows of table {spec.name!r}, the first is "
                f"{int(outside[0])}"
            )
        return ids

    # ---- keeping

    def save(self, folder: str | Path, *, step: int, names: Sequence[str] | None = None, keep_others: bool = False) -> None:
        """Writes a checkpoint of tables and of their optimisers' state: the rows that are not as they began. It counts when all
        of it is on the disk; then older ones of the folder are removed. A save that fails, or is killed, leaves them good.

        One client calls it, between steps. What each owner writes is of one moment; owners that differ in steps are refused.

        Args:
            folder: of the checkpoints of one run. An owner in this process writes into it; other owners write into the folder of
                this name below their own for tables. This process writes the record here. Hosts that share no folder can read it
                into the same partitions.
            step: of the model, as it will be asked for.
            names: of the tables; None: all.
            keep_others: older checkpoints stay, until `forget_checkpoints`.

        Raises:
            InputError, SchemaError: no such table or step, or a folder that another owner refuses.
            ClusterError: another process is saving into the folder, or steps were made meanwhile.
            WriteError: it cannot be written. (Of an owner in another process, errors are `RemoteError`.)
        """
        save_tables(self._names, self._owners, folder, step=step, chosen=names, keep_others=keep_others)

    def load(self, folder: str | Path, *, step: int, names: Sequence[str] | None = None) -> None:
        """Brings tables, and their optimisers' state, to where they were in a checkpoint, however the graph is divided now.

        All files are compared with their checksums before anything is changed. Tables that are not there are made, also those
        that an owner has lost, since it was started again. One client calls it, while no other uses the tables.

        Args:
            folder: see `save`.
            step: of the model.
            names: of the tables; None: all that were saved.

        Raises:
            InputError: there is no checkpoint, or none of this step; a table, or its optimiser, is another than the one that was
                saved; or the graph has other nodes.
            DatasetError: a file is missing, or was changed. (Of an owner in another process, errors are `RemoteError`.)
        """
        load_tables(self._names, self._owners, folder, step=step, chosen=names)

    def forget_checkpoints(self, folder: str | Path, *, but: int) -> None:
        """Removes all checkpoints of a folder but the one of this step.

        Raises:
            InputError: there is none of this step; nothing is removed.
        """
        forget_others(self._owners, folder, step=but)

    def export(self, name: str, path: str | Path) -> None:
        """Writes a table's rows for other programs, ascending by the user's ids of nodes or edges, or by their numbers.

        Args:
            path: ends with ``.npy`` (an array ``[n, *shape]``, where ids are 0 to n - 1; of float32 where NumPy lacks the dtype)
                or ``.parquet`` (columns "id" and "row", which is a list, unless a row is one number; needs pyarrow).

        Raises:
            SchemaError: no such table.
            InputError: another ending, other ids, or pyarrow is not installed.
            WriteError: it cannot be written; what was there remains.
        """
        spec = self._names.spec(name)
        export_rows(spec, path, ids_of=partial(ids_of, self._graph, spec), read=partial(self.read, name))

    def shut(self, *, wait: bool) -> None:
        """Ends what was begun for the tables; as of `Graph.shut`."""
        self.is_open = False
        self._owners.close(wait=wait)
