"""`halohop.connect`: a graph that lies on servers, for a trainer that holds none of it."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Literal, get_args

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.cluster.holding import book_of
from halohop.cluster.router import Router
from halohop.errors import InputError
from halohop.net.connections import Connections
from halohop.net.directory import PeerDirectory
from halohop.net.finders import Finder, finder_of
from halohop.net.introductions import Introductions, peers_of
from halohop.net.remote import BatchServers
from halohop.net.servers import Servers
from halohop.store.manifest import decode
from halohop.telemetry import Counters
from halohop.transport import Identity, Limits, Token, load_token

Place = Literal["servers", "client"]


def connect(
    servers: Sequence[str] | Finder,
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
        servers: ``"HOST:PORT"`` of each, or a callable that returns these (see `halohop.net.finders`); they, or those that they
            know (``--peers``), must hold every partition. A callable is asked at the start, and again when a server is lost.
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
    if not servers:
        raise InputError(f"servers={servers!r} is no list of addresses; give one 'HOST:PORT' for each server")
    if sampling not in get_args(Place):
        raise InputError(f"sampling={sampling!r} is none of {list(get_args(Place))}")
    limits = limits or Limits()
    where = Servers(finder=finder_of(servers), token=token or load_token(), limits=limits)
    with ExitStack() as undo:
        directory = undo.enter_context(PeerDirectory(where, lease_seconds=limits.attempt_seconds))
        introductions = Introductions(directory, attempt_seconds=limits.attempt_seconds, deadline=deadline)
        known = introductions.wait()
        manifest, dataset = decode(introductions.manifest, "the manifest that the servers sent"), introductions.dataset
        book = book_of(manifest)
        pool, counters = ops.Pool(), Counters()
        makers: BatchServers | None = None
        if sampling == "servers":
            channels = [server.channel for server in known]
            makers = BatchServers(channels, call_seconds=limits.call_seconds, unable=introductions.unable())
            for channel in channels:
                directory.ask_about(channel, Identity(dataset=dataset))
        peers = peers_of(known, book, directory, dataset=dataset, call_seconds=limits.call_seconds)
        directory.begin()
        graph = Graph(
            schema=manifest.schema,
            book=book,
            router=Router(book, [peer.owner for peer in peers], pool, counters),
            pool=pool,
            counters=counters,
            connections=Connections(directory=directory, peers=tuple(peers), call_seconds=limits.call_seconds),
            batch_servers=makers,
        )
        graph.keep_until_exit()
        undo.pop_all()
        return graph
