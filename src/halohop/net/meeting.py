"""`halohop.hosts.meet`: processes that wait for each other and exchange small values, without a graph or a process group."""

import atexit
import itertools
import sys
from types import TracebackType
from typing import Any

import msgspec

from halohop.cluster.child_end import at_child_end
from halohop.errors import InputError
from halohop.net.board import join_board, master_of
from halohop.net.rendezvous import Rendezvous
from halohop.world import World


class Meeting:
    """All ranks of a world, as long as they stay; from `halohop.hosts.meet`. Use it as a context manager, or `close` it.

    Attributes:
        world: this rank's place among them.
    """

    def __init__(self, rendezvous: Rendezvous, world: World) -> None:
        self.world = world
        self._rendezvous = rendezvous
        self._rounds = itertools.count()
        self._closed = False
        atexit.register(self._close_at_exit)
        self._forget_child_end = at_child_end(self.shut)

    def barrier(self, *, deadline: float | None = None) -> None:
        """Waits until every rank has come to this point.

        Args:
            deadline: seconds to wait; None: those of the meeting.

        Raises:
            ClusterError: a rank did not come in time, or rank 0 has ended.
        """
        self._rendezvous.exchange(f"round/{next(self._rounds)}", deadline=deadline)

    def all_gather(self, value: Any, *, deadline: float | None = None) -> list[Any]:
        """What every rank gives, by rank; all ranks call it together.

        Args:
            value: what JSON has: numbers, text, None, and lists and dicts of these; tuples come back as lists.
            deadline: as of `barrier`.

        Raises:
            InputError: something else.
            ClusterError: a rank did not come in time, or rank 0 has ended.
        """
        try:
            sent = msgspec.json.encode(value).decode()
        except TypeError as error:
            raise InputError(
                f"{type(value).__name__} cannot be exchanged ({error}); give numbers, text, lists and dicts"
            ) from error
        given = self._rendezvous.exchange(f"round/{next(self._rounds)}", sent, deadline=deadline)
        return [msgspec.json.decode(one) for one in given]

    def close(self) -> None:
        """Leaves, after every rank has come to do so. Safe to call twice.

        Raises:
            ClusterError: a rank did not come in time.
        """
        self.shut(wait=True)

    def shut(self, *, wait: bool) -> None:
        """`close`, but without waiting for the others where `wait` is false: what to do after an error."""
        if not self._closed:
            self._closed = True
            atexit.unregister(self._close_at_exit)
            self._forget_child_end()
            if wait:
                self._rendezvous.leave()

    def _close_at_exit(self) -> None:
        self.shut(wait=not hasattr(sys, "last_value"))  # after an error, waiting would only delay the news

    def __enter__(self) -> "Meeting":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.shut(wait=error is None)


def meet(*, world: World | None = None, master: str | None = None, deadline: float = 60.0) -> Meeting:
    """Meets the other ranks of a world; public as `halohop.hosts.meet`.

    For what ranks must agree on before there is a graph or a process group: a barrier, and small values of each.

    Args:
        world: who takes part; None reads torchrun's environment.
        master: ``"HOST:PORT"`` where they meet, on the host of rank 0, which keeps a store of torch's there if no launcher or
            process group does; None takes MASTER_ADDR and MASTER_PORT.
        deadline: seconds to wait for the others, at each step.

    Raises:
        ClusterError: no store answers there, a rank did not come in time, two processes have one rank, or ranks were started with
            different world sizes.
        InputError: `master` is no address.

    Example:
        >>> import socket, halohop
        >>> with socket.create_server(("127.0.0.1", 0)) as free:
        ...     port = free.getsockname()[1]
        >>> with halohop.hosts.meet(world=halohop.World(), master=f"127.0.0.1:{port}") as meeting:
        ...     meeting.all_gather({"rank": meeting.world.rank})
        [{'rank': 0}]
    """
    world = world or World.from_env()
    rendezvous = Rendezvous(join_board(master_of(master), rank=world.rank, deadline=deadline), world, deadline=deadline)
    rendezvous.find_hosts(())
    return Meeting(rendezvous, world)
