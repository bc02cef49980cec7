"""What a listener has taken in: a client's request, and how long others of its type took."""

import math
from dataclasses import dataclass

from halohop.transport.handshake import Session
from halohop.transport.wire import Frames, Peer

_QUICK_SECONDS = 1e-4  # what it takes, about, to hand a request to another thread
_SMALL_BYTES = 2**12  # of a request
_LATEST = 0.2  # weight of the latest request in how long those of its type take


class Client:
    """An authenticated peer: its session, and which of its requests are being answered."""

    __slots__ = ("in_flight", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.in_flight: set[int] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request that was taken in."""

    peer: Peer
    client: Client
    number: int
    kind: type | None
    frames: Frames
    size: int
    until: float
    waits: bool


class Paces:
    """How long small requests of each type took lately. What a large one takes says nothing about others."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds: dict[type | None, float] = {}

    def note(self, job: Job, seconds: float) -> None:
        if job.size <= _SMALL_BYTES:
            before = self._seconds.get(job.kind, seconds)
            self._seconds[job.kind] = before + _LATEST * (seconds - before)

    def is_quick(self, job: Job) -> bool:
        return job.size <= _SMALL_BYTES and self._seconds.get(job.kind, math.inf) <= _QUICK_SECONDS
