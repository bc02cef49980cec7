"""`halohop.open`: maps what lies here, finds the hosts that hold the rest."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from halohop import ops
from halohop.cluster.cache import cache_of
from halohop.cluster.graph import Graph, GraphReference, local_graph
from halohop.cluster.holding import Holding
from halohop.cluster.in_memory import InMemory, OwnParts
from halohop.cluster.router import Router
from halohop.errors import ClusterError, InputError
from halohop.files.urls import is_url
from halohop.net.board import join_board, master_host, master_of
from halohop.net.connect import connected
from halohop.net.connections import Connections
from halohop.net.directory import PeerDirectory
from halohop.net.finders import finder_of
from halohop.net.interfaces import is_loopback, own_address, reached_at
from halohop.net.known import Known, peers_of
from halohop.net.ownership import owners
from halohop.net.partitions import all_records
from halohop.net.rendezvous import Board, HostCard, Rendezvous
from halohop.net.serve import Server
from halohop.net.servers import Servers
from halohop.net.service import Keeping
from halohop.partitioning.book import Book
from halohop.store.afar.staging import Stage, staged
from halohop.store.given import Given, given_names, with_absolute_paths
from halohop.telemetry import Counters
from halohop.transport import Limits, Token, load_token
from halohop.transport.addresses import spelled
from halohop.transport.security import TOKEN_REMEDY
from halohop.world import World


def open_graph(
    path: str | Path | InMemory,
    *,
    partitions: Sequence[int] | None = None,
    columns: Given | None = None,
    world: World | None = None,
    token: Token | None = None,
    listen: str | None = None,
    verify: bool = False,
    memory: str | int | None = None,
    hot_memory: str | int = 0,
    cache: str | int | None = None,
    limits: Limits | None = None,
    deadline: float = 60.0,
    master: str | None = None,
    board: Board | None = None,
    advertise: str | None = None,
    stage: str | Path | None = None,
    stage_bytes: str | int | None = None,
) -> Graph:
    """Opens a partitioned graph; public as `halohop.open`.

    Every partition found in the folder is memory-mapped: opening takes milliseconds, all processes of a host share the pages,
    and data larger than RAM works. In a world of several hosts (torchrun, `halohop train --nodes N`) the first trainer of each
    host serves its partitions to the others, and what is not found here is asked of a host that found it.

    Args:
        path: the folder that `halohop.partition` wrote; on a host of several, the manifest and some of the partitions. Or its
            URL, from which host K of N fetches its share, "K/N", unless `partitions` says otherwise. Or partitions in memory
            (`halohop.MemoryPartition`), one or a list; on a host of several, its own.
        partitions: use only these of the partitions found here.
        columns: further columns, in batches as if stored: by node type or relation, then by name, a tensor, an array or the path
            of a `.npy` file with a row for each id (of nodes the user's ids, of edges their places in the user's input) from 0
            on, or a pair of ids and rows. All hosts of a world give the same; rows of nodes and edges that lie elsewhere are not
            read.
        world: who takes part; None reads torchrun's environment. Where it does not say which ranks share a host
            (`World.hosts_known`), and some partitions are not here or `master` is given, all ranks meet and find out: those on
            one machine that hold the same partitions are one host.
        token: the secret that the hosts share, and whether they encrypt; None takes the environment's HALOHOP_TOKEN and
            HALOHOP_ENCRYPT. Not needed where all addresses are loopback ones.
        listen: address for the other hosts, ``tcp://IP:PORT``; None takes the interface towards the master, and a free port.
        verify: also compare every mapped file with its checksum (reads everything once).
        memory: how much of the host's memory its mapped partitions may take, in bytes or as text ("4GB"); None: half of what is
            available when they are opened. Rows of columns that do not fit are read from disk, those of a batch at a time.
        hot_memory: how much memory this process may take, beside that, for copies of those of their rows that are read most.
        cache: how much memory this process may take for rows of other hosts' nodes that it needs often; None: none.
        limits: of the transport: deadlines per call, sizes.
        deadline: seconds to wait for the other hosts at the start and at the end.
        master: ``"HOST:PORT"`` where the hosts meet, on the host of rank 0, which keeps a store of torch's there if no launcher
            or process group does; None takes MASTER_ADDR and MASTER_PORT.
        board: a store of torch's to meet at instead.
        advertise: ``HOST:PORT`` under which the other hosts reach this one, where that is not what it listens at; port 0 stands
            for the port that it listens at.
        stage: the folder of this host into which data sets of URLs are fetched; its processes share it.
        stage_bytes: what they may take there, in bytes or as text; what was used least recently is removed. None: no limit.

    Raises:
        DatasetError: the folder is no complete, healthy data set of this version; names the file.
        ClusterError: no host holds a partition, a host did not come in time or was given other columns, two processes have
            one rank, or ranks were started with different world sizes.
        SchemaError: a column for a node type or relation that is not there, or of a name that is stored already.
        PeerLostError, AuthenticationError: a host cannot be reached, or has another token.
        InputError: partitions that are not here, a `memory` or `cache` that is no size, rows that do not fit the nodes or edges,
            partitions in memory that do not fit together, or no token where several hosts meet.

    Example:
        >>> import tempfile, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = halohop.partition(synthetic("tiny"), f"{folder}/parts", num_parts=2, method="random")
        ...     with halohop.open(f"{folder}/parts") as graph:
        ...         graph.book.num_parts
        2
    """
    world = world or World.from_env()
    found = None
    if isinstance(path, str | Path) and is_url(path):
        found = staged(path, Stage.of(stage, stage_bytes), partitions=partitions, world=world)
        path, partitions = found.folder, found.parts
    held: Holding | OwnParts
    if isinstance(path, str | Path):
        held = Holding.of(Path(path), partitions=partitions, verify=verify, memory=memory, hot_memory=hot_memory)
        held = held.with_columns(columns)
    else:
        held = OwnParts.of(path, partitions=partitions, verify=verify)
    rendezvous = None
    if world.num_hosts > 1 or (not world.hosts_known and (master or board or not _is_whole(held))):
        board = board or join_board(master_of(master), rank=world.rank, deadline=deadline)
        rendezvous = Rendezvous(board, world, deadline=deadline)
        world = world if world.hosts_known else rendezvous.find_hosts(tuple(held.parts))
    if world.num_hosts == 1:
        holding = held if isinstance(held, Holding) else held.holding().with_columns(columns)
        owners([tuple(holding.parts)], holding.book.num_parts)
        graph = local_graph(
            holding.manifest.schema, holding.book, holding.parts, one_owner=world.size == 1, residency=holding.residency
        )
        if isinstance(path, str | Path):
            again = partial(open_graph, Path(path).resolve(), partitions=partitions, columns=with_absolute_paths(columns))
            again = partial(again, memory=memory, hot_memory=hot_memory, cache=cache)
            graph.opened_by = GraphReference(opens=partial(again, world=world))  # the other's environment may name no rank
        return graph if found is None else found.kept_for(graph)
    assert rendezvous is not None
    token = token or load_token()
    listen = _listens_at(listen, master, token)
    holding = held if isinstance(held, Holding) else _met(held, rendezvous, world, deadline).with_columns(columns)
    servers = Servers(finder=rendezvous.addresses, token=token, limits=limits or Limits(), label="host")
    meeting = Meeting(rendezvous=rendezvous, world=world, listen=listen, advertise=advertise, master=master_host(master))
    graph = _joined(holding, meeting, servers, deadline=deadline, cache=cache)
    again = partial(rejoin, rendezvous.addresses(), limits=servers.limits, deadline=deadline, cache=cache)
    if isinstance(path, str | Path):
        again = partial(again, Path(path).resolve(), tuple(holding.parts), columns=with_absolute_paths(columns))
        again = partial(again, memory=memory, hot_memory=hot_memory)
    graph.opened_by = GraphReference(opens=again)
    return graph if found is None else found.kept_for(graph)


def rejoin(
    servers: Sequence[str],
    path: Path | None = None,
    partitions: Sequence[int] = (),
    *,
    columns: Given | None = None,
    memory: str | int | None = None,
    hot_memory: str | int = 0,
    cache: str | int | None = None,
    limits: Limits,
    deadline: float,
) -> Graph:
    """The graph of several hosts in one more process of one of them: a client of their servers, which maps what lies here."""
    here = None
    if path is not None:
        here = Holding.of(path, partitions=partitions, memory=memory, hot_memory=hot_memory).with_columns(columns)
    where = Servers(finder=finder_of(servers), token=load_token(), limits=limits)
    return connected(where, sampling="client", deadline=deadline, here=here, cache=cache)


def _is_whole(held: Holding | OwnParts) -> bool:
    """Whether all partitions are here."""
    return len(held.parts) == (held.book.num_parts if isinstance(held, Holding) else held.records[0].num_parts)


def _listens_at(listen: str | None, master: str | None, token: Token | None) -> str:
    """Where to wait for the other hosts.

    Raises:
        InputError: others reach it, and there is no token.
    """
    listen = listen or spelled((own_address(master_host(master)), 0))
    if token is None and not is_loopback(listen):
        raise InputError(f"several hosts need a shared token; {TOKEN_REMEDY}")
    return listen


def _met(own: OwnParts, rendezvous: Rendezvous, world: World, deadline: float) -> Holding:
    """The partitions of this process, after those of all have agreed."""
    announces = world.local_rank == 0
    return own.holding(all_records(rendezvous.board, rendezvous.prefix, own.records, deadline=deadline, announces=announces))


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Where this host meets the others: how they find it, and on which host the board is."""

    rendezvous: Rendezvous
    world: World
    listen: str
    advertise: str | None
    master: str


