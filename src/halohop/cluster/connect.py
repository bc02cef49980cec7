"""`halohop.connect`: a graph that lies on servers, for a trainer that holds none of it."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.cluster.links import Links
from halohop.cluster.remote import DescribeReply, DescribeRequest, RemoteShard, graph_codec
from halohop.cluster.rendezvous import replicas
from halohop.cluster.router import Holder, Router
from halohop.errors import ClusterError, InputError
from halohop.partitioning.book import Book
from halohop.store.manifest import decode
from halohop.telemetry import Counters
from halohop.transport import Limits, Token, load_token, zeromq


def connect(
    servers: Sequence[str],
    *,
    token: Token | None = None,
    limits: Limits | None = None,
    deadline: float = 60.0,
) -> Graph:
    """The graph that some servers hold together (`halohop serve`); public as `halohop.connect`.

    Loaders work on it as on any other. A partition may be served by several of them: where one is lost, the next is asked, and
    batches stay the same. Servers may start later than this; they are waited for.

    Args:
        servers: ``"HOST:PORT"`` of each; together they must hold every partition.
        token: the secret that they share; None takes the environment's HALOHOP_TOKEN.
        limits: of the transport: deadlines per call, sizes.
        deadline: seconds to wait for all servers at the start.

    Raises:
        PeerLostError: a server did not come in time; names it.
        AuthenticationError: a server has another token.
        ClusterError: they serve different data sets, or a partition is served by nobody.
        InputError: no servers, or something that is no address.
    """
    if isinstance(servers, str) or not servers:
        raise InputError(f"servers={servers!r} is no list of addresses; give one 'HOST:PORT' for each server")
    token, limits = token or load_token(), limits or Limits()
    known = _introductions(servers, token, limits, deadline)
    first = known[0]
    for address, about in zip(servers, known, strict=True):
        if about.manifest != first.manifest:
            raise ClusterError(f"{address} serves another data set than {servers[0]}; copy the same manifest to all servers")
    manifest = decode(first.manifest, f"the manifest of {servers[0]}")
    book = Book(nodes=manifest.node_bounds, edges=manifest.edge_bounds)
    pool, counters = ops.Pool(), Counters()
    with ExitStack() as undo:
        holders, channels = [], []
        for ranked, parts in replicas([about.parts for about in known], book.num_parts).items():
            addresses = [servers[server] for server in ranked]
            channel = zeromq.connect(*addresses, codec=graph_codec(), token=token, peer=f"server {ranked[0]}", limits=limits)
            channels.append(undo.enter_context(channel))
            holders.append(Holder(shard=RemoteShard(channel), parts=parts, remote=True))
        router = Router(book, holders, pool, counters)
        links = Links(channels=tuple(channels))
        graph = Graph(schema=manifest.schema, book=book, router=router, pool=pool, counters=counters, links=links)
        graph.keep_until_exit()
        undo.pop_all()
        return graph


def _introductions(servers: Sequence[str], token: Token | None, limits: Limits, deadline: float) -> list[DescribeReply]:
    """What every server says of itself; all of them are waited for at the same time."""
    patient = replace(limits, connect_seconds=deadline, call_seconds=deadline)
    with ExitStack() as channels:
        asked = []
        for number, address in enumerate(servers):
            channel = zeromq.connect(address, codec=graph_codec(), token=token, peer=f"server {number}", limits=patient)
            asked.append(channels.enter_context(channel).submit(DescribeRequest()))
        return [future.result() for future in asked]
