"""Some servers as seen from outside: what each says of itself, and whom to ask about what."""

import sys
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from halohop.cluster.remote import GRAPH_MESSAGES, DescribeReply, DescribeRequest, MeetReply, MeetRequest, Peer
from halohop.cluster.rendezvous import replicas
from halohop.errors import ClusterError, PeerLostError
from halohop.partitioning.book import Book
from halohop.sampling.remote import BatchReply, BatchRequest
from halohop.transport import Channel, Codec, Limits, Token, connect
from halohop.transport.addresses import plain


def server_codec() -> Codec:
    """The messages between servers, and between them and trainers."""
    return Codec([*GRAPH_MESSAGES, DescribeRequest, DescribeReply, MeetRequest, MeetReply, BatchRequest, BatchReply])


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The addresses of servers, and what it takes to talk to them.

    Args:
        addresses: ``HOST:PORT`` of each.
        token: the secret that they share.
        limits: of every channel to them.
        deadline: seconds to wait for those that have not started yet.
    """

    addresses: tuple[str, ...]
    token: Token | None
    limits: Limits
    deadline: float = 60.0

    def channel(self, ranked: Sequence[int], *, limits: Limits | None = None) -> Channel:
        """To the first of some servers; the others stand in for it, in turn."""
        addresses = [self.addresses[server] for server in ranked]
        label = f"server {ranked[0]}"
        return connect(*addresses, codec=server_codec(), token=self.token, peer=label, limits=limits or self.limits)

    def introductions(
        self, *, manifest: bytes | None = None, without: tuple[int, ...] = ()
    ) -> "tuple[Servers, dict[int, DescribeReply]]":
        """What each server says of itself, by its number; all of them are waited for at the same time.

        Once those that have answered hold every partition, the others get one attempt's time more, and then it goes without them:
        servers that stand in for each other need not all be there. As long as a partition is missing, those that have answered
        are asked whom else they know.

        Args:
            manifest: that all must have; None takes that of the first.
            without: partitions that nobody need have.

        Returns:
            These servers and, behind them, those that were learned of; and what those say that have answered.

        Raises:
            PeerLostError: a server that is needed did not come in time; names it.
            AuthenticationError: a server has another token.
            ClusterError: a server has another manifest; names it.
        """
        patient = replace(self.limits, connect_seconds=self.deadline, call_seconds=self.deadline)
        known: dict[int, DescribeReply] = {}
        lost: PeerLostError | None = None
        group = self
        with ExitStack() as stack:
            channels: list[Channel] = []
            waiting: dict[Future[Any], int] = {}

            def ask(server: int) -> None:
                channels.append(stack.enter_context(group.channel([server], limits=patient)))
                waiting[channels[server].submit(DescribeRequest())] = server

            for server in range(len(self.addresses)):
                ask(server)
            while waiting:
                enough = _hold_everything(known.values(), without)
                done, _ = wait(waiting, self.limits.attempt_seconds, FIRST_COMPLETED)
                if not done and enough:
                    break
                for future in done:
                    server = waiting.pop(future)
                    try:
                        about: DescribeReply = future.result()
                    except PeerLostError as error:
                        lost = error
                        continue
                    if server < len(self.addresses) or about.server not in {other.server for other in known.values()}:
                        known[server] = about
                if not (done and waiting) and not _hold_everything(known.values(), without):
                    for address in group._others([channels[server] for server in known]):
                        group = replace(group, addresses=(*group.addresses, address))
                        ask(len(channels))
        if lost is not None and not _hold_everything(known.values(), without):
            raise lost
        group._check_same(known, manifest)
        for server in set(range(len(self.addresses))) - set(known):
            address = self.addresses[server]
            print(f"halohop: going on without {address}, which does not answer: others have its partitions", file=sys.stderr)
        return group, dict(sorted(known.items()))

    def _others(self, channels: Sequence[Channel]) -> list[str]:
        """Whom some servers know beside these: such as may have come in the place of a lost one."""
        done, _ = wait([channel.submit(MeetRequest()) for channel in channels], self.limits.attempt_seconds)
        told = [address for future in done if future.exception() is None for address in future.result().addresses]
        return [address for address in dict.fromkeys(told) if address not in map(plain, self.addresses)]

    def _check_same(self, known: dict[int, DescribeReply], manifest: bytes | None) -> None:
        for server, about in sorted(known.items()):
            manifest = about.manifest if manifest is None else manifest
            if about.manifest != manifest:
                raise ClusterError(
                    f"{self.addresses[server]} serves another data set than the others; copy the same manifest to all servers"
                )

    def unable(self, known: dict[int, DescribeReply]) -> str | None:
        """Which of the servers cannot make batches, why, and what to do; None if all can."""
        for server, about in known.items():
            if len(about.parts) < about.num_parts and not about.has_peers:
                return (
                    f"server {server} at {self.addresses[server]} holds partitions {list(about.parts)} of {about.num_parts} and "
                    "knows nobody who has the others, so it cannot make batches; start it with its peers' addresses (--peers), "
                    "or let the trainer sample (sampling='client', --sampling client)"
                )
        return None

    def peers(self, known: dict[int, DescribeReply], book: Book, undo: ExitStack, *, without: tuple[int, ...] = ()) -> list[Peer]:
        """Whom to ask about which partitions, except some; the channels are closed with `undo`.

        Raises:
            ClusterError: nobody serves a partition.
        """
        served = [known[server].parts if server in known else () for server in range(len(self.addresses))]
        found = [tuple(part for part in parts if part not in without) for parts in served]
        return [
            Peer(channel=undo.enter_context(self.channel(ranked)), parts=parts, copies=len(ranked))
            for ranked, parts in replicas([*found, without], book.num_parts).items()
            if ranked[0] < len(found)
        ]


def _hold_everything(known: Collection[DescribeReply], without: tuple[int, ...]) -> bool:
    """Whether some servers, and whoever has the partitions `without`, have them all."""
    held = {part for about in known for part in about.parts} | set(without)
    return bool(known) and len(held) == max(about.num_parts for about in known)
