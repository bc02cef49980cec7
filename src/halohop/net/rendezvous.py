"""How the hosts of one run find each other: a small board that torch's TCPStore keeps.

Scripts that spawn their own ranks do not know which ranks share a host. So each rank reports the kernel's boot id, its network
namespace and its partitions, and ranks that agree in all are one host: two simulated hosts on one machine stay two. If a
process finds all partitions and no master address, it does not meet the others; a rank that lacks a partition then waits until
the deadline.
"""

import os
import socket
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

import msgspec
import torch.distributed as dist

from halohop.attempts import Board, name_meeting, this_process
from halohop.errors import ClusterError
from halohop.linux import boot_id, namespace, start_time
from halohop.store.given import other_columns
from halohop.transport.addresses import joined
from halohop.world import World

Card = TypeVar("Card")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCard:
    """What a host says of itself: where it answers, which data set it opened, its partitions, and the columns it was given."""

    address: str
    dataset: str
    parts: tuple[int, ...]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCard:
    """What a rank says of itself where it is not known which ranks share a host.

    Args:
        size: how many ranks it believes there are.
        machine: the same for all processes of a machine, or of a container with a network of its own.
        process: the same for no two processes of a machine.
        parts: the partitions that it holds.
    """

    size: int
    machine: str
    process: str
    parts: tuple[int, ...]


