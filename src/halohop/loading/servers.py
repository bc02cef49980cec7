"""Some servers as seen from outside: what each says of itself, and whom to ask about what."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from halohop.cluster.remote import GRAPH_MESSAGES, DescribeReply, DescribeRequest, RemoteShard
from halohop.cluster.rendezvous import replicas
from halohop.cluster.router import Holder
from halohop.errors import ClusterError
from halohop.partitioning.book import Book
from halohop.sampling.remote import BatchReply, BatchRequest
from halohop.transport import Channel, Codec, Limits, Token, zeromq


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
        return zeromq.connect(*addresses, codec=server_codec(), token=self.token, peer=label, limits=limits or self.limits)

    def introductions(self) -> list[DescribeReply]:
        """What every server says of itself; all of them are waited for at the same time.

        Raises:
            PeerLostError: a server did not come in time; names it.
            AuthenticationError: a server has another token.
        """
        patient = replace(self.limits, connect_seconds=self.deadline, call_seconds=self.deadline)
        with ExitStack() as channels:
            asked = [
                channels.enter_context(self.channel([server], limits=patient)).submit(DescribeRequest())
                for server in range(len(self.addresses))
            ]
            return [future.result() for future in asked]

    def check_same(self, manifest: bytes, known: Iterable[DescribeReply]) -> None:
        """
        Raises:
            ClusterError: a server has another manifest; names it.
        """
        for address, about in zip(self.addresses, known, strict=True):
            if about.manifest != manifest:
                raise ClusterError(f"{address} serves another data set; copy the same folder's manifest to all servers")

    def holders(
        self, known: Sequence[DescribeReply], book: Book, undo: ExitStack, *, without: tuple[int, ...] = ()
    ) -> list[Holder]:
        """Whom to ask about which partitions, except some; the channels are closed with `undo`.

        Raises:
            ClusterError: nobody serves a partition.
        """
        found = [tuple(part for part in about.parts if part not in without) for about in known]
        holders = []
        for ranked, parts in replicas([*found, without], book.num_parts).items():
            if ranked[0] < len(found):
                shard = RemoteShard(undo.enter_context(self.channel(ranked)))
                holders.append(Holder(shard=shard, parts=parts, remote=True, copies=len(ranked)))
        return holders
