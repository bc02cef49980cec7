"""`halohop serve`: a host that answers about its partitions, and makes batches, for trainers that hold no graph."""

import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.cluster.holding import Holding
from halohop.cluster.in_memory import InMemory, OwnParts
from halohop.cluster.leased import Leased
from halohop.cluster.router import PartitionOwner, Router
from halohop.errors import InputError
from halohop.net.connections import Connections
from halohop.net.directory import SEARCHES, PeerDirectory, search
from halohop.net.partitions import all_records
from halohop.net.periodic import PeriodicThread
from halohop.net.remote import DescribeReply, DescribeRequest, MeetReply, MeetRequest, Peer
from halohop.net.rendezvous import Board
from halohop.net.servers import Servers, server_codec
from halohop.sampling.neighbor import NeighborSampler
from halohop.sampling.remote import BatchReply, BatchRequest, Options, make_batch
from halohop.store.given import Given
from halohop.telemetry import Counters, Gauge
from halohop.transport import Limits, Token, load_token, tcp
from halohop.transport.addresses import plain

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
        listen: str | None,
        peers: Servers,
        keeping: Keeping,
    ) -> None:
        self.parts = tuple(holding.parts)
        self._keeping = keeping
        self._counters, self._pool = Counters(), ops.Pool()
        name, num_parts = secrets.token_hex(8), holding.book.num_parts
        self._about = DescribeReply(
            server=name, manifest=holding.document, parts=self.parts, num_parts=num_parts, has_peers=bool(peers.addresses)
        )
        self._shard = holding.shard(self._pool, self._counters)
        mine = PartitionOwner(shard=self._shard, parts=self.parts)
        self._router = Router(holding.book, [mine], self._pool, self._counters)
        me = MeetReply(server=name, parts=self.parts)
        self._acquaintances = PeerDirectory(peers, dataset=holding.fingerprint, lease_seconds=keeping.lease_seconds, me=me)
        self._bench = BatchService(holding, mine, peers, self._acquaintances, self._pool, self._counters, keeping)
        self._asked = time.monotonic()
        with ExitStack() as undo:
            undo.callback(self._bench.close)
            undo.enter_context(self._acquaintances)
            self._listener = undo.enter_context(
                tcp.serve(
                    self._answer,
                    codec=server_codec(),
                    token=peers.token,
                    bind=listen,
                    limits=peers.limits,
                    waiting=(BatchRequest,),
                    identity=holding.identity,
                )
            )
            self.address = self._listener.address
            self._acquaintances.settle(self.address)
            self._acquaintances.greet()
            sweeps, greetings = keeping.lease_seconds / _SWEEPS_PER_LEASE, peers.limits.attempt_seconds
            undo.enter_context(PeriodicThread(sweeps, self._sweep, name=f"sweeper-{self.address}"))
            undo.enter_context(PeriodicThread(greetings, self._acquaintances.greet, name=f"greeter-{self.address}"))
            self._undo = undo.pop_all()

    def _answer(self, request: Any) -> Any:
        if isinstance(request, MeetRequest):
            return self._acquaintances.meet(request)
        self._asked = time.monotonic()
        match request:
            case BatchRequest():
                return self._bench.make(request)
            case DescribeRequest():
                knows_others = bool(self._acquaintances.lately(self._keeping.lease_seconds))
                return replace(self._about, has_peers=self._about.has_peers or knows_others)
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
        kept = {"kept_samplers": Gauge(len(self._bench.samplers)), **self._shard.statistics()}
        pool = {f"pool_{name}": amount for name, amount in self._pool.statistics().items()}
        transport = {f"transport_{name}": amount for name, amount in self._listener.statistics().items()}
        return {**self._counters.snapshot(), **kept, **pool, **transport}

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """Of each other server that this one asks to make batches: calls, their seconds, bytes, what waits."""
        return self._bench.statistics_by_peer()

    def close(self) -> None:
        """Stops answering. Safe to call twice."""
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class BatchService:
    """Where a server makes batches: the whole graph, its own partitions here and the others at its peers.

    Peers may start after it, so they are only looked for when the first batch is asked for.
    """

    def __init__(
        self,
        holding: Holding,
        mine: PartitionOwner,
        peers: Servers,
        acquaintances: PeerDirectory,
        pool: ops.Pool,
        counters: Counters,
        keeping: Keeping,
    ) -> None:
        self.samplers: Leased[bytes, NeighborSampler] = Leased(most=keeping.max_samplers)
        self._keeping = keeping
        self._acquaintances = acquaintances
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
            held = self._holding
            peers = [] if len(held.parts) == held.book.num_parts else self._find_peers(tuple(held.parts))
            router = Router(held.book, [self._mine, *(peer.holder for peer in peers)], self._pool, self._counters)
            self._graph = Graph(
                schema=held.manifest.schema,
                book=held.book,
                router=router,
                pool=self._pool,
                counters=self._counters,
                connections=Connections(channels=tuple(peer.channel for peer in peers)),
            )
        return self._graph

    def _find_peers(self, mine: tuple[int, ...]) -> list[Peer]:
        """Whom to ask about what is not here; if they are lost, they are looked for."""
        book, patience = self._holding.book, self._peers.limits.attempt_seconds
        known = self._acquaintances.lately(self._keeping.lease_seconds)
        addresses = tuple(dict.fromkeys(map(plain, (*self._peers.addresses, *known))))
        if not addresses:
            missing = [part for part in range(book.num_parts) if part not in mine]
            raise InputError(
                f"this server holds partitions {list(mine)} and knows nobody who holds {missing}, so it cannot sample; "
                "start it with its peers' addresses (--peers), or let the trainer sample: connect(..., sampling='client')"
            )
        limits = self._peers.limits  # those of the trainer's call, too: it is to read in time which server is missing or lost
        sooner = replace(limits, call_seconds=0.75 * limits.call_seconds)
        group = replace(self._peers, addresses=addresses, deadline=0.5 * limits.call_seconds, limits=sooner)
        group, about = group.introductions(manifest=self._holding.document, without=mine)
        peers = group.peers(about, book, self._undo, without=mine)
        self._undo.enter_context(
            PeriodicThread(patience / SEARCHES, lambda: search(peers, self._acquaintances, patience), name="search")
        )
        return peers


