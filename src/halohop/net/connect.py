"""`halohop.connect`: a graph that lies on servers, for a trainer that holds none of it."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from halohop import ops
from halohop.cluster.cache import cache_of
from halohop.cluster.device import DeviceOptions
from halohop.cluster.graph import Graph, GraphReference
from halohop.cluster.holding import Holding, book_of
from halohop.cluster.router import Router
from halohop.cluster.tables.owners import TableOwners
from halohop.errors import InputError
from halohop.net.attending import Attending
from halohop.net.connections import Connections
from halohop.net.directory import PeerDirectory
from halohop.net.finders import Finder, finder_of
from halohop.net.introductions import Introductions
from halohop.net.known import Known, peers_of
from halohop.net.remote import BatchServers
from halohop.net.servers import Servers
from halohop.net.table_servers import TableServer, holders_at, order_of
from halohop.partitioning.book import Book
from halohop.store.manifest import decode
from halohop.telemetry import Counters
from halohop.transport import Identity, Limits, Token, load_token
from halohop.transport.addresses import plain

Place = Literal["servers", "client"]


def connect(
    servers: Sequence[str] | Finder,
    *,
    sampling: Place = "servers",
    token: Token | None = None,
    limits: Limits | None = None,
    deadline: float = 60.0,
    first: str | None = None,
    folder: str | Path | None = None,
    cache: str | int | None = "auto",
    num_servers: int | None = None,
    device: str | None = None,
    feature_cache: str | float | None = None,
    cache_devices: Sequence[str] | None = None,
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
        first: the server that this client asks before all others, such as the one on its own host: for all batches, and for the
            rows of all partitions that it has. The others stand in for it where it is lost. None: they share the work evenly.
        folder: of the same data set on this host. The partitions in it are mapped, and read without asking a server for them;
            rows of tables stay with the servers. None: servers are asked for all.
        cache: how much memory this process may take for rows of nodes that it fetched and needs often, in bytes or as text
            ("512MB"); None: rows are fetched each time. It is of use where batches are made here (`sampling` "client").
        deadline: seconds to wait at the start for all servers, and for those that they learn of, until every partition is there.
        num_servers: how many servers there are, of which `servers` may name only some: all of them are waited for, and must
            have been started among as many (`halohop.serve(world=...)`). None: as many as it takes.
        device: a GPU ("cuda", "cuda:1") on which batches lie; None: the CPU. Neighbours are drawn by the servers, or by this
            process, and rows come through page-locked memory.
        feature_cache, cache_devices: as of `halohop.open`, where batches are made here (`sampling` "client"): the rows of nodes
            that are read most are fetched once, now.

    Raises:
        PeerLostError: a server that is needed did not come in time; names it.
        AuthenticationError: a server has another token.
        ClusterError: they serve different data sets, or another one than the folder has, two have one number, or none has a
            partition; names it, and the servers that were asked.
        DatasetError: the folder has no complete, healthy data set of this version.
        InputError: no servers, something that is no address, a `cache` that is no size, a `first` that is none of the servers,
            a `folder` or a `feature_cache` where servers make the batches, no such GPU, or a cache that is larger than what is
            free there.
    """
    if not servers:
        raise InputError(f"servers={servers!r} is no list of addresses; give one 'HOST:PORT' for each server")
    if sampling not in get_args(Place):
        raise InputError(f"sampling={sampling!r} is none of {list(get_args(Place))}")
    where = Servers(finder=finder_of(servers), token=token or load_token(), limits=limits or Limits())
    if num_servers is not None and num_servers < 1:
        raise InputError(f"num_servers={num_servers}; a graph lies on one server at least, or leave it out")
    if folder is not None and sampling == "servers":
        raise InputError(f"folder={str(folder)!r} is of use where batches are made here; pass sampling='client', or leave it out")
    on_device = DeviceOptions.of(device, None, feature_cache, cache_devices)
    if on_device is not None and on_device.caches and sampling == "servers":
        raise InputError(
            f"feature_cache={feature_cache!r} is of use where batches are made here; pass sampling='client', or leave it out"
        )
    folder = None if folder is None else Path(folder).resolve()
    here = None if folder is None else Holding.of(folder)
    graph = connected(where, sampling=sampling, deadline=deadline, first=first, here=here, cache=cache, num_servers=num_servers)
    opens = partial(
        connect,
        servers if callable(servers) else tuple(servers),
        sampling=sampling,
        limits=limits,
        deadline=deadline,
        first=first,
        folder=folder,
        cache=cache,
        num_servers=num_servers,
        device=device,
        feature_cache=feature_cache,
        cache_devices=cache_devices,
    )
    graph.opened_by = GraphReference(opens=opens)
    return with_device(graph, on_device)


