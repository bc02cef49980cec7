"""What a server answers: about its partitions, about itself and others, and with whole batches."""

import secrets
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch

from halohop import ops
from halohop.cluster.cache import cache_of
from halohop.cluster.graph import Graph
from halohop.cluster.holding import Holding
from halohop.cluster.router import PartitionOwner, Router
from halohop.cluster.shard import LocalShard
from halohop.errors import InputError
from halohop.leased import Leased
from halohop.net.attendance import Attendance, AttendRequest, Expected
from halohop.net.checks import check_request
from halohop.net.directory import PeerDirectory
from halohop.net.introductions import Introductions
from halohop.net.known import peers_of
from halohop.net.messages import DescribeReply, DescribeRequest, MeetReply, MeetRequest
from halohop.net.places import Place
from halohop.net.seed_files import SeedFiles, SeedsRequest
from halohop.net.servers import Servers
from halohop.sampling.neighbor import NeighborSampler
from halohop.sampling.remote import BatchReply, BatchRequest, Options, make_batch
from halohop.tables.messages import TableRequest
from halohop.telemetry import Counters, Gauge
from halohop.transport.remaining import seconds_for_peers
from halohop.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What a server keeps for its clients, beside the graph.

    Args:
        lease_seconds: how long after it was last used. A client that is slower than that loses nothing: what it asks for next is
            made again. Writes to tables are remembered for a lease longer than they may be repeated.
        max_samplers: of how many loaders, by their options; each has tables of the nodes, for every thread.
        cache: how much memory rows of other servers may take, as of `halohop.open`.

    Raises:
        InputError: a number that is not positive.
    """

    lease_seconds: float = 60.0
    max_samplers: int = 8
    cache: str | int | None = "auto"

    def __post_init__(self) -> None:
        for name in ("lease_seconds", "max_samplers"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}={getattr(self, name)} must be positive")


class Service:
    """Answers the requests of a server's clients.

    Args:
        holding: what it serves: at least one partition.
        shard: these partitions.
        servers: where others are looked for.
        keeping: what is kept for clients.
        pool: where answers take their memory from.
        counters: of what this server does for requests.
        clients: how many are expected, as of `halohop.serve`.
        seeds: files of ids that clients may read, and splits.
        world: this server's place among all; None where it has none.

    Attributes:
        directory: the other servers; closed with this.
        attendance: the clients that are there.
    """

    def __init__(
        self,
        holding: Holding,
        shard: LocalShard,
        servers: Servers,
        keeping: Keeping,
        pool: ops.Pool,
        counters: Counters,
        *,
        clients: Expected,
        seeds: SeedFiles,
        world: World | None = None,
    ) -> None:
        self.attendance = Attendance(lease_seconds=keeping.lease_seconds, expected=clients)
        self._seeds = seeds
        self._schema = holding.manifest.schema
        self._servers = servers
        self._keeping = keeping
        self._counters, self._pool, self._shard = counters, pool, shard
        name, parts = secrets.token_hex(8), tuple(holding.parts)
        self._about = DescribeReply(
            server=name,
            manifest=holding.document,
            parts=parts,
            num_parts=holding.book.num_parts,
            has_peers=False,
            lease_seconds=0.0 if clients is None else keeping.lease_seconds,
            number=-1 if world is None else world.rank,
            size=0 if world is None else world.size,
            clients=clients if isinstance(clients, int) else 0,
            gpus=torch.cuda.device_count(),
        )
        mine = holding.owner(shard, pool, self._counters)
        self._router = Router(holding.book, [mine], pool, self._counters)
        me = MeetReply(server=name, parts=parts)
        self.directory = PeerDirectory(servers, dataset=holding.fingerprint, me=me, lease_seconds=keeping.lease_seconds)
        self._batches = BatchService(holding, mine, servers, self.directory, pool, self._counters, keeping)
        self._asked = time.monotonic()

    def meet(self, world: World, address: str, *, deadline: float) -> None:
        """As of `Server.meet`."""
        introductions = Introductions(
            self.directory,
            attempt_seconds=self._servers.limits.attempt_seconds,
            deadline=deadline,
            manifest=self._about.manifest,
            without=tuple(range(self._about.num_parts)),
            least=min(world.rank, 1),
            size=world.size,
            me=Place(where=address, number=world.rank, size=world.size),
        )
        self.directory.give_back([known.channel for known in introductions.wait()])

    @property
    def graph(self) -> Graph:
        """The whole graph, as batches are made of it."""
        return self._batches.graph

    def answer(self, request: Any) -> Any:
        """The reply to a request, or its future; called from several threads.

        Raises:
            HalohopError: it cannot be answered; InputError: nor by any server, see `check_request`.
        """
        check_request(request, self._schema, self._servers.limits.max_message_bytes)
        match request:
            case MeetRequest():
                return self.directory.meet(request)
            case AttendRequest():
                return self.attendance.answer(request)
        self._asked = time.monotonic()
        match request:
            case BatchRequest():
                return self._batches.make(request)
            case DescribeRequest():
                return replace(self._about, has_peers=self.directory.knows_others)
            case SeedsRequest():
                return self._seeds.answer(request)
            case TableRequest():
                return self._shard.owner.answer(request, peer=True)
        return self._router.answer(request)

    def sweep(self) -> None:
        """Forgets what is kept for clients that are gone."""
        lease = self._keeping.lease_seconds
        self.attendance.sweep()
        self._batches.samplers.sweep(lease)
        self._shard.sweep(lease)
        if time.monotonic() - self._asked > lease:
            self._pool.trim()

    def statistics(self) -> dict[str, float]:
        """Sums so far, and what is kept now; see `Server.statistics`."""
        mine = {"kept_samplers": Gauge(len(self._batches.samplers)), "clients": Gauge(len(self.attendance))}
        kept = {**mine, **self._shard.statistics()}
        pool = {f"pool_{name}": amount for name, amount in self._pool.statistics().items()}
        return {**self._counters.snapshot(), **kept, **pool}

    def close(self) -> None:
        """Ends the connections to other servers, and the tables. Safe to call twice."""
        self.directory.close()
        self._shard.owner.close()


class BatchService:
    """Makes batches on a server: of the whole graph, its own partitions here and the others at its peers.

    Peers may start after it, so they are only looked for when the first batch is asked for.
    """

    def __init__(
        self,
        holding: Holding,
        mine: PartitionOwner,
        servers: Servers,
        directory: PeerDirectory,
        pool: ops.Pool,
        counters: Counters,
        keeping: Keeping,
    ) -> None:
        self.samplers: Leased[bytes, NeighborSampler] = Leased(most=keeping.max_samplers)
        self._cache = cache_of(keeping.cache, holding.manifest.schema, holding.book, tuple(holding.parts), pool)
        self._holding = holding
        self._mine = mine
        self._limits = servers.limits
        self._directory = directory
        self._pool = pool
        self._counters = counters
        self._lock = threading.Lock()
        self._graph: Graph | None = None

    def make(self, request: BatchRequest) -> BatchReply:
        self._counters.add("batches", 1)
        edge_ids = request.columns is not None and request.columns.edge_ids
        return make_batch(self._sampler(request.options, edge_ids=edge_ids), request)

    def _sampler(self, options: Options, *, edge_ids: bool) -> NeighborSampler:
        key = msgspec.msgpack.encode((options, edge_ids))
        with self._lock:
            sampler = self.samplers.get(key)
            if sampler is None:
                sampler = NeighborSampler(
                    self._whole(), options.fanouts, seed=options.seed, rules=options.rules, edge_ids=edge_ids
                )
                self.samplers.put(key, sampler)
            return sampler

    @property
    def graph(self) -> Graph:
        """The whole graph; the servers that have the other partitions are looked for the first time."""
        with self._lock:
            return self._whole()

    def _whole(self) -> Graph:
        if self._graph is None:
            held = self._holding
            owners = [self._mine] if len(held.parts) == held.book.num_parts else [self._mine, *self._others()]
            router = Router(held.book, owners, self._pool, self._counters, cache=self._cache)
            self._graph = Graph(
                schema=held.manifest.schema, book=held.book, router=router, pool=self._pool, counters=self._counters
            )
        return self._graph

    def _others(self) -> list[PartitionOwner]:
        """Whom to ask about what is not here; if they are lost, they are looked for.

        A trainer's call waits meanwhile, and is to read in time which server is missing or lost: so all of this takes less long.
        """
        mine, book, left = tuple(self._holding.parts), self._holding.book, seconds_for_peers()
        seconds = self._limits.call_seconds
        if not self._directory.knows_others:
            missing = [part for part in range(book.num_parts) if part not in mine]
            raise InputError(
                f"this server holds partitions {list(mine)} and knows no server that holds {missing}, so it cannot sample; "
                "start it with its peers' addresses (--peers), or let the trainer sample: connect(..., sampling='client')"
            )
        introductions = Introductions(
            self._directory,
            attempt_seconds=self._limits.attempt_seconds,
            deadline=0.5 * (seconds if left is None else left),
            manifest=self._holding.document,
            without=mine,
        )
        peers = peers_of(
            introductions.wait(),
            book,
            self._directory,
            dataset=self._holding.fingerprint,
            without=mine,
            call_seconds=0.75 * seconds,
            even_if_new=True,
        )
        return [peer.owner for peer in peers]
