"""Some servers as seen from outside: what each says of itself, and whom to ask about what."""

import sys
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace

from halohop.cluster.remote import GRAPH_MESSAGES, DescribeReply, DescribeRequest, RemoteShard
from halohop.cluster.rendezvous import replicas
from halohop.cluster.router import Holder
from halohop.errors import ClusterError, PeerLostError
from halohop.partitioning.book import Book
from halohop.sampling.remote import BatchReply, BatchRequest
from halohop.transport import Channel, Codec, Limits, Token, tcp


def server_codec() -> Codec:
    """The messages between servers, and between them and trainers."""
    return Codec([*GRAPH_MESSAGES, DescribeRequest, DescribeReply, BatchRequest, BatchReply])


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
        return tcp.connect(*addresses, codec=server_codec(), token=self.token, peer=label, limits=limits or self.limits)

    def introductions(self, *, manifest: bytes | None = None, without: tuple[int, ...] = ()) -> dict[int, DescribeReply]:
        """What each server says of itself, by its number; all of them are waited for at the same time.

        Once those that have answered hold every partition, the others get one attempt's time more, and then it goes without them:
        servers that stand in for each other need not all be there.

        Args:
            manifest: that all must have; None takes that of the first.
            without: partitions that nobody need have.

        Raises:
            PeerLostError: a server that is needed did not come in time; names it.
            AuthenticationError: a server has another token.
            ClusterError: a server has another manifest; names it.
        """
        patient = replace(self.limits, connect_seconds=self.deadline, call_seconds=self.deadline)
        known: dict[int, DescribeReply] = {}
        with ExitStack() as channels:
            waiting = {
                channels.enter_context(self.channel([server], limits=patient)).submit(DescribeRequest()): server
                for server in range(len(self.addresses))
            }
            lost: PeerLostError | None = None
            while waiting:
                enough = _hold_everything(known.values(), without)
                done, _ = wait(waiting, self.limits.attempt_seconds if enough else None, FIRST_COMPLETED)
                if not done:
                    break
                for future in done:
                    server = waiting.pop(future)
                    try:
                        known[server] = future.result()
                    except PeerLostError as error:
                        lost = error
        if lost is not None and not _hold_everything(known.values(), without):
            raise lost
        self._check_same(known, manifest)
        for server in set(range(len(self.addresses))) - set(known):
            address = self.addresses[server]
            print(f"halohop: going on without {address}, which does not answer: others have its partitions", file=sys.stderr)
        return dict(sorted(known.items()))

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

    def holders(
        self, known: dict[int, DescribeReply], book: Book, undo: ExitStack, *, without: tuple[int, ...] = ()
    ) -> list[Holder]:
        """Whom to ask about which partitions, except some; the channels are closed with `undo`.

        Raises:
            ClusterError: nobody serves a partition.
        """
        served = [known[server].parts if server in known else () for server in range(len(self.addresses))]
        found = [tuple(part for part in parts if part not in without) for parts in served]
        holders = []
        for ranked, parts in replicas([*found, without], book.num_parts).items():
            if ranked[0] < len(found):
                shard = RemoteShard(undo.enter_context(self.channel(ranked)))
                holders.append(Holder(shard=shard, parts=parts, remote=True, copies=len(ranked)))
        return holders


def _hold_everything(known: Collection[DescribeReply], without: tuple[int, ...]) -> bool:
    """Whether some servers, and whoever has the partitions `without`, have them all."""
    held = {part for about in known for part in about.parts} | set(without)
    return bool(known) and len(held) == max(about.num_parts for about in known)