def with_device(graph: Graph, options: DeviceOptions | None) -> Graph:
    """The graph, which makes batches on the device that options name; closed if that cannot be."""
    try:
        graph.use_device(options)
    except BaseException:
        graph.shut(wait=False)
        raise
    return graph


def connected(
    where: Servers,
    *,
    sampling: Place,
    deadline: float,
    first: str | None = None,
    here: Holding | None = None,
    cache: str | int | None = "auto",
    num_servers: int | None = None,
) -> Graph:
    """`connect`, for a process that may hold some of the partitions: it asks the servers about the others."""
    limits, mine = where.limits, () if here is None else tuple(here.parts)
    with ExitStack() as undo:
        directory = undo.enter_context(PeerDirectory(where, lease_seconds=limits.attempt_seconds))
        introductions = Introductions(
            directory,
            attempt_seconds=limits.attempt_seconds,
            deadline=deadline,
            manifest=None if here is None else here.document,
            least=num_servers or 1,
            size=num_servers,
        )
        known = introductions.wait()
        if first is not None:
            known = _with_first(known, first)
        manifest, dataset = decode(introductions.manifest, "the manifest that the servers sent"), introductions.dataset
        book = book_of(manifest)
        pool, counters = ops.Pool(), Counters()
        rows = cache_of(cache, manifest.schema, book, mine, pool)
        makers: BatchServers | None = None
        if sampling == "servers":
            channels = [server.channel for server in known]
            makers = BatchServers(
                channels, call_seconds=limits.call_seconds, unable=introductions.unable(), in_turn=first is None
            )
            for channel in channels:
                directory.ask_about(channel, Identity(dataset=dataset))
        peers = peers_of(
            known, book, directory, dataset=dataset, without=mine, call_seconds=limits.call_seconds, even=first is None
        )
        owners = [] if here is None or not mine else [here.owner(here.shard(pool, counters), pool, counters)]
        jobs = _attending(known)
        directory.begin()
        graph = Graph(
            schema=manifest.schema,
            book=book,
            router=Router(book, [*owners, *(peer.owner for peer in peers)], pool, counters, cache=rows),
            pool=pool,
            counters=counters,
            connections=Connections(directory=directory, peers=tuple(peers), jobs=jobs),
            batch_servers=makers,
            table_owners=partial(_table_owners, book, known, directory, here, dataset=dataset, call_seconds=limits.call_seconds),
        )
        graph.keep_until_exit()
        undo.pop_all()
        return graph


def _table_owners(
    book: Book,
    known: Sequence[Known],
    directory: PeerDirectory,
    here: Holding | None,
    *,
    dataset: str,
    call_seconds: float,
) -> TableOwners:
    """Where several servers have a partition, all clients take the same one for the owner of its rows."""
    servers = [
        TableServer(order=order_of(-1 if one.card is None else one.card.number, one.name), parts=one.parts, reach=one.channel)
        for one in known
    ]
    holders = holders_at(servers, directory, dataset=dataset, call_seconds=call_seconds)
    return TableOwners(book, holders, parts_here={} if here is None else here.parts)


def _with_first(known: list[Known], first: str) -> list[Known]:
    """The servers, the one at an address at the beginning."""
    if plain(first) not in (addresses := [plain(server.address) for server in known]):
        raise InputError(f"first={first!r} is none of the servers, {', '.join(addresses)}; give the address of one of them")
    return sorted(known, key=lambda server: plain(server.address) != plain(first))


def _attending(known: list[Known]) -> Attending:
    """This client's part in jobs. Of the servers that have the first partition, all clients take the same for its home."""
    home = min(known, key=lambda server: (min(server.parts), server.name))
    part = Attending([(server.card, server.channel) for server in known if server.card is not None], home=home.channel)
    leases = [server.lease_seconds for server in known if server.lease_seconds]
    if leases:
        part.begin(min(leases))
    return part
