"""`DeviceGraph`: answers the requests of samplers and loaders with tensors of a GPU."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.device.lists import DeviceLists
from halohop.cluster.device.rows import DeviceRows
from halohop.cluster.lookups import Lookups
from halohop.cluster.shard import LocalShard
from halohop.errors import InputError
from halohop.memory import parse_size
from halohop.ops.device import DevicePool
from halohop.store.draw import Rules
from halohop.store.requests import FetchReply, FetchRequest, HopAnswer, HopQuery, RowQuery, SampleReply, SampleRequest
from halohop.typing import EDGE_ID, RAW_ID

if TYPE_CHECKING:
    from halohop.cluster.graph import Graph

Mode = Literal["cpu", "zero_copy", "cuda"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """What a user says about a GPU.

    Args:
        device: such as ``"cuda"`` or ``"cuda:1"``.
        mode: who draws neighbours. "cpu": the host; "zero_copy": the GPU, from page-locked memory of the host; "cuda": the GPU,
            from its own memory.
        feature_cache: of the GPU's memory, for the hottest rows: in bytes, as text ("4GB"), or as a share (0.0 to 1.0) of what is
            free.

    Raises:
        InputError: no such mode, or a cache that is no size.
    """

    device: str
    mode: Mode = "cpu"
    feature_cache: str | int | float = 0

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InputError(f"mode={self.mode!r} is none of {list(MODES)}")
        share = _share(self.feature_cache)
        if share is not None and not 0 <= share <= 1:
            raise InputError(f"feature_cache={self.feature_cache} is no share of the free memory; give 0.0 to 1.0, or a size")

    def cache_bytes(self, free: int) -> int:
        """The size of the cache, of so many bytes that are free.

        Raises:
            InputError: it is larger, or no size.
        """
        share = _share(self.feature_cache)
        if share is not None:
            return int(free * share)
        assert not isinstance(self.feature_cache, float)
        wanted = parse_size(self.feature_cache)
        if wanted > free:
            raise InputError(
                f"feature_cache={self.feature_cache!r} is {wanted} bytes, but {self.device} has {free} free; give less, or a "
                "share of them such as 0.8"
            )
        return wanted

    @staticmethod
    def of(device: str | None, mode: Mode | None, feature_cache: str | int | float | None) -> "DeviceOptions | None":
        """From a user's arguments; None where no device is named.

        Raises:
            InputError: what needs a device, without one.
        """
        if device is None:
            for name, value in (("mode", mode), ("feature_cache", feature_cache)):
                if value is not None:
                    raise InputError(f"{name}={value!r} is for GPUs; give device='cuda', or leave {name} out")
            return None
        return DeviceOptions(device=device, mode=mode or "cpu", feature_cache=0 if feature_cache is None else feature_cache)


class DeviceGraph(Lookups):
    """A graph whose batches are made on a GPU: requests and answers are tensors of the device. What the device cannot read, such
    as rows of other hosts, on disk or of an object of the user's, the host reads for it; what it cannot draw by, the host draws.

    Args:
        host: the graph.
        pool: of the device.
        options: how it is used.

    Attributes:
        host: the graph.
        draws: whether neighbours are drawn by the device.
        schema, book, counters, identities, narrow_tables, pool: as of `Graph`; the pool is the device's.

    Raises:
        InputError: lists or a cache that are larger than the device's free memory; memory that the system does not lock.
    """

    pool: DevicePool

    def __init__(self, host: "Graph", pool: DevicePool, options: DeviceOptions) -> None:
        self.host, self.pool, self.options = host, pool, options
        self.schema, self.book, self.counters = host.schema, host.book, pool.counters
        self.identities, self.narrow_tables = host.identities, host.narrow_tables
        self._router = host.router
        self._listed_ids = {}
        shard = host.router.only_shard  # of several hosts' graphs the host draws, with one request a hop
        self.draws = options.mode != "cpu" and isinstance(shard, LocalShard)
        options.cache_bytes(pool.free_bytes())  # refused before anything is copied
        self._lists: DeviceLists | None = None
        self._rows: DeviceRows | None = None
        if isinstance(shard, LocalShard):
            if self.draws:
                try:
                    self._lists = DeviceLists(shard.topologies, pool, on_device=options.mode == "cuda")
                except torch.OutOfMemoryError as error:
                    raise InputError(
                        f"the lists of neighbours do not fit into {pool.device}, which has {pool.free_bytes()} bytes free; take "
                        "mode='zero_copy' or mode='cpu'"
                    ) from error
            cache_bytes = options.cache_bytes(pool.free_bytes())  # of what the lists have left
            self._rows = DeviceRows(shard, host.schema, pool, cache_bytes=cache_bytes)

    @property
    def topologies(self) -> None:
        """None: lists of the device are drawn from hop by hop."""

    def statistics(self) -> dict[str, float]:
        """What was copied to the device, how often the host waited for it, and how many rows came from caches there."""
        return self.pool.counters.snapshot() | ({} if self._rows is None else self._rows.statistics())

    def sample(self, request: SampleRequest) -> SampleReply:
        """One hop of neighbours; see `halohop.store.requests`."""
        return SampleReply(answers=tuple(self._answer(query, request) for query in request.queries))

    def fetch_stored(self, request: FetchRequest) -> FetchReply:
        """Rows as they are stored; those that are stored sparse are written out."""
        far = [tuple(name for name in query.columns if not self._has(query, name)) for query in request.queries]
        fetched = self._fetched(request.queries, far)
        rows = []
        for number, query in enumerate(request.queries):
            known = dict(zip(far[number], fetched[number], strict=True))
            rows.append(tuple(known[name] if name in known else self._column(query, name) for name in query.columns))
        return FetchReply(rows=tuple(rows), sparse=tuple({} for _ in rows))

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
        found = iter(self.host.fetch_stored(FetchRequest(queries=asked)).dense(asked, self.host.pool))
        return [tuple(self.pool.put(column) for column in next(found)) if names else () for names in far]

    def _answer(self, query: HopQuery, request: SampleRequest) -> HopAnswer:
        if self._lists is not None and not _by_weight(request.draw.rules):
            lists = self._lists.of(query.relation, edge_ids=query.edge_ids)
            return lists.sample(query, request.draw, self.pool, self.counters)
        near = _each(query, self.pool.bring)
        (answer,) = self.host.sample(SampleRequest(draw=request.draw, queries=(near,))).answers
        moved: HopAnswer = _each(answer, self.pool.put)
        return moved


def _by_weight(rules: Rules) -> bool:
    """Whether neighbours are not drawn alike, for which the device has no kernels."""
    return rules.weight is not None or rules.labor


def _share(cache: str | float) -> float | None:
    """A cache as a share of what is free: 0.5, or as text; None where it is a number of bytes."""
    if isinstance(cache, str) and "." in cache and cache.replace(".", "", 1).isdigit():
        return float(cache)
    return cache if isinstance(cache, float) else None


def _each(record: Any, move: Any) -> Any:
    """A record with each of its tensors moved."""
    moved = {name: move(value) for name in record.__slots__ if isinstance(value := getattr(record, name), Tensor)}
    return replace(record, **moved)