def serve(
    path: str | Path | InMemory,
    *,
    partitions: Sequence[int] | None = None,
    columns: Given | None = None,
    listen: str | None = None,
    peers: Sequence[str] = (),
    token: Token | None = None,
    limits: Limits | None = None,
    keeping: Keeping | None = None,
    verify: bool = False,
    board: Board | None = None,
) -> Server:
    """Serves the partitions of a data set to whoever shares the token; public as `halohop.serve`.

    Args:
        path: the folder that `halohop.partition` wrote, or the manifest and some of the partitions. Or partitions in memory
            (`halohop.MemoryPartition`), one or a list.
        partitions: serve only these of the partitions found here.
        columns: further columns, as of `halohop.open`; all servers of a data set give the same.
        listen: ``HOST:PORT``; None takes this host's loopback and a free port. Other hosts are let in only with a token.
        peers: the other servers' addresses, where these hold what is not here; without them this one cannot sample for trainers.
            They may start later.
        token: the secret that servers and trainers share, and whether they encrypt; None takes the environment's HALOHOP_TOKEN
            and HALOHOP_ENCRYPT.
        limits: of the transport: deadlines, sizes, how much may be in flight.
        keeping: what is kept for clients, and how long after they are gone: a minute unless told otherwise.
        verify: also compare every mapped file with its checksum.
        board: a store of torch's (`torch.distributed.TCPStore`, ...) where servers with partitions in memory agree how many edges
            each has. They wait for each other there. Without it every partition must know the owners of all edges.

    Raises:
        ClusterError: a partition in memory that did not come to the board.
        DatasetError: the folder is no complete, healthy data set of this version; names the file.
        SchemaError: a column for a node type or relation that is not there, or of a name that is stored already.
        InputError: partitions that are not here, none at all, rows that do not fit the nodes or edges, or an address that others
            can reach without a token.
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
    others = Servers(addresses=tuple(peers), token=token or load_token(), limits=limits or Limits())
    if isinstance(path, str | Path):
        holding = Holding.of(Path(path), partitions=partitions, verify=verify)
    else:
        own = OwnParts.of(path, partitions=partitions, verify=verify)
        holding = own.holding(None if board is None else all_records(board, "halohop", own.records, deadline=others.deadline))
    holding = holding.with_columns(columns)
    if not holding.parts:
        raise InputError(f"there is no partition in {path} to serve; copy a part-* folder to it")
    ops.warm_up()
    return Server(holding, listen=listen, peers=others, keeping=keeping or Keeping())
