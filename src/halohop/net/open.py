"""`halohop.open`: maps what lies here, finds the hosts that hold the rest."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from halohop import ops
from halohop.cluster.graph import Graph, local_graph
from halohop.cluster.holding import Holding
from halohop.cluster.in_memory import InMemory, OwnParts
from halohop.cluster.router import Router
from halohop.errors import ClusterError, InputError
from halohop.net.connections import Connections
from halohop.net.partitions import all_records
from halohop.net.periodic import PeriodicThread
from halohop.net.remote import Peer, graph_codec
from halohop.net.rendezvous import Board, HostCard, Rendezvous, join_board, own_address, owners
from halohop.partitioning.book import Book
from halohop.store.given import Given, given_names, with_absolute_paths
from halohop.telemetry import Counters
from halohop.transport import Identity, Limits, Listener, Token, load_token, tcp
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
    limits: Limits | None = None,
    deadline: float = 60.0,
    board: Board | None = None,
) -> Graph:
    """Opens a partitioned graph; public as `halohop.open`.

    Every partition found in the folder is memory-mapped: opening takes milliseconds, all processes of a host share the pages,
    and data larger than RAM works. In a world of several hosts (torchrun, `halohop train --nodes N`) the first trainer of each
    host serves its partitions to the others, and what is not found here is asked of a host that found it.

    Args:
        path: the folder that `halohop.partition` wrote; on a host of several, the manifest and some of the partitions. Or
            partitions in memory (`halohop.MemoryPartition`), one or a list; on a host of several, its own.
        partitions: use only these of the partitions found here.
        columns: further columns, in batches as if stored: by node type or relation, then by name, a tensor, an array or the path
            of a `.npy` file with a row for each id (of nodes the user's ids, of edges their places in the user's input) from 0
            on, or a pair of ids and rows. All hosts of a world give the same; rows of nodes and edges that lie elsewhere are not
            read.
        world: who takes part; None reads torchrun's environment.
        token: the secret that the hosts share, and whether they encrypt; None takes the environment's HALOHOP_TOKEN and
            HALOHOP_ENCRYPT.
        listen: address for the other hosts, ``tcp://IP:PORT``; None takes the interface towards MASTER_ADDR, and a free port.
        verify: also compare every mapped file with its checksum (reads everything once).
        limits: of the transport: deadlines per call, sizes.
        deadline: seconds to wait for the other hosts at the start and at the end.
        board: where the hosts meet; None takes the store at MASTER_ADDR:MASTER_PORT.

    Raises:
        DatasetError: the folder is no complete, healthy data set of this version; names the file.
        ClusterError: a partition is held by nobody, a host did not come in time, or was given other columns.
        SchemaError: a column for a node type or relation that is not there, or of a name that is stored already.
        PeerLostError, AuthenticationError: a host cannot be reached, or has another token.
        InputError: partitions that are not here, rows that do not fit the nodes or edges, partitions in memory that do not fit
            together, or no token where several hosts meet.

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
    held: Holding | OwnParts
    if isinstance(path, str | Path):
        held = Holding.of(Path(path), partitions=partitions, verify=verify).with_columns(columns)
    else:
        held = OwnParts.of(path, partitions=partitions, verify=verify)
    if world.num_hosts == 1:
        holding = held if isinstance(held, Holding) else held.holding().with_columns(columns)
        owners([tuple(holding.parts)], holding.book.num_parts)
        graph = local_graph(holding.manifest.schema, holding.book, holding.parts, one_owner=world.size == 1)
        if isinstance(path, str | Path):
            graph.reopen = partial(open_graph, Path(path).resolve(), partitions=partitions, columns=with_absolute_paths(columns))
        return graph
    token = token or load_token()
    if token is None:
        raise InputError("several hosts need a shared token; set HALOHOP_TOKEN to the same secret on all of them")
    limits = limits or Limits()
    pool, counters = ops.Pool(), Counters()
    rendezvous = Rendezvous(board or join_board(deadline=deadline), world, deadline=deadline)
    holding = held if isinstance(held, Holding) else _met(held, rendezvous, world, deadline).with_columns(columns)
    book, parts = holding.book, tuple(holding.parts)
    local = holding.holders(pool, counters)
    with ExitStack() as undo:  # whatever fails half-way leaves no server behind
        listener = None
        card = HostCard(address="", dataset=holding.fingerprint, parts=parts, columns=given_names(holding.manifest))
        if world.local_rank == 0:
            router = Router(book, local, pool, Counters())
            listener = undo.enter_context(_serve(router, holding.identity, token, listen, limits))
            rendezvous.announce(replace(card, address=listener.address))
        remote = _connect(rendezvous.cards(card), world, book, parts, token, limits, undo)
        holders = [*local, *(peer.holder for peer in remote.values())]
        search = PeriodicThread(
            limits.attempt_seconds,
            lambda: _search(remote, rendezvous, holding.fingerprint, limits.attempt_seconds),
            name="search",
        )
        connections = Connections(
            rendezvous=rendezvous,
            listener=listener,
            channels=tuple(peer.channel for peer in remote.values()),
            helpers=(undo.enter_context(search),),
            call_seconds=limits.call_seconds,
        )
        router = Router(book, holders, pool, counters)
        schema = holding.manifest.schema
        graph = Graph(
            schema=schema,
            book=book,
            router=router,
            pool=pool,
            counters=counters,
            connections=connections,
            one_owner=world.size == 1,
        )
        connections.check(deadline=deadline)  # a wrong token or a firewall shows now, not in the first batch
        graph.keep_until_exit()
        undo.pop_all()
        return graph


def _met(own: OwnParts, rendezvous: Rendezvous, world: World, deadline: float) -> Holding:
    """The partitions of this process, after those of all have agreed."""
    announces = world.local_rank == 0
    return own.holding(all_records(rendezvous.board, rendezvous.prefix, own.records, deadline=deadline, announces=announces))


def _serve(router: Router, identity: Identity, token: Token, listen: str | None, limits: Limits) -> Listener:
    bind = listen or f"tcp://{own_address()}:0"
    return tcp.serve(router.answer, codec=graph_codec(), token=token, bind=bind, limits=limits, identity=identity)


def _connect(
    cards: list[HostCard],
    world: World,
    book: Book,
    mine: tuple[int, ...],
    token: Token,
    limits: Limits,
    undo: ExitStack,
) -> dict[int, Peer]:
    """Every host that serves a partition which is not here."""
    served = owners([card.parts for card in cards], book.num_parts)
    remote = {}
    for host, card in enumerate(cards):
        wanted = tuple(part for part in served[host] if part not in mine)
        if wanted and host == world.host:
            raise ClusterError(
                f"this trainer does not find partitions {list(wanted)} that its host announced; "
                "all trainers of a host must open the same folder with the same `partitions`"
            )
        if wanted:
            channel = tcp.connect(
                card.address,
                codec=graph_codec(),
                token=token,
                peer=f"host {host}",
                limits=limits,
                expected=Identity(dataset=card.dataset, parts=wanted),
            )
            remote[host] = Peer(channel=undo.enter_context(channel), parts=wanted)
    return remote


def _search(remote: dict[int, Peer], rendezvous: Rendezvous, dataset: str, patience: float) -> None:
    """Looks on the board whether hosts that keep this one waiting were started again elsewhere."""
    for host, peer in remote.items():
        if peer.channel.waits_longer_than(patience):
            card = rendezvous.newest(host)
            if card is not None and card.identity.covers(Identity(dataset=dataset, parts=peer.parts)):
                peer.channel.add_address(card.address)
