"""How servers introduce themselves to one that starts: who has which partitions, and who must be waited for."""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from halohop.cluster.connections import ServerCard
from halohop.cluster.holding import fingerprint
from halohop.errors import ClusterError, DeadlineExceededError, PeerLostError, TransportError
from halohop.net.directory import PeerDirectory
from halohop.net.known import Known
from halohop.net.messages import DescribeReply, DescribeRequest, MeetRequest
from halohop.net.places import Place, check_places
from halohop.store.given import given_names, other_columns
from halohop.store.manifest import decode
from halohop.transport import Channel

_LOG = logging.getLogger(__name__)
_LOOKS = 5
"""How often in the time of an attempt servers are asked which others they know."""
_MOMENT = 0.01
_MOST = 1024
"""Addresses that are asked."""


class Introductions:
    """Servers that are asked what they serve and which others they know, and their answers as they come; all at the same time.

    Once those that have answered hold every partition, the others get one attempt's time more, and then it goes without them:
    servers that stand in for each other need not all be there. As long as a partition is missing, the finder, and those that
    have answered, are asked for more, again and again until the deadline: the server that has it may still be starting.

    Args:
        directory: the servers, and the channels to them.
        attempt_seconds: as of `Limits`.
        deadline: seconds to wait.
        manifest: that all must have; None takes that of the first.
        without: partitions that need not be found.
        least: how many servers must come; they may have the same partitions.
        size: how many servers there are in all, where that is known: all that come are asked once which others they know, so
            that two of one number are found (`halohop.net.places`).
        me: the place of a server that looks for the others.
    """

    def __init__(
        self,
        directory: PeerDirectory,
        *,
        attempt_seconds: float,
        deadline: float,
        manifest: bytes | None = None,
        without: tuple[int, ...] = (),
        least: int = 1,
        size: int | None = None,
        me: Place | None = None,
    ) -> None:
        self._least, self._size, self._me = least, size, me
        self._directory = directory
        self._attempt_seconds = attempt_seconds
        self._deadline = deadline
        self._ends = time.monotonic() + deadline
        self._manifest = manifest
        self._without = without
        self._addresses: list[str] = []
        self._channels: list[Channel] = []
        self._about: dict[int, DescribeReply] = {}  # of those that have answered, by number
        self._same: set[int] = set()  # other addresses of those
        self._lost: dict[int, TransportError] = {}
        self._silent: set[int] = set()
        self._answers: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._looking: set[int] = set()  # those that are being asked which others they know

    def wait(self) -> list[Known]:
        """Until the servers that have come hold every partition.

        Raises:
            PeerLostError: a server that is needed did not come in time; names it, and what the others serve.
            AuthenticationError: a server has another token.
            ClusterError: a server has another manifest or other columns, or no server has a partition; names it.
            InputError: something that is no address.
        """
        try:
            self._wait()
        except BaseException:
            self._directory.give_back(self._channels)
            raise
        for number in sorted({*range(len(self._addresses))} - {*self._about} - self._same):
            self._directory.forget(self._addresses[number])
            _LOG.warning("going on without %s, which does not answer: others have its partitions", self._where(number))
        return [
            Known(
                address=self._addresses[number],
                channel=self._channels[number],
                parts=about.parts,
                name=about.server,
                lease_seconds=about.lease_seconds,
                card=ServerCard(
                    address=self._where(number),
                    number=about.number,
                    parts=about.parts,
                    clients=about.clients,
                    gpus=about.gpus,
                ),
            )
            for number, about in sorted(self._about.items())
        ]

    def _wait(self) -> None:
        self._find()
        while self._silent or not self._complete or (self._looking and self._size is not None):
            if not self._silent and self._seconds_left <= 0:
                self._fail()
            if not self._take(self._attempt_seconds / (1 if self._complete else _LOOKS)):
                if self._complete:
                    break
                self._look_further()
            self._check_same()

    @property
    def manifest(self) -> bytes:
        """Of the data set that all serve."""
        assert self._manifest is not None
        return self._manifest

    @property
    def dataset(self) -> str:
        return fingerprint(self.manifest)

    def unable(self) -> str | None:
        """Which of the servers cannot make batches, why, and what to do; None if all can."""
        for number, about in sorted(self._about.items()):
            if len(about.parts) < about.num_parts and not about.has_peers:
                return (
                    f"{self._named(number)} holds partitions {list(about.parts)} of {about.num_parts} and "
                    "knows no server that has the others, so it cannot make batches; start it with its peers' addresses "
                    "(--peers), or let the trainer sample (sampling='client', --sampling client)"
                )
        return None

    def _where(self, number: int) -> str:
        return self._channels[number].addresses[-1]

    def _named(self, number: int) -> str:
        return f"{self._channels[number].peer} at {self._where(number)}"

    @property
    def _seconds_left(self) -> float:
        return self._ends - time.monotonic()

    @property
    def _complete(self) -> bool:
        """Whether enough have answered, and they and the owner of the partitions `without` have them all."""
        return len(self._about) >= self._least and not self._missing

    @property
    def _missing(self) -> list[int]:
        """The partitions that are still to be found; empty as long as no server has answered."""
        held = {part for about in self._about.values() for part in about.parts} | set(self._without)
        return [part for part in range(max((about.num_parts for about in self._about.values()), default=0)) if part not in held]

    def _take(self, seconds: float) -> bool:
        """Takes in the next answer; false if none comes in time."""
        try:
            self._answers.get(timeout=max(min(seconds, self._seconds_left), _MOMENT))()
        except Empty:
            return False
        return True

    def _check_same(self) -> None:
        places = [Place(where=self._where(number), number=about.number, size=about.size) for number, about in self._about.items()]
        check_places([*places, *([] if self._me is None else [self._me])], size=self._size)
        for number, about in sorted(self._about.items()):
            self._manifest = about.manifest if self._manifest is None else self._manifest
            if about.manifest != self._manifest:
                mine, theirs = (
                    given_names(decode(one, "a manifest that a server sent")) for one in (self._manifest, about.manifest)
                )
                if difference := other_columns(mine, theirs):
                    raise ClusterError(f"{self._where(number)} {difference}")
                raise ClusterError(
                    f"{self._where(number)} serves another data set than the others; copy the same manifest to all servers"
                )

    def _find(self, addresses: Sequence[str] | None = None) -> None:
        for address in self._directory.addresses() if addresses is None else addresses:
            if address not in self._addresses and len(self._addresses) < _MOST:
                self._ask(address)

    def _look_further(self) -> None:
        """Asks those that have answered which others they know, such as servers that have only just come."""
        self._find()
        for number in set(self._about) - self._looking:
            self._look(number)

    def _fail(self) -> NoReturn:
        """
        Raises:
            PeerLostError, DeadlineExceededError, ClusterError: names the partitions that are missing, and who was asked.
        """
        cause = self._lost[min(self._lost)] if self._lost else None
        if self._about and not self._missing:
            come = [self._named(number) for number in sorted(self._about)]
            raise PeerLostError(
                f"{len(come)} of {self._least} servers have come within {self._deadline:g} s ({', '.join(come)}); "
                "start the others, or expect fewer servers"
            ) from cause
        if not self._about:
            finder = self._directory.finder
            raise cause or PeerLostError(
                f"{finder!r} found no server within {self._deadline:g} s; start the servers, or look elsewhere"
            )
        answers = [f"{self._named(number)} serves {list(about.parts)}" for number, about in sorted(self._about.items())]
        answers += [f"{self._named(number)} does not answer" for number in sorted(self._lost)]
        kind = ClusterError if cause is None else PeerLostError
        raise kind(
            f"partitions {self._missing} were found at no server within {self._deadline:g} s: {', '.join(answers)}; "
            "start a server that has them, and give its address"
        ) from cause

    def _ask(self, address: str) -> None:
        number = len(self._channels)
        self._addresses.append(address)
        # The number of a client is the user's, who listed the servers. Servers would count each other from different beginnings.
        self._channels.append(self._directory.channel(address, label=None if self._directory.serves else f"server {number}"))
        self._silent.add(number)
        asked = self._channels[number].submit(DescribeRequest(), seconds=max(self._seconds_left, _MOMENT))
        asked.add_done_callback(lambda done: self._answers.put(partial(self._described, number, done)))

    def _described(self, number: int, done: "Future[Any]") -> None:
        self._silent.discard(number)
        try:
            about: DescribeReply = done.result()
        except (PeerLostError, DeadlineExceededError) as error:
            self._lost[number] = error
            return
        if about.server in {other.server for other in self._about.values()}:
            self._same.add(number)
            return
        self._about[number] = about
        if about.number >= 0:
            self._channels[number].rename(f"server {about.number}")
        if not self._complete or self._size is not None:
            self._look(number)

    def _look(self, number: int) -> None:
        self._looking.add(number)
        asked = self._channels[number].submit(MeetRequest(), seconds=max(self._seconds_left, _MOMENT))
        asked.add_done_callback(lambda done: self._answers.put(partial(self._met, number, done)))

    def _met(self, number: int, done: "Future[Any]") -> None:
        self._looking.discard(number)
        others = done.result().addresses if done.exception() is None else ()  # one that does not answer is asked again
        if not self._complete or self._size is not None:
            self._find(self._directory.others(others))
