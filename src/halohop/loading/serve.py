"""`halohop serve`: a host that answers about its partitions, and makes batches, for trainers that hold no graph."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.cluster.holding import Holding
from halohop.cluster.links import Links
from halohop.cluster.remote import DescribeReply, DescribeRequest, RemoteShard
from halohop.cluster.router import Router
from halohop.errors import InputError
from halohop.loading.servers import Servers, server_codec
from halohop.sampling.neighbor import NeighborSampler
from halohop.sampling.remote import BatchReply, BatchRequest, Options, make_batch
from halohop.telemetry import Counters, added
from halohop.transport import Limits, Token, load_token, zeromq

_MAX_SAMPLERS = 8  # each has tables of the nodes, for every thread


class Server:
    """Serves partitions until it is closed. Clients come and go; none of them leaves anything behind.

    Attributes:
        address: what clients connect to.
        parts: the partitions that are served.
    """

    def __init__(
        self, holding: Holding, *, token: Token | None, listen: str | None, peers: Servers | None, limits: Limits
    ) -> None:
        self.parts = tuple(holding.parts)
        self._counters = Counters()
        self._about = DescribeReply(manifest=holding.document, parts=self.parts, num_parts=holding.book.num_parts)
        pool = ops.Pool()
        self._router = Router(holding.book, holding.holders(pool, self._counters), pool, self._counters)
        self._bench = _Bench(holding, peers)
        self._listener = zeromq.serve(
            self._answer, codec=server_codec(), token=token, bind=listen, limits=limits, waiting=(BatchRequest,)
        )
        self.address = self._listener.address

    def _answer(self, request: Any) -> Any:
        match request:
            case BatchRequest():
                return self._bench.make(request)
            case DescribeRequest():
                return self._about
        return self._router.answer(request)

    def statistics(self) -> dict[str, float]:
        """Sums so far: seconds that answers took, batches, rows asked here and of peers, and what the transport counts."""
        transport = {f"transport_{name}": amount for name, amount in self._listener.statistics().items()}
        return added([self._counters.snapshot(), self._bench.counters.snapshot(), transport])

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """Of each other server that this one asks to make batches: calls, their seconds, bytes, what waits."""
        return self._bench.statistics_by_peer()

    def close(self) -> None:
        """Stops answering. Safe to call twice."""
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

    def __init__(self, holding: Holding, peers: Servers | None) -> None:
        self.counters = Counters()
        self._holding = holding
        self._peers = peers
        self._lock = threading.Lock()
        self._graph: Graph | None = None
        self._samplers: OrderedDict[bytes, NeighborSampler] = OrderedDict()
        self._undo = ExitStack()

    def make(self, request: BatchRequest) -> BatchReply:
        self.counters.add("batches", 1)
        return make_batch(self._sampler(request.options), request)

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        return {} if self._graph is None else self._graph.statistics_by_peer()

    def close(self) -> None:
        self._undo.close()

    def _sampler(self, options: Options) -> NeighborSampler:
        key = msgspec.msgpack.encode(options)
        with self._lock:
            sampler = self._samplers.pop(key, None)
            if sampler is None:
                sampler = NeighborSampler(self._whole(), options.fanouts, seed=options.seed, rules=options.rules)
            self._samplers[key] = sampler
            while len(self._samplers) > _MAX_SAMPLERS:
                self._samplers.popitem(last=False)
            return sampler

    def _whole(self) -> Graph:
        if self._graph is None:
            held, pool = self._holding, ops.Pool()
            holders = held.holders(pool, self.counters)
            missing = [part for part in range(held.book.num_parts) if part not in held.parts]
            if missing and self._peers is None:
                raise InputError(
                    f"this server holds partitions {list(held.parts)} and knows nobody who holds {missing}, so it cannot sample; "
                    "start it with its peers' addresses (--peers), or let the trainer sample: connect(..., sampling='client')"
                )
            if missing and self._peers is not None:
                known = self._peers.introductions(manifest=held.document, without=tuple(held.parts))
                holders += self._peers.holders(known, held.book, self._undo, without=tuple(held.parts))
            router = Router(held.book, holders, pool, self.counters)
            asked = tuple(holder.shard.channel for holder in holders if isinstance(holder.shard, RemoteShard))
            self._graph = Graph(
                schema=held.manifest.schema,
                book=held.book,
                router=router,
                pool=pool,
                counters=self.counters,
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
    return Server(holding, token=token, listen=listen, peers=others, limits=limits)
