"""The clients of a server: who is there, under which number of which job, and when all have left."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from halohop.errors import InputError
from halohop.store.requests import Name, Ranks, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendReply:
    """What a server answers to a client that says it is there.

    Args:
        rank: its number in the job; -1 without one.
        refusal: why it has none; empty where it is not refused.
        lease_seconds: after which the client counts as lost, unless it says again that it is there.
    """

    rank: int = -1
    refusal: str = ""
    lease_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendRequest(Request[AttendReply]):
    """Says that a client is there.

    Args:
        client: a name that no other client has.
        job: the job that it takes part in; empty for none.
        size: how many clients the job has.
        rank: the client's number among them; -1 takes a free one.
        leaves: it asks for nothing more.
    """

    client: Name
    job: Name = ""
    size: Ranks = 0
    rank: int = -1
    leaves: bool = False


_MOST_CLIENTS, _MOST_JOBS = 16_384, 1_024
"""That a server numbers and counts at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    size: int
    clients: dict[int, str] = field(default_factory=dict)  # by number
    taken: set[int] = field(default_factory=set)  # numbers that were taken, and perhaps left again


Expected = int | Literal["jobs"] | None
"""How many clients come to a server: so many; as many as one of the jobs has that they join; or it is not known."""


class Attendance:
    """The clients of a server, as long as they are heard of, and their numbers in the jobs that they share.

    A client that was not heard of for a lease is lost, and its number is free for another one. A job is
    forgotten with its last client, unless the server waits for a job. What is kept here can be lost with the server: clients say
    their numbers again with every request.

    Args:
        lease_seconds: see above.
        expected: how many clients will come; "jobs": those of a job; None: it is not known.

    Attributes:
        over: is set when all expected clients have come, and none is there any more.

    Raises:
        InputError: a number below 1.

    Example:
        >>> attendance = Attendance(lease_seconds=60.0, expected=1)
        >>> attendance.answer(AttendRequest(client="a", job="papers", size=2)).rank
        0
        >>> attendance.answer(AttendRequest(client="a", leaves=True)).rank, attendance.over.is_set()
        (-1, True)
    """

    def __init__(self, *, lease_seconds: float, expected: Expected = None, clock: Callable[[], float] = time.monotonic) -> None:
        if expected not in (None, "jobs") and (isinstance(expected, str) or expected < 1):
            raise InputError(
                f"clients={expected!r}; a server expects at least one, 'jobs', or None, for which it never ends by itself"
            )
        self.over = threading.Event()
        self._lease, self._expected, self._clock = lease_seconds, expected, clock
        self._lock = threading.Lock()
        self._come: set[str] = set()  # of the expected number of clients
        self._heard: dict[str, float] = {}
        self._jobs: dict[str, _Job] = {}
        self._complete = False  # a job has had all of its clients

    def __len__(self) -> int:
        """How many clients are there."""
        return len(self._heard)

    def answer(self, request: AttendRequest) -> AttendReply:
        """Notes that a client is there, or leaves.

        Raises:
            InputError: too many clients or jobs are there.
        """
        with self._lock:
            self._forget_lost()
            if isinstance(self._expected, int) and len(self._come) < self._expected:
                self._come.add(request.client)  # also one that leaves a server that was started again meanwhile
            if request.leaves:
                if self._waits_for_job and request.job and 0 <= request.rank < request.size:
                    self._take(self._job(request), request.rank)
                self._forget(request.client)
                self._look()
                return AttendReply(lease_seconds=self._lease)
            if request.client not in self._heard and len(self._heard) >= _MOST_CLIENTS:
                raise InputError(f"this server has {_MOST_CLIENTS} clients, the most that it counts; close some first")
            self._heard[request.client] = self._clock()
            rank, refusal = self._place(request) if request.job else (-1, "")
            return AttendReply(rank=rank, refusal=refusal, lease_seconds=self._lease)

    def sweep(self) -> None:
        """Forgets the clients that are lost."""
        with self._lock:
            self._forget_lost()
            self._look()

    def _place(self, request: AttendRequest) -> tuple[int, str]:
        job = self._job(request)
        named = f"job {request.job!r}"
        if job.size != request.size:
            return -1, f"{named} has {job.size} clients, but this one says {request.size}; give all clients of a job one number"
        mine = next((rank for rank, client in job.clients.items() if client == request.client), -1)
        wanted = mine if request.rank < 0 else request.rank
        if wanted < 0:
            wanted = next((rank for rank in range(job.size) if rank not in job.clients), -1)
        if wanted < 0:
            return -1, f"{named} has its {job.size} clients; raise their number, or wait until one has left"
        if wanted >= job.size:
            return -1, f"rank={wanted} of {named} is outside 0..{job.size - 1}; leave it out, and get a free one"
        if job.clients.get(wanted, request.client) != request.client or mine not in (-1, wanted):
            return -1, f"rank={wanted} of {named} is another client's, which is there; leave it out, and get a free one"
        job.clients[wanted] = request.client
        self._take(job, wanted)
        return wanted, ""

    def _job(self, request: AttendRequest) -> _Job:
        """The job that a request names: one that is there, or a new one. One that all have left may begin with another size."""
        job = self._jobs.get(request.job)
        if job is None and len(self._jobs) >= _MOST_JOBS:
            idle = next((name for name, job in self._jobs.items() if not job.clients), None)
            if idle is None:
                raise InputError(f"this server has {_MOST_JOBS} jobs, the most that it numbers; end some first")
            del self._jobs[idle]
        if job is None or (not job.clients and job.size != request.size):
            job = self._jobs[request.job] = _Job(size=request.size)
        return job

    def _take(self, job: _Job, rank: int) -> None:
        job.taken.add(rank)
        self._complete |= len(job.taken) >= job.size

    def _forget_lost(self) -> None:
        ended = self._clock() - self._lease
        for client in [client for client, heard in self._heard.items() if heard <= ended]:
            self._forget(client)

    def _forget(self, client: str) -> None:
        self._heard.pop(client, None)
        for name, job in list(self._jobs.items()):
            for rank in [rank for rank, other in job.clients.items() if other == client]:
                del job.clients[rank]
            if not job.clients and not self._waits_for_job:
                del self._jobs[name]

    @property
    def _waits_for_job(self) -> bool:
        return self._expected == "jobs" and not self._complete

    def _look(self) -> None:
        have_come = self._complete if isinstance(self._expected, str) else len(self._come) >= (self._expected or math.inf)
        if have_come and not self._heard:
            self.over.set()
