"""The graph of a host among several: it serves what lies here, and asks the others for the rest."""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from halohop import ops
from halohop.cluster.cache import cache_of
from halohop.cluster.graph import Graph
from halohop.cluster.holding import Holding
from halohop.cluster.router import Router
from halohop.errors import ClusterError
from halohop.net.connections import Connections
from halohop.net.directory import PeerDirectory
from halohop.net.interfaces import reached_at
from halohop.net.known import Known, peers_of
from halohop.net.ownership import owners
from halohop.net.rendezvous import HostCard, Rendezvous
from halohop.net.serve import Server
from halohop.net.servers import Servers
from halohop.net.service import Keeping
from halohop.net.tables_here import owners_of_hosts
from halohop.partitioning.book import Book
from halohop.store.given import given_names
from halohop.telemetry import Counters
from halohop.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Where this host meets the others: how they find it, and on which host the board is."""

    rendezvous: Rendezvous
    world: World
    listen: str
    advertise: str | None
    master: str


def joined(holding: Holding, meeting: Meeting, servers: Servers, *, deadline: float, cache: str | int | None) -> Graph:
    """The graph of this host and all others: serves what lies here, and connects to those that have the rest."""
    rendezvous, world = meeting.rendezvous, meeting.world
    book, parts = holding.book, tuple(holding.parts)
    pool, counters = ops.Pool(), Counters()
    rows = cache_of(cache, holding.manifest.schema, book, parts, pool)
    shard = holding.shard(pool, counters) if parts else None
    with ExitStack() as undo:  # whatever fails half-way leaves no server behind
        server = None
        if world.local_rank == 0 and shard is not None:
            listen, advertise = meeting.listen, meeting.advertise
            server = Server(
                holding,
                listen=listen,
                advertise=advertise,
                servers=servers,
                keeping=Keeping(),
                shard=shard,
                pool=pool,
                world=World(rank=world.host, size=world.num_hosts),  # its number among the hosts
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
        cards = rendezvous.cards(card)
        known = _others(cards, world, book, parts, directory)
        call_seconds = servers.limits.call_seconds
        peers = peers_of(known, book, directory, dataset=holding.fingerprint, without=parts, call_seconds=call_seconds)
        if server is None:
            directory.begin()
        connections = Connections(directory=directory, peers=tuple(peers), rendezvous=rendezvous, server=server)
        mine = [] if shard is None else [holding.owner(shard, pool, counters)]
        graph = Graph(
            schema=holding.manifest.schema,
            book=book,
            router=Router(book, [*mine, *(peer.owner for peer in peers)], pool, counters, cache=rows),
            pool=pool,
            counters=counters,
            connections=connections,
            table_owners=partial(owners_of_hosts, holding, cards, world, server, directory, call_seconds=call_seconds),
        )
        graph.parts_of_hosts = tuple(owners([card.parts for card in cards], book.num_parts))
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