class Rendezvous:
    """One meeting of all ranks of a world around one graph.

    Args:
        board: shared by all ranks.
        world: this rank's place.
        deadline: seconds to wait for the others.

    Attributes:
        board: as given.
        prefix: of the names that this meeting uses on the board.
    """

    def __init__(self, board: Board, world: World, *, deadline: float) -> None:
        self.board = board
        self._world = world
        self._deadline = timedelta(seconds=deadline)
        with board_errors(board):
            self.prefix = name_meeting(board, "halohop", rank=world.rank, size=world.size, deadline=deadline)

    def announce(self, card: HostCard) -> None:
        """Announces this host to the others; called once per host, and again by a process that takes its place."""
        with board_errors(self.board):
            self.board.set(f"{self.prefix}/host/{self._world.host}", msgspec.json.encode(card).decode())

    def cards(self, mine: HostCard) -> list[HostCard]:
        """Every host's card, by host number.

        Args:
            mine: what this rank has opened; if it is not the one that announces, without an address.

        Raises:
            ClusterError: a host did not come in time, opened another data set, or was given other columns.
        """
        cards = [self._card(host) for host in range(self._world.num_hosts)]
        for host, card in enumerate(cards):
            if difference := other_columns(mine.columns, card.columns):
                raise ClusterError(f"host {host} ({card.address}) {difference}")
            if card.dataset != mine.dataset:
                raise ClusterError(
                    f"host {host} ({card.address}) opened another data set than host {self._world.host}; "
                    "copy the same partitioned folder's manifest to all hosts"
                )
        return cards

    def find_hosts(self, parts: tuple[int, ...]) -> World:
        """Which ranks share a host: those on one machine that hold the same partitions. This rank's place among them.

        Raises:
            ClusterError: a rank did not come in time, believes in another number of ranks, or is there twice.
        """
        mine = RankCard(size=self._world.size, machine=_this_machine(), process=this_process(), parts=parts)
        key = f"{self.prefix}/rank/{self._world.rank}"
        twice = f"two processes are rank {self._world.rank} of {mine.size}; give each process a rank of its own"
        with board_errors(self.board):
            before = msgspec.json.decode(self.board.get(key), type=RankCard) if self.board.check([key]) else mine
            if before.machine == mine.machine and before.process != mine.process and _is_running(before.process):
                raise ClusterError(twice)
            self.board.set(key, msgspec.json.encode(mine).decode())
        cards = [self._read(f"{self.prefix}/rank/{rank}", f"rank {rank} did not come", RankCard) for rank in range(mine.size)]
        if cards[self._world.rank].process != mine.process:
            raise ClusterError(twice)
        for rank, card in enumerate(cards):
            if card.size != mine.size:
                raise ClusterError(
                    f"rank {rank} was started as one of {card.size} ranks, and rank {self._world.rank} as one of {mine.size}; "
                    "give all the same world size"
                )
        self._all("found", wait=self._world.rank == 0)  # its process may keep the board, which others still read
        shared = [(card.machine, card.parts) for card in cards]
        hosts = list(dict.fromkeys(shared))
        here = [rank for rank, place in enumerate(shared) if place == shared[self._world.rank]]
        self._world = replace(
            self._world,
            host=hosts.index(shared[self._world.rank]),
            num_hosts=len(hosts),
            local_rank=here.index(self._world.rank),
            local_size=len(here),
        )
        return self._world

    def addresses(self) -> list[str]:
        """Where the hosts that have come, or what took their place, serve now; none where the board does not answer."""
        found = []
        for host in range(self._world.num_hosts):
            key = f"{self.prefix}/host/{host}"
            try:
                if self.board.check([key]):
                    found.append(msgspec.json.decode(self.board.get(key), type=HostCard).address)
            except RuntimeError:  # torch's errors about stores are such
                break
        return [address for address in found if address]

    def leave(self) -> None:
        """Says that this rank asks no more, and waits until no rank does, so that no rank loses a server it needs.

        Raises:
            ClusterError: a rank did not come in time, or the store is gone.
        """
        self._all("done")
        self._all("gone", wait=self._world.rank == 0)  # its process may be the one that keeps the board: it goes last

    def exchange(self, word: str, value: str = "", *, deadline: float | None = None) -> list[bytes]:
        """What every rank says under a word, by rank, after all have said it.

        Args:
            deadline: seconds to wait; None: those of the meeting.

        Raises:
            ClusterError: a rank did not come in time, or the store is gone.
        """
        self._say(word, value)
        keys = [f"{self.prefix}/{word}/{rank}" for rank in range(self._world.size)]
        self._wait(keys, "rank {} did not come", None if deadline is None else timedelta(seconds=deadline))
        with board_errors(self.board):
            return [self.board.get(key) for key in keys]

    def _all(self, word: str, *, wait: bool = True) -> None:
        """Says something, and waits until every rank has said it."""
        self._say(word)
        if wait:
            self._wait([f"{self.prefix}/{word}/{rank}" for rank in range(self._world.size)], "rank {} did not finish")

    def _say(self, word: str, value: str = "") -> None:
        with board_errors(self.board):
            self.board.set(f"{self.prefix}/{word}/{self._world.rank}", value)

    def _card(self, host: int) -> HostCard:
        return self._read(f"{self.prefix}/host/{host}", f"host {host} of {self._world.num_hosts} did not come", HostCard)

    def _read(self, key: str, complaint: str, kind: type[Card]) -> Card:
        self._wait([key], complaint)
        with board_errors(self.board):
            return msgspec.json.decode(self.board.get(key), type=kind)

    def _wait(self, keys: Iterable[str], complaint: str, deadline: timedelta | None = None) -> None:
        deadline = deadline or self._deadline
        for number, key in enumerate(keys):
            try:
                with board_errors(self.board):
                    self.board.wait([key], deadline)
            except (dist.DistStoreError, RuntimeError) as error:
                raise ClusterError(
                    f"{complaint.format(number)} within {deadline.total_seconds():g} s; was it started, and did it live?"
                ) from error


@contextmanager
def board_errors(board: Board) -> Iterator[None]:
    """Around a question to the board.

    Raises:
        ClusterError: the board is gone.
    """
    try:
        yield
    except dist.DistNetworkError as error:
        environment = (os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
        host, port = (getattr(board, name, known) for name, known in zip(("host", "port"), environment, strict=True))
        raise ClusterError(
            f"the store at {joined((host, port))} (kept by rank 0's process, or by what started it) is gone: "
            "it ended or was cut off"
        ) from error


def _is_running(process: str) -> bool:
    """Whether a process of this machine, as `this_process` named it, has not ended."""
    number, _, started = process.partition("-")
    return bool(started) and start_time(number) == started


def _this_machine() -> str:
    """The same for all processes that share memory and interfaces."""
    return f"{boot_id() or socket.gethostname()}-{namespace('net') or uuid.getnode()}"
