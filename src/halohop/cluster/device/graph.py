"""`DeviceGraph`: answers the requests of samplers and loaders with tensors of a GPU."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.device.far import FarRows, far_hotness, row_bytes
from halohop.cluster.device.gate import Gate
from halohop.cluster.device.hottest import hottest
from halohop.cluster.device.lists import DeviceLists
from halohop.cluster.device.options import DeviceOptions
from halohop.cluster.device.rows import DeviceRows
from halohop.cluster.lookups import Lookups
from halohop.cluster.shard import LocalShard
from halohop.errors import InputError
from halohop.ops.device import DevicePool
from halohop.ops.pieces import Pieces
from halohop.store.requests import FetchReply, FetchRequest, HopAnswer, HopQuery, RowQuery, SampleReply, SampleRequest
from halohop.typing import EDGE_ID, RAW_ID, TableKey

if TYPE_CHECKING:
    from halohop.cluster.graph import Graph


class DeviceGraph(Lookups):
    """A graph whose batches are made on a GPU: requests and answers are tensors of the device. What the device cannot read, such
    as rows of other hosts, on disk or of an object of the user's, the host reads for it, and it draws where lists lie elsewhere.

    A request of tensors of the CPU is the host's, and so are ids of the user's. All memory of the device is taken when this is
    made, but for what hops and batches need, and for columns that are drawn by.

    Args:
        host: the graph.
        pool: of the device.
        options: how it is used.
        peers: the pools of the devices that divide the cache; None: the device alone has it.

    Attributes:
        host: the graph.
        draws: whether neighbours are drawn by the device.
        schema, book, counters, identities, narrow_tables, pool: as of `Graph`; the pool is the device's.

    Raises:
        InputError: lists or a cache that are larger than the device's free memory; memory that the system does not lock; devices
            that cannot read each other's memory.
    """

    pool: DevicePool

    def __init__(
        self, host: "Graph", pool: DevicePool, options: DeviceOptions, peers: Sequence[DevicePool] | None = None
    ) -> None:
        self.host, self.pool, self.options = host, pool, options
        self.schema, self.book, self.counters = host.schema, host.book, pool.counters
        self.identities, self.narrow_tables = host.identities, host.narrow_tables
        self._router = host.router
        self._listed_ids = {}
        self._gate = Gate()
        self._peers = peers
        self._lists: DeviceLists | None = None
        self._rows: DeviceRows | None = None
        self._far: FarRows | None = None
        shard = host.router.only_shard  # of several hosts' graphs the host draws, with one request a hop
        self.draws = options.mode != "cpu" and isinstance(shard, LocalShard)
        try:
            self._cache_bytes()  # refused before anything is copied
            if isinstance(shard, LocalShard):
                if self.draws:
                    self._lists = self._lists_of(shard)
                self._rows = self._rows_of(shard)
            elif options.caches:
                self._far = self._far_of()
        except BaseException:
            self.close()
            raise
        host.pool.delegate(pool.page_locked_bytes)  # what the host makes for the device is copied from there

    def _cache_bytes(self) -> int:
        """Of what is free now."""
        return self.options.cache_bytes(*(holder.free_bytes() for holder in self._peers or [self.pool]))

    def _lists_of(self, shard: LocalShard) -> DeviceLists:
        device, free, taken = self.pool.device, self.pool.free_bytes(), DeviceLists.num_bytes(shard.topologies)
        refused = f"the lists of neighbours are {taken} bytes, and do not fit into {device}, which has {free} free; take "
        refused += "mode='zero_copy' or mode='cpu'"
        if self.options.mode == "cuda" and taken > free:
            raise InputError(refused)
        try:
            return DeviceLists(shard.topologies, self.pool, on_device=self.options.mode == "cuda")
        except torch.OutOfMemoryError as error:
            raise InputError(refused) from error

    def _rows_of(self, shard: LocalShard) -> DeviceRows:
        stored = {table: _in_memory(shard.stored(table), self.host, table) for table in self.schema.tables}
        beside = self.host.columns_beside() if self.options.caches else {}
        columns = {table: held | dict(beside.get(table, {})) for table, held in stored.items()}
        widths = {name: sum(rows.row_bytes for rows in columns[name].values()) for name in self.schema.nodes}
        with self._room_for_cache() as room:
            hot = hottest(shard.hotness, widths, room, divided=self._peers is not None)
            return DeviceRows(columns, hot, self.pool, peers=self._peers)

    def _far_of(self) -> FarRows:
        if self._peers is not None:
            raise InputError("cache_devices divide a cache of rows of this host, and some partitions are on others; leave it out")
        widths = {name: row_bytes(self.host, name) for name in self.schema.nodes}
        with self._room_for_cache() as room:
            return FarRows(self.host, hottest(partial(far_hotness, self.host), widths, room), self.pool)

    @contextmanager
    def _room_for_cache(self) -> Iterator[int]:
        """Bytes, of what the lists have left."""
        room, free = self._cache_bytes(), self.pool.free_bytes()
        try:
            yield room
        except torch.OutOfMemoryError as error:
            raise InputError(
                f"feature_cache={self.options.feature_cache!r} is {room} bytes, for which {self.pool.device} has no room with "
                f"{free} free, as some of it is taken meanwhile, or in pieces; give less"
            ) from error

    def close(self) -> None:
        """Frees the memory of the device, once the requests that are being answered are. Later ones are refused."""
        self._gate.close()
        held, pools = (self._lists, self._rows, self._far), {id(pool): pool for pool in (self.pool, *(self._peers or ()))}
        self._lists = self._rows = self._far = None
        for pool in pools.values():
            pool.close()
        del held  # only now: torch gives memory to others at once, though streams may still read it
        for pool in pools.values():
            pool.trim()

    @property
    def topologies(self) -> None:
        """None: lists of the device are drawn from hop by hop."""

    def statistics(self) -> dict[str, float]:
        """What was copied to the device, how often the host waited for it, and how many rows came from caches there."""
        rows = self._rows
        return self.pool.counters.snapshot() | ({} if rows is None else rows.statistics())

    def sample(self, request: SampleRequest) -> SampleReply:
        """One hop of neighbours; see `halohop.store.requests`."""
        if not any(query.dst_gid.is_cuda for query in request.queries):
            return self.host.sample(request)
        with self._gate:
            return SampleReply(answers=tuple(self._answer(query, request) for query in request.queries))

    def fetch_stored(self, request: FetchRequest) -> FetchReply:
        """Rows as they are stored; those that are stored sparse are written out."""
        if not any(query.gid.is_cuda for query in request.queries):
            return self.host.fetch_stored(request)
        with self._gate:
            far = [tuple(name for name in query.columns if not self._has(query, name)) for query in request.queries]
            fetched = self._fetched(request.queries, far)
            rows = []
            for number, query in enumerate(request.queries):
                known = dict(zip(far[number], fetched[number], strict=True))
                rows.append(tuple(known[name] if name in known else self._column(query, name) for name in query.columns))
            return FetchReply(rows=tuple(rows), sparse=tuple({} for _ in rows))

    def take(self, table: TableKey, column: str, rows: Tensor, *, padded: bool) -> Tensor:
        """Rows of a column that lies in memory here, int64 ``[n]`` on the device; if `padded`, -1 is none: zeros."""
        with self._gate:
            assert self._rows is not None
            return self._rows.take(table, column, rows, padded=padded)

    def _has(self, query: RowQuery, name: str) -> bool:
        if name in (RAW_ID, EDGE_ID) and query.table in self.identities:
            return True
        live = not self.host.stores(query.table, name)
        return self._rows is not None and not live and self._rows.has(query.table, name)

    def _column(self, query: RowQuery, name: str) -> Tensor:
        if name in (RAW_ID, EDGE_ID) and query.table in self.identities:
            return query.gid
        assert self._rows is not None
        rows = self._rows.take(query.table, name, query.gid, padded=query.padded)
        return rows.long() if name in (RAW_ID, EDGE_ID) else rows

    def _fetched(self, queries: tuple[RowQuery, ...], far: list[tuple[str, ...]]) -> list[tuple[Tensor, ...]]:
        """What the host has to read, with one request."""
        some = [(query, names) for query, names in zip(queries, far, strict=True) if names]
        if not some:
            return [()] * len(far)
        gids = self.pool.bring(ops.join_rows([query.gid for query, _ in some]))  # all at once: the host waits for them
        near = gids.split([len(query.gid) for query, _ in some])
        asked = tuple(replace(query, columns=names, gid=gid) for (query, names), gid in zip(some, near, strict=True))
        found = iter(self._read(asked))
        return [next(found) if names else () for names in far]

    def _read(self, queries: tuple[RowQuery, ...]) -> Sequence[tuple[Tensor, ...]]:
        if self._far is not None:
            return self._far.fetch(queries)
        found = self.host.fetch_stored(FetchRequest(queries=queries)).dense(queries, self.host.pool)
        return [tuple(self.pool.put(column) for column in columns) for columns in found]

    def _answer(self, query: HopQuery, request: SampleRequest) -> HopAnswer:
        if self._lists is not None and query.src_gid is None:
            lists = self._lists.of(query.relation, edge_ids=query.edge_ids)
            return lists.sample(query, request.draw, self.pool, self.counters)
        near = _each(query, self.pool.bring)
        (answer,) = self.host.sample(SampleRequest(draw=request.draw, queries=(near,))).answers
        moved: HopAnswer = _each(answer, self.pool.put)
        return moved


def _in_memory(columns: Mapping[str, Pieces], host: "Graph", table: TableKey) -> dict[str, Pieces]:
    """Those whose rows kernels can read, and the graph has no newer ones of."""
    whole = {name: pieces for name, pieces in columns.items() if all(piece is not None for piece in pieces.tensors)}
    return {name: pieces for name, pieces in whole.items() if not pieces.on_disk and host.stores(table, name)}


def _each(record: Any, move: Any) -> Any:
    """A record with each of its tensors moved."""
    moved = {name: move(value) for name in record.__slots__ if isinstance(value := getattr(record, name), Tensor)}
    return replace(record, **moved)
