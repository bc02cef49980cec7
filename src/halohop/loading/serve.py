"""`halohop serve`: a host that answers about its partitions, and makes batches, for trainers that hold no graph."""

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from halohop import ops
from halohop.cluster.every import Every
from halohop.cluster.graph import Graph
from halohop.cluster.holding import Holding
from halohop.cluster.leased import Leased
from halohop.cluster.links import Links
from halohop.cluster.remote import DescribeReply, DescribeRequest, RemoteShard
from halohop.cluster.router import Holder, Router
from halohop.errors import InputError
from halohop.loading.servers import Servers, server_codec
from halohop.sampling.neighbor import NeighborSampler
from halohop.sampling.remote import BatchReply, BatchRequest, Options, make_batch
from halohop.telemetry import Counters
from halohop.transport import Limits, Token, load_token, tcp

_SWEEPS_PER_LEASE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What a server keeps for its clients, beside the graph.

    Args:
        lease_seconds: how long after it was last used. A client that is slower than that loses nothing: what it asks for next is
            made again. Pushes are remembered for a lease longer than they may be repeated.
        max_samplers: of how many loaders, by their options; each has tables of the nodes, for every thread.

    Raises:
        InputError: a number that is not positive.
    """

    lease_seconds: float = 60.0
    max_samplers: int = 8

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if not getattr(self, name) > 0:
                raise InputError(f"{name}={getattr(self, name)} must be positive")


class Server:
    """Serves partitions until it is closed. Clients come and go; what is kept for one goes a lease after it, at the latest.

    Attributes:
        address: what clients connect to.
        parts: the partitions that are served.
    """

    def __init__(
        self,
        holding: Holding,
        *,
        token: Token | None,
        listen: str | None,
        peers: Servers | None,
        limits: Limits,
        keeping: Keeping,
    ) -> None:
        self.parts = tuple(holding.parts)
        self._keeping = keeping
        self._counters, self._pool = Counters(), ops.Pool()
        self._about = DescribeReply(
            manifest=holding.document, parts=self.parts, num_parts=holding.book.num_parts, has_peers=peers is not None
        )
        self._shard = holding.shard(self._pool, self._counters)
        mine = Holder(shard=self._shard, parts=self.parts)
        self._router = Router(holding.book, [mine], self._pool, self._counters)
        self._bench = _Bench(holding, mine, peers, self._pool, self._counters, keeping.max_samplers)
        self._asked = time.monotonic()
        self._listener = tcp.serve(
            self._answer, codec=server_codec(), token=token, bind=listen, limits=limits, waiting=(BatchRequest,)
        )
        self.address = self._listener.address
        self._sweeper = Every(keeping.lease_seconds / _SWEEPS_PER_LEASE, self._sweep, name=f"sweeper-{self.address}")

    def _answer(self, request: Any) -> Any:
        self._asked = time.monotonic()
        match request:
            case BatchRequest():
                return self._bench.make(request)
            case DescribeRequest():
                return self._about
        return self._router.answer(request)

    def _sweep(self) -> None:
        """Forgets what is kept for clients that are gone."""
        lease = self._keeping.lease_seconds
        self._bench.samplers.sweep(lease)
        self._shard.sweep(lease)
        if time.monotonic() - self._asked > lease:
            self._pool.trim()

    def statistics(self) -> dict[str, float]:
        """Sums so far: seconds that answers took, batches, rows asked here and of peers, and what the transport counts. Of now:
        what is kept for clients ("kept_samplers", "kept_senders" of pushes), and memory that lies idle.
        """
        kept = {"kept_samplers": len(self._bench.samplers), **self._shard.statistics()}
        pool = {f"pool_{name}": amount for name, amount in self._pool.statistics().items()}
        transport = {f"transport_{name}": amount for name, amount in self._listener.statistics().items()}
        return {**self._counters.snapshot(), **kept, **pool, **transport}

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """Of each other server that this one asks to make batches: calls, their seconds, bytes, what waits."""
        return self._bench.statistics_by_peer()

    def close(self) -> None:
        """Stops answering. Safe to call twice."""
        self._sweeper.close()
        self._listener.close()
        self._bench.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Bench:
    """Where a server makes batches: the whole graph, its own partitions here and the others at its peers.

    Peers may start after it, so they are only looked for when the first batch is asked for.
    """

    def __init__(
        self, holding: Holding, mine: Holder, peers: Servers | None, pool: ops.Pool, counters: Counters, max_samplers: int
    ) -> None:
        self.samplers: Leased[bytes, NeighborSampler] = Leased(most=max_samplers)
        self._holding = holding
        self._mine = mine
        self._peers = peers
        self._pool = pool
        self._counters = counters
        self._lock = threading.Lock()
        self._graph: Graph | None = None
        self._undo = ExitStack()

    def make(self, request: BatchRequest) -> BatchReply:
        self._counters.add("batches", 1)
        return make_batch(self._sampler(request.options), request)

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        return {} if self._graph is None else self._graph.statistics_by_peer()

    def close(self) -> None:
        self._undo.close()

    def _sampler(self, options: Options) -> NeighborSampler:
        key = msgspec.msgpack.encode(options)
        with self._lock:
            sampler = self.samplers.get(key)
            if sampler is None:
                sampler = NeighborSampler(self._whole(), options.fanouts, seed=options.seed, rules=options.rules)
                self.samplers.put(key, sampler)
            return sampler

    def _whole(self) -> Graph:
        if self._graph is None:
            held, holders = self._holding, [self._mine]
            missing = [part for part in range(held.book.num_parts) if part not in held.parts]
            if missing and self._peers is None:
                raise InputError(
                    f"this server holds partitions {list(held.parts)} and knows nobody who holds {missing}, so it cannot sample; "
                    "start it with its peers' addresses (--peers), or let the trainer sample: connect(..., sampling='client')"
                )
            if missing and self._peers is not None:
                known = self._peers.introductions(manifest=held.document, without=tuple(held.parts))
                holders += self._peers.holders(known, held.book, self._undo, without=tuple(held.parts))
            router = Router(held.book, holders, self._pool, self._counters)
            asked = tuple(holder.shard.channel for holder in holders if isinstance(holder.shard, RemoteShard))
            self._graph = Graph(
                schema=held.manifest.schema,
                book=held.book,
                router=router,
                pool=self._pool,
                counters=self._counters,
                links=Links(channels=asked),
            )
        return self._graph


def serve(
    path: str | Path,
    *,
    partitions: Sequence[int] | None = None,
    listen: str | None = None,
    peers: Sequence[str] = (),
    token: Token | None = None,
    limits: Limits | None = None,
    keeping: Keeping | None = None,
    verify: bool = False,
) -> Server:
    """Serves the partitions of a data set to whoever shares the token; public as `halohop.serve`.

    Args:
        path: the folder that `halohop.partition` wrote, or the manifest and some of the partitions.
        partitions: serve only these of the partitions found here.
        listen: ``HOST:PORT``; None takes this host's loopback and a free port. Other hosts are let in only with a token.
        peers: the other servers' addresses, where these hold what is not here; without them this one cannot sample for trainers.
            They may start later.
        token: the secret that servers and trainers share, and whether they encrypt; None takes the environment's HALOHOP_TOKEN
            and HALOHOP_ENCRYPT.
        limits: of the transport: deadlines, sizes, how much may be in flight.
        keeping: what is kept for clients, and how long after they are gone: a minute unless told otherwise.
        verify: also compare every mapped file with its checksum.

    Raises:
        DatasetError: the folder is no complete, healthy data set of this version; names the file.
        InputError: partitions that are not here, none at all, or an address that others can reach without a token.
        TransportError: the address is taken, or not this host's.

    Example:
        >>> import tempfile, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = halohop.partition(synthetic("tiny"), f"{folder}/parts", num_parts=2, method="random")
        ...     with serve(f"{folder}/parts") as server, halohop.connect([server.address]) as graph:
        ...         graph.schema.nodes["node"].count
        1000
    """
    holding = Holding.of(Path(path), partitions=partitions, verify=verify)
    if not holding.parts:
        raise InputError(f"there is no partition in {path} to serve; copy a part-* folder to it")
    ops.warm_up()
    token, limits = token or load_token(), limits or Limits()
    others = Servers(addresses=tuple(peers), token=token, limits=limits) if peers else None
    return Server(holding, token=token, listen=listen, peers=others, limits=limits, keeping=keeping or Keeping())
