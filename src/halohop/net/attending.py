"""A client's part in jobs: it says to its servers that it is there, takes a number, and reads their files of ids."""

import logging
import secrets
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace

from torch import Tensor

from halohop.cluster.connections import ServerCard
from halohop.errors import InputError, TransportError
from halohop.net.attendance import AttendReply, AttendRequest
from halohop.net.periodic import PeriodicThread
from halohop.net.seed_files import SeedsReply, SeedsRequest
from halohop.transport import Channel

_LOG = logging.getLogger(__name__)
_BEATS = 4
"""In a server's lease."""
_LEAVE_SECONDS = 1.0


class Attending:
    """One client of some servers.

    Args:
        servers: what each says of itself, and the channel to it; the one that is asked first at the beginning.
        home: to the server that gives out numbers: all clients of a job have the same.
    """

    def __init__(self, servers: Sequence[tuple[ServerCard, Channel]], *, home: Channel) -> None:
        self._servers = tuple(servers)
        self._channels = tuple(channel for _, channel in servers)
        self._home = home
        self._me = AttendRequest(client=secrets.token_hex(8))
        self._jobs: dict[str, AttendRequest] = {}
        self._lock = threading.Lock()
        self._thread: PeriodicThread | None = None
        self._seconds = 0.0
        self._said: list[Future[AttendReply]] = []  # not answered yet, for all we know

    def begin(self, lease_seconds: float) -> None:
        """From now on the servers hear that this client is there, often enough for their lease."""
        with self._lock:
            seconds = lease_seconds / _BEATS
            if self._thread is not None and self._seconds <= seconds:
                return
            before, self._seconds = self._thread, seconds
            self._thread = PeriodicThread(seconds, self._say, name="attending")
        if before is not None:
            before.close()
        self._say()

    def join(self, job: str, size: int, rank: int | None) -> int:
        """This client's number among those of a job.

        Raises:
            InputError: the server refuses it; says why.
            TransportError: the server is lost.
        """
        request = replace(self._me, job=job, size=size, rank=-1 if rank is None else rank)
        reply: AttendReply = self._home.submit(request).result()
        if reply.refusal:
            raise InputError(reply.refusal)
        self._jobs[job] = replace(request, rank=reply.rank)
        self.begin(reply.lease_seconds)
        self._say()  # also to those that give out no numbers
        return reply.rank

    def cards(self) -> tuple[ServerCard, ...]:
        """What the servers say of themselves, by their numbers."""
        return tuple(sorted((card for card, _ in self._servers), key=lambda card: card.number))

    def seed_file(self, file: str, *, server: int | None) -> Tensor:
        """The ids in a file of one server, or of the first that has it.

        Raises:
            InputError: none has it; says why.
            TransportError: a server is lost.
        """
        return self._seeds(SeedsRequest(file=file), server)

    def seed_split(self, name: str, node_type: str, *, server: int | None) -> Tensor:
        """The same of a split."""
        return self._seeds(SeedsRequest(split=name, node_type=node_type), server)

    def _seeds(self, request: SeedsRequest, server: int | None) -> Tensor:
        asked = [channel for card, channel in self._servers if server in (None, card.number)]
        refusals = []
        for channel in asked:
            reply: SeedsReply = channel.submit(request).result()
            if not reply.refusal:
                return reply.ids
            refusals.append(reply.refusal)
        raise InputError("; ".join(dict.fromkeys(refusals)))

    def close(self) -> None:
        """Says that this client leaves, to the servers that have heard that it is there. Safe to call twice."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.close()
        wait(self._said, timeout=_LEAVE_SECONDS)  # that it is there is heard before that it leaves
        there = [channel for channel in self._channels if channel.is_connected]
        leaving = [replace(request, leaves=True) for request in list(self._jobs.values()) or [self._me]]
        wait([channel.submit(request) for channel in there for request in leaving], timeout=_LEAVE_SECONDS)

    def _say(self) -> None:
        said = []
        for channel in self._channels:
            for request in list(self._jobs.values()) or [self._me]:
                with suppress(TransportError):  # a server that is not asked any more
                    said.append(channel.submit(request))
        for future in said:
            future.add_done_callback(_note_refusal)
        self._said = [*(future for future in self._said if not future.done()), *said]


def _note_refusal(done: "Future[AttendReply]") -> None:
    """This client was slower than the lease, and another one has its number: their steps are the same now."""
    if done.exception() is None and done.result().refusal:
        _LOG.warning("this client has lost its number in a job: %s", done.result().refusal)
