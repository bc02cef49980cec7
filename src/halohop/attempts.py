"""Names for meetings of all ranks at a store, also if torchrun starts all ranks again and the store keeps what dead ranks wrote.

The environment of a rank says nothing that is new in each attempt and the same on all hosts: torchrun keeps its store and its
port, and TORCHELASTIC_RESTART_COUNT counts the failures of one host only. So the ranks agree. Each rank says hello with a name
of its own. Rank 0 offers a list of these names. If all ranks confirm the same list, that is the meeting: a dead rank confirms
nothing, and a rank that comes later gets another offer.
"""

import itertools
import os
import secrets
import time
from datetime import timedelta
from typing import Protocol

import msgspec
import torch.distributed as dist

from halohop.errors import ClusterError
from halohop.linux import start_time


class Board(Protocol):
    """The part of `torch.distributed.Store` that meeting needs."""

    def set(self, key: str, value: str, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def check(self, keys: list[str], /) -> bool: ...
    def add(self, key: str, amount: int, /) -> int: ...
    def wait(self, keys: list[str], timeout: timedelta, /) -> None: ...
    def compare_set(self, key: str, expected: str, value: str, /) -> bytes: ...


class _Said(msgspec.Struct, frozen=True):
    """What a rank says to rank 0: hello, or that it confirms the offer with this number."""

    rank: int
    name: str
    offer: int | None = None


class _Offer(msgspec.Struct, frozen=True):
    """What rank 0 says: the names of all ranks, and whether all of them have confirmed."""

    names: list[str]
    confirmed: bool = False


def this_process() -> str:
    """Not the number alone: in containers that is often the same after a restart."""
    return f"{os.getpid()}-{start_time('self')}"


def shares_store_of_agent() -> bool:
    """Whether torchrun has started this process, and keeps one store for all attempts."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def name_meeting(board: Board, kind: str, *, rank: int, size: int, deadline: float) -> str:
    """A prefix for the next meeting of a kind at a store. All ranks name their meetings in the same order.

    Args:
        board: shared by all ranks.
        kind: a word that other kinds of meetings do not begin with.
        rank, size: of this process.
        deadline: seconds to wait for the others.

    Raises:
        ClusterError: torchrun may have started the ranks again, and one did not come in time.
    """
    # The how-manyth meeting of this process. One that takes the place of a killed one counts anew, so it comes to the same ones.
    name = f"{kind}/{board.add(f'{kind}/opened/{rank}/{this_process()}', 1)}"
    if size == 1 or not shares_store_of_agent():
        return name
    own, end = secrets.token_hex(8), time.monotonic() + deadline
    agree = _Agreement(board, name, end=end, deadline=deadline)
    return f"{name}/{agree.lead(own, size) if rank == 0 else agree.follow(own, rank)}"


class _Agreement:
    """Two logs on a board: what ranks say, which only rank 0 reads, and what rank 0 offers."""

    def __init__(self, board: Board, name: str, *, end: float, deadline: float) -> None:
        self._board, self._said, self._offers = board, f"{name}/said", f"{name}/offers"
        self._end, self._deadline = end, deadline

    def lead(self, own: str, size: int) -> int:
        """What rank 0 does; returns the number of the confirmed offer."""
        past = {name for offer in self._past() for name in offer.names}
        names, confirmed, offered = {0: own}, {0}, -1
        for number in itertools.count():
            missing = next((rank for rank in range(size) if rank not in (confirmed if len(names) == size else names)), None)
            if missing is None:
                return self._append(self._offers, _Offer(names=_in_order(names), confirmed=True))
            said = msgspec.json.decode(self._read(self._said, number, missing), type=_Said)
            if said.name in past:  # of an attempt that has ended
                continue
            if said.offer is not None:
                confirmed |= {said.rank} if said.offer == offered else set()
                continue
            names[said.rank], confirmed = said.name, {0}
            if len(names) == size:
                offered = self._append(self._offers, _Offer(names=_in_order(names)))
        raise AssertionError

    def follow(self, own: str, rank: int) -> int:
        """What other ranks do; returns the number of the confirmed offer."""
        self._append(self._said, _Said(rank=rank, name=own))
        for number in itertools.count():
            offer = msgspec.json.decode(self._read(self._offers, number, 0), type=_Offer)
            if own not in offer.names:
                continue
            if offer.confirmed:
                return number
            self._append(self._said, _Said(rank=rank, name=own, offer=number))
        raise AssertionError

    def _past(self) -> list[_Offer]:
        found: list[_Offer] = []
        while self._board.check([key := f"{self._offers}/{len(found)}"]):
            found.append(msgspec.json.decode(self._board.get(key), type=_Offer))
        return found

    def _append(self, log: str, entry: msgspec.Struct) -> int:
        """Writes the next entry of a log, of which none is ever missing; returns its number."""
        text = msgspec.json.encode(entry).decode()
        number = self._board.add(f"{log}/length", 0)  # at most the length: a process may have died before it counted its entry
        while self._board.compare_set(f"{log}/{number}", "", text).decode() != text:
            number += 1
        self._board.add(f"{log}/length", 1)
        return number

    def _read(self, log: str, number: int, missing: int) -> bytes:
        """An entry of a log, once it is there.

        Raises:
            ClusterError: it did not come in time, because a rank did not.
        """
        key, left = f"{log}/{number}", max(self._end - time.monotonic(), 0.001)
        try:
            self._board.wait([key], timedelta(seconds=left))
        except dist.DistNetworkError:  # the board is gone
            raise
        except RuntimeError as error:
            raise ClusterError(
                f"rank {missing} did not come within {self._deadline:g} s; was it started, and did it live?"
            ) from error
        return self._board.get(key)


def _in_order(names: dict[int, str]) -> list[str]:
    return [names[rank] for rank in sorted(names)]
