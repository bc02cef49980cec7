"""`halohop.connect`: a graph that lies on servers, for a trainer that holds none of it."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Literal, get_args

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.cluster.holding import fingerprint
from halohop.cluster.router import Router
from halohop.errors import InputError
from halohop.net.connections import Connections
from halohop.net.directory import SEARCHES, PeerDirectory, search
from halohop.net.periodic import PeriodicThread
from halohop.net.remote import BatchServers, Peer, RemoteShard
from halohop.net.servers import Servers
from halohop.partitioning.book import Book
from halohop.store.manifest import decode
from halohop.telemetry import Counters
from halohop.transport import Identity, Limits, Token, load_token

Place = Literal["servers", "client"]


def connect(
    servers: Sequence[str],
    *,
    sampling: Place = "servers",
    token: Token | None = None,
    limits: Limits | None = None,
    deadline: float = 60.0,
) -> Graph:
    """The graph that some servers hold together (`halohop serve`); public as `halohop.connect`.

    Loaders work on it as on any other, and batches are the same. A partition may be served by several servers: where one is
    lost, the next is asked. Servers may start later than this; they are waited for.

    Args:
        servers: ``"HOST:PORT"`` of each; they, or those that they know (``--peers``), must hold every partition.
        sampling: who makes the batches of `NeighborLoader`, `LinkNeighborLoader`, `SubGraphLoader` and `ClusterLoader`. With
            "servers" they do, in turn, and finished batches come back, one request each; no kernel is compiled here. Servers that
            do not hold all partitions need to know each other (``--peers``). With "client" this process asks hop by hop, as it
            does for other loaders and for walks in any case.
        token: the secret that they share, and whether to encrypt; None takes the environment's HALOHOP_TOKEN and HALOHOP_ENCRYPT.
        limits: of the transport: deadlines per call, sizes.
        deadline: seconds to wait at the start for all servers, and for those that they learn of, until every partition is there.

    Raises:
        PeerLostError: a server that is needed did not come in time; names it.
        AuthenticationError: a server has another token.
        ClusterError: they serve different data sets, or none has a partition; names it, and the servers that were asked.
        InputError: no servers, or something that is no address.
    """
    if isinstance(servers, str) or not servers:
        raise InputError(f"servers={servers!r} is no list of addresses; give one 'HOST:PORT' for each server")
    if sampling not in get_args(Place):
        raise InputError(f"sampling={sampling!r} is none of {list(get_args(Place))}")
    group = Servers(addresses=tuple(servers), token=token or load_token(), limits=limits or Limits(), deadline=deadline)
    group, known = group.introductions()
    document = next(iter(known.values())).manifest
    manifest, dataset = decode(document, "the manifest that the servers sent"), fingerprint(document)
    book = Book(nodes=manifest.node_bounds, edges=manifest.edge_bounds)
    pool, counters = ops.Pool(), Counters()
    with ExitStack() as undo:
        peers = group.peers(known, book, undo)
        holders = [peer.holder for peer in peers]
        batch_servers: BatchServers | None = None
        if sampling == "servers":
            there = list(known)
            turned = [[*there[first:], *there[:first]] for first in range(len(there))]
            expected = Identity(dataset=dataset)
            others = [Peer(channel=undo.enter_context(group.channel(ranked, expected=expected)), parts=()) for ranked in turned]
            batch_servers = BatchServers([RemoteShard(peer.channel) for peer in others], group.unable(known))
            peers += others
        patience = group.limits.attempt_seconds
        acquaintances = undo.enter_context(PeerDirectory(group, dataset=dataset, lease_seconds=patience))
        looking = PeriodicThread(patience / SEARCHES, lambda: search(peers, acquaintances, patience), name="search")
        undo.enter_context(looking)
        graph = Graph(
            schema=manifest.schema,
            book=book,
            router=Router(book, holders, pool, counters),
            pool=pool,
            counters=counters,
            connections=Connections(
                channels=tuple(peer.channel for peer in peers),
                helpers=(looking, acquaintances),
                call_seconds=group.limits.call_seconds,
            ),
            batch_servers=batch_servers,
        )
        graph.keep_until_exit()
        undo.pop_all()
        return graph
