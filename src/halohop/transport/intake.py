"""What a listener has taken in and not finished, and how much of it there may be."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace

from halohop.transport.base import Limits
from halohop.transport.fair import FairQueue
from halohop.transport.handshake import Session
from halohop.transport.server_port import ServerPort
from halohop.transport.wire import Frames, Peer


class Client:
    """An authenticated peer: its session, and which of its requests are being answered."""

    __slots__ = ("in_flight", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.in_flight: set[int] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request that was taken in.

    Args:
        until: the client's deadline, on the monotonic clock; after it the request need not be answered.
        waits: whether answering it may mean to wait for other servers.
    """

    peer: Peer
    client: Client
    number: int
    frames: Frames
    size: int
    until: float
    waits: bool


class Intake:
    """The requests of all clients, in turn, in two queues: those that wait for other servers, and the rest.

    A client that leaves too many replies unread (`ServerPort.is_full`) is held: its requests stay where they are, and are not
    counted, so that other clients are served as if it were not there. Its port reads no more of it, so they are no more than had
    arrived.
    """

    def __init__(self, port: ServerPort, limits: Limits) -> None:
        self._port = port
        self._limits = limits
        self._queues: dict[bool, FairQueue[Job]] = {False: FairQueue(), True: FairQueue()}
        self._lock = threading.Lock()  # over what follows
        self._held: set[Peer] = set()
        self._count = {False: 0, True: 0}  # by whether they wait for other servers; without those of clients that are held
        self._bytes = 0  # of those that do not
        self._num_held = 0
        self._num_deferred = 0

    @property
    def busy(self) -> bool:
        """Requests that wait for other servers do not count: what those ask here would be left on the wire, and wait for ever.
        Nor do those whose reply is promised: they may wait for requests of other clients."""
        return self._count[False] >= self._limits.max_in_flight or self._bytes >= self._limits.max_in_flight_bytes

    @property
    def in_flight(self) -> int:
        """How many requests there are, those of clients that are held, and those whose reply is promised, included."""
        return sum(self._count.values()) + self._num_held + self._num_deferred

    def take(self, job: Job) -> bool:
        """Takes in a request; False if the client is waiting for the answer to this very one."""
        with self._lock:
            if job.number in job.client.in_flight:
                return False
            job.client.in_flight.add(job.number)
            if job.peer in self._held:
                self._num_held += 1
            else:
                self._add([job], 1)
            self._queues[job.waits].put(job.peer, job)
        return True

    def next(self, *, waits: bool) -> Job | None:
        """The next request to answer; waits for one. None once this is closed."""
        return self._queues[waits].get()

    def defer(self, job: Job) -> Job:
        """The handler has promised the reply; returns the request without its contents, to be finished when that is there."""
        with self._lock:
            was_busy = self.busy
            self._add([job], -1)
            self._num_deferred += 1
            self._wake(was_busy)
        return replace(job, frames=())

    def finish(self, job: Job, *, deferred: bool = False) -> None:
        """A request was answered, and the port has the reply."""
        with self._lock:
            was_busy = self.busy
            if deferred:
                self._num_deferred -= 1
            else:
                self._add([job], -1)
            job.client.in_flight.discard(job.number)
            self._look_at(job.peer)
            self._wake(was_busy)

    def look_at(self, peer: Peer) -> None:
        """Holds a client, or releases it: some of its replies were sent."""
        with self._lock:
            self._look_at(peer)

    def look_again(self) -> None:
        """Releases clients that need not be held any more: one is gone, and the replies that it left unread counted for all."""
        with self._lock:
            for peer in list(self._held):
                self._look_at(peer)

    def close(self) -> None:
        """Ends all waits."""
        for queue in self._queues.values():
            queue.close()

    def _wake(self, was_busy: bool) -> None:
        if was_busy and not self.busy:
            self._port.wake()

    def _look_at(self, peer: Peer) -> None:
        full = self._port.is_full(peer)
        if full == (peer in self._held):
            return
        sign = -1 if full else 1
        (self._held.add if full else self._held.remove)(peer)
        for queue in self._queues.values():
            jobs = queue.hold(peer) if full else queue.release(peer)
            self._add(jobs, sign)
            self._num_held -= sign * len(jobs)

    def _add(self, jobs: Iterable[Job], sign: int) -> None:
        for job in jobs:
            self._count[job.waits] += sign
            self._bytes += 0 if job.waits else sign * job.size