def _joined(holding: Holding, meeting: Meeting, servers: Servers, *, deadline: float, cache: str | int | None) -> Graph:
    """The graph of this host and all others: serves what lies here, and connects to those that have the rest."""
    rendezvous, world = meeting.rendezvous, meeting.world
    book, parts = holding.book, tuple(holding.parts)
    pool, counters = ops.Pool(), Counters()
    rows = cache_of(cache, holding.manifest.schema, pool)
    shard = holding.shard(pool, counters) if parts else None
    with ExitStack() as undo:  # whatever fails half-way leaves no server behind
        server = None
        if world.local_rank == 0 and shard is not None:
            listen, advertise = meeting.listen, meeting.advertise
            server = Server(
                holding, listen=listen, advertise=advertise, servers=servers, keeping=Keeping(), shard=shard, pool=pool
            )
            undo.enter_context(server)
        card = HostCard(
            address=reached_at(server.address, meeting.master) if server else "",
            dataset=holding.fingerprint,
            parts=parts,
            columns=given_names(holding.manifest),
        )
        if world.local_rank == 0:
            rendezvous.announce(card)
        directory = server.directory if server else PeerDirectory(servers, dataset=holding.fingerprint, lease_seconds=deadline)
        undo.enter_context(directory)
        known = _others(rendezvous.cards(card), world, book, parts, directory)
        call_seconds = servers.limits.call_seconds
        peers = peers_of(known, book, directory, dataset=holding.fingerprint, without=parts, call_seconds=call_seconds)
        if server is None:
            directory.begin()
        connections = Connections(
            directory=directory, peers=tuple(peers), call_seconds=call_seconds, rendezvous=rendezvous, server=server
        )
        mine = [] if shard is None else [holding.owner(shard, pool, counters)]
        graph = Graph(
            schema=holding.manifest.schema,
            book=book,
            router=Router(book, [*mine, *(peer.owner for peer in peers)], pool, counters, cache=rows),
            pool=pool,
            counters=counters,
            connections=connections,
            one_owner=world.size == 1,
        )
        connections.check(deadline=deadline)  # a wrong token or a firewall shows now, not in the first batch
        graph.keep_until_exit()
        undo.pop_all()
        return graph


def _others(cards: list[HostCard], world: World, book: Book, mine: tuple[int, ...], directory: PeerDirectory) -> list[Known]:
    """The other hosts that serve anything.

    Raises:
        ClusterError: no host holds a partition, or this trainer does not see what its host serves.
    """
    owners([card.parts for card in cards], book.num_parts)
    if unseen := sorted(set(cards[world.host].parts) - set(mine)):
        raise ClusterError(
            f"this trainer does not find partitions {unseen} that its host announced; "
            "all trainers of a host must open the same folder with the same `partitions`"
        )
    return [
        Known(address=card.address, channel=directory.channel(card.address, label=f"host {host}"), parts=card.parts)
        for host, card in enumerate(cards)
        if host != world.host and not set(card.parts) <= set(mine)
    ]
