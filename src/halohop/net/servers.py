"""Some servers as seen from outside: what each says of itself, and whom to ask about what."""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from halohop.cluster.holding import fingerprint
from halohop.errors import ClusterError, DeadlineExceededError, PeerLostError, TransportError
from halohop.net.remote import GRAPH_MESSAGES, DescribeReply, DescribeRequest, MeetReply, MeetRequest, Peer
from halohop.net.rendezvous import replicas
from halohop.partitioning.book import Book
from halohop.sampling.remote import BatchReply, BatchRequest
from halohop.store.given import given_names, other_columns
from halohop.store.manifest import decode
from halohop.transport import Channel, Codec, Identity, Limits, Token, connect
from halohop.transport.addresses import plain

_LOOKS = 5
"""How often in the time of an attempt servers are asked whom else they know."""
_MOMENT = 0.01


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

    def channel(self, ranked: Sequence[int], *, expected: Identity | None = None, limits: Limits | None = None) -> Channel:
        """To the first of some servers; the others stand in for it, in turn.

        Args:
            expected: what each of them must serve; None while it is not known: what the first one that answers serves.
        """
        return connect(
            *(self.addresses[server] for server in ranked),
            codec=server_codec(),
            token=self.token,
            peer=f"server {ranked[0]}",
            limits=limits or self.limits,
            expected=expected,
        )

    def introductions(
        self, *, manifest: bytes | None = None, without: tuple[int, ...] = ()
    ) -> "tuple[Servers, dict[int, DescribeReply]]":
        """What each server says of itself, by its number; all of them are waited for at the same time.

        Once those that have answered hold every partition, the others get one attempt's time more, and then it goes without them:
        servers that stand in for each other need not all be there. As long as a partition is missing, those that have answered
        are asked whom else they know, again and again until the deadline: who serves it may still be starting.

        Args:
            manifest: that all must have; None takes that of the first.
            without: partitions that nobody need have.

        Returns:
            These servers and, behind them, those that were learned of; and what those say that have answered.

        Raises:
            PeerLostError: a server that is needed did not come in time; names it, and what the others serve.
            AuthenticationError: a server has another token.
            ClusterError: a server has another manifest or other columns, or no server has a partition; names it.
        """
        with ExitStack() as stack:
            asked = _Asked(self, without, stack)
            while asked.silent or not asked.complete:
                if not asked.silent and asked.seconds_left <= 0:
                    asked.fail()
                if not asked.take(self.limits.attempt_seconds / (1 if asked.complete else _LOOKS)):
                    if asked.complete:
                        break
                    asked.look_further()
                asked.group._check_same(asked.known, manifest)
        for server in set(range(len(self.addresses))) - set(asked.known):
            address = self.addresses[server]
            print(f"halohop: going on without {address}, which does not answer: others have its partitions", file=sys.stderr)
        return asked.group, dict(sorted(asked.known.items()))

    def _check_same(self, known: dict[int, DescribeReply], manifest: bytes | None) -> None:
        for server, about in sorted(known.items()):
            manifest = about.manifest if manifest is None else manifest
            if about.manifest != manifest:
                mine, theirs = (given_names(decode(one, "a manifest that a server sent")) for one in (manifest, about.manifest))
                if difference := other_columns(mine, theirs):
                    raise ClusterError(f"{self.addresses[server]} {difference}")
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
        dataset = fingerprint(next(iter(known.values())).manifest)
        peers = []
        for ranked, parts in replicas([*found, without], book.num_parts).items():
            if ranked[0] < len(found):
                channel = self.channel(ranked, expected=Identity(dataset=dataset, parts=parts))
                peers.append(Peer(channel=undo.enter_context(channel), parts=parts, copies=len(ranked)))
        return peers


class _Asked:
    """Servers that are asked what they serve and whom else they know, and their answers as they come.

    Attributes:
        group: the servers, and behind them those that were learned of.
        known: what those say that have answered, by number.
        lost: why others did not answer.
        silent: of which neither is known yet.
    """

    def __init__(self, servers: Servers, without: tuple[int, ...], stack: ExitStack) -> None:
        self.group = servers
        self.known: dict[int, DescribeReply] = {}
        self.lost: dict[int, TransportError] = {}
        self.silent: set[int] = set()
        self._num_given = len(servers.addresses)
        self._without = without
        self._ends = time.monotonic() + servers.deadline
        self._stack = stack
        self._channels: list[Channel] = []
        self._answers: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._looking: set[int] = set()  # who is asked whom else it knows
        for server in range(self._num_given):
            self._ask(server)

    @property
    def seconds_left(self) -> float:
        return self._ends - time.monotonic()

    @property
    def complete(self) -> bool:
        """Whether those that have answered, and the owner of the partitions `without`, have them all."""
        return bool(self.known) and not self.missing

    @property
    def missing(self) -> list[int]:
        """The partitions that are still to be found; empty as long as no server has answered."""
        held = {part for about in self.known.values() for part in about.parts} | set(self._without)
        return [part for part in range(max((about.num_parts for about in self.known.values()), default=0)) if part not in held]

    def take(self, seconds: float) -> bool:
        """Takes in the next answer; false if none comes in time."""
        try:
            self._answers.get(timeout=max(min(seconds, self.seconds_left), _MOMENT))()
        except Empty:
            return False
        return True

    def look_further(self) -> None:
        """Asks those that have answered whom they know beside these, such as servers that have only just come."""
        for server in set(self.known) - self._looking:
            self._look(server)

    def fail(self) -> NoReturn:
        """
        Raises:
            PeerLostError, DeadlineExceededError, ClusterError: names the partitions that are missing, and who was asked.
        """
        cause = self.lost[min(self.lost)] if self.lost else None
        if cause is not None and not self.known:
            raise cause
        addresses = self.group.addresses
        answers = [
            f"server {server} at {addresses[server]} serves {list(about.parts)}" for server, about in sorted(self.known.items())
        ]
        answers += [f"server {server} at {addresses[server]} does not answer" for server in sorted(self.lost)]
        kind = ClusterError if cause is None else PeerLostError
        raise kind(
            f"partitions {self.missing} were found at no server within {self.group.deadline:g} s: {', '.join(answers)}; "
            "start a server that has them, and give its address"
        ) from cause

    def _ask(self, server: int) -> None:
        patience = max(self.seconds_left, _MOMENT)
        limits = replace(self.group.limits, connect_seconds=patience, call_seconds=patience)
        self._channels.append(self._stack.enter_context(self.group.channel([server], limits=limits)))
        self.silent.add(server)
        asked = self._channels[server].submit(DescribeRequest())
        asked.add_done_callback(lambda done: self._answers.put(partial(self._described, server, done)))

    def _described(self, server: int, done: "Future[Any]") -> None:
        self.silent.discard(server)
        try:
            about: DescribeReply = done.result()
        except (PeerLostError, DeadlineExceededError) as error:
            self.lost[server] = error
            return
        if server < self._num_given or about.server not in {other.server for other in self.known.values()}:
            self.known[server] = about
            if not self.complete:
                self._look(server)

    def _look(self, server: int) -> None:
        self._looking.add(server)
        asked = self._channels[server].submit(MeetRequest())
        asked.add_done_callback(lambda done: self._answers.put(partial(self._met, server, done)))

    def _met(self, server: int, done: "Future[Any]") -> None:
        self._looking.discard(server)
        others = done.result().addresses if done.exception() is None else ()  # one that does not answer is asked again
        for address in map(plain, others):
            if not self.complete and address not in map(plain, self.group.addresses):
                self.group = replace(self.group, addresses=(*self.group.addresses, address))
                self._ask(len(self._channels))
