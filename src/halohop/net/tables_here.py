"""Owners of tables where trainers hold the graph: the serving trainer of each host, or the first one of the only host."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from halohop.attempts import Board
from halohop.cluster.holding import Holding
from halohop.cluster.tables.owners import TableOwners, holder_here
from halohop.errors import ClusterError
from halohop.net.directory import PeerDirectory
from halohop.net.finders import Listed
from halohop.net.rendezvous import HostCard, Rendezvous, board_errors
from halohop.net.serve import Server
from halohop.net.servers import Servers
from halohop.net.service import Keeping
from halohop.net.table_servers import TableServer, holder_at, holders_at, order_of
from halohop.tables.owner import Owner
from halohop.transport import Channel, Identity, Limits, Token
from halohop.world import World

_GOODBYE_SECONDS = 1.0


def owners_of_hosts(
    holding: Holding,
    cards: list[HostCard],
    world: World,
    server: Server | None,
    directory: PeerDirectory,
    *,
    call_seconds: float,
) -> TableOwners:
    """The owners among several hosts: of the hosts that hold a partition the first one, for all trainers.

    Args:
        cards: of the hosts, by number.
        server: of this host, where it is in this process.
        directory: the way to the others.
    """

    def reach(host: int, card: HostCard) -> Channel | Owner:
        if host == world.host and server is not None:
            return server.tables
        return directory.channel(card.address, label=f"host {host}")

    servers = [
        TableServer(order=order_of(host, ""), parts=card.parts, reach=reach(host, card))
        for host, card in enumerate(cards)
        if card.parts
    ]
    return TableOwners(
        holding.book,
        holders_at(servers, directory, dataset=holding.fingerprint, call_seconds=call_seconds),
        parts_here=holding.parts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """Where the owner of this host's tables answers, and a token that only its trainers have; empty where they have one."""

    address: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneHost:
    """Several trainers of one host, each of which holds the whole graph: the first of them owns all rows of tables.

    Args:
        holding: what this trainer holds.
        world: all trainers.
        meets: finds the board, where they meet when they first use tables.
        token: that the trainers have; None: the owner makes one.
        limits: of the transport.
        deadline: seconds to wait for the owner, and at the end for the others.
    """

    holding: Holding
    world: World
    meets: Callable[[], Rendezvous]
    token: Token | None
    limits: Limits
    deadline: float

    def owners(self) -> TableOwners:
        """The owner, which begins to answer when it first uses tables itself; the others wait for it.

        Raises:
            ClusterError: it did not come in time, there is no board to meet at, or the trainers are on several hosts.
        """
        meeting = self.meets()
        board, word = meeting.board, f"{meeting.prefix}/tables"
        world = self.world if self.world.hosts_known else meeting.find_hosts(tuple(self.holding.parts))
        if world.num_hosts > 1:
            raise ClusterError(
                f"the {world.size} trainers are on {world.num_hosts} hosts that did not meet at the start, so each would "
                "have tables of its own; give halohop.open a master='HOST:PORT', or serve the graph (halohop serve)"
            )
        return self._serves(board, word) if world.local_rank == 0 else self._asks(board, word)

    def _serves(self, board: Board, word: str) -> TableOwners:
        fresh = "" if self.token is not None else secrets.token_hex(16)
        token = self.token or Token(fresh)
        servers = Servers(finder=Listed(addresses=()), token=token, limits=self.limits, label="rank")
        server = Server(self.holding, listen=None, servers=servers, keeping=Keeping())
        try:
            with board_errors(board):
                board.set(word, msgspec.json.encode(_Card(address=server.address, token=fresh)).decode())
        except BaseException:
            server.close()
            raise

        def close(wait: bool) -> None:
            try:
                if wait:
                    self._await_users(board, word)
                    server.drain(_GOODBYE_SECONDS)
            finally:
                server.close()

        return TableOwners(
            self.holding.book, [holder_here(server.tables.answer, server.parts, name="rank 0")], with_others=True, close=close
        )

    def _asks(self, board: Board, word: str) -> TableOwners:
        rank = self.world.rank
        with board_errors(board):
            board.set(f"{word}/uses/{rank}", "")
            try:
                board.wait([word], timedelta(seconds=self.deadline))
            except RuntimeError as error:  # torch's errors about stores are such
                raise ClusterError(
                    f"the first trainer of this host did not use graph.tables within {self.deadline:g} s, and it is to own the "
                    "rows; use tables in all trainers, or serve the graph (halohop serve)"
                ) from error
            card = msgspec.json.decode(board.get(word), type=_Card)
        token = Token(card.token) if card.token else self.token
        servers = Servers(finder=Listed(addresses=(card.address,)), token=token, limits=self.limits, label="rank")
        dataset = self.holding.fingerprint
        directory = PeerDirectory(servers, dataset=dataset, lease_seconds=self.deadline)
        channel = directory.channel(card.address, label="rank 0")
        parts = tuple(self.holding.parts)
        directory.ask_about(channel, Identity(dataset=dataset, parts=parts))

        def close(wait: bool) -> None:
            directory.close()
            with board_errors(board):
                board.set(f"{word}/left/{rank}", "")

        holder = holder_at(channel, parts, call_seconds=self.limits.call_seconds)
        return TableOwners(self.holding.book, [holder], parts_here=self.holding.parts, with_others=True, close=close)

    def _await_users(self, board: Board, word: str) -> None:
        for rank in range(self.world.size):
            with board_errors(board):
                if not board.check([f"{word}/uses/{rank}"]):
                    continue
                try:
                    board.wait([f"{word}/left/{rank}"], timedelta(seconds=self.deadline))
                except RuntimeError as error:
                    raise ClusterError(
                        f"rank {rank} has not closed its graph within {self.deadline:g} s; this one owns the tables that it uses"
                    ) from error
