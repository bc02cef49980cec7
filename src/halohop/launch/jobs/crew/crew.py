"""The runners of all hosts of a job, which do the same thing at the same time."""

import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from platform import python_version
from types import TracebackType
from typing import Any, Self, TypeVar

from halohop import __version__
from halohop.errors import ClusterError, HalohopError, InputError, ProtocolError
from halohop.launch.jobs.crew.remote import News, Remote
from halohop.launch.jobs.crew.way import Host, Way
from halohop.launch.jobs.host.channel import BEAT_S
from halohop.launch.jobs.host.messages import Hello

STUCK_S = 180.0
"""Seconds after which a host that lives, but gets on with nothing, is taken for one that never will; it notices itself after 120
that its storage hangs, unless that holds more than a thread."""
END_S = 8.0
"""Seconds that hosts have to end everything; they take 3 to ask, and then kill."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """A host has done what all do, or failed."""

    host: str
    result: Any = None
    error: BaseException | None = None


class Crew:
    """The hosts of a job; use it as a context manager, which ends everything on all of them.

    Args:
        hosts: their names differ.
        way: to them.

    Attributes:
        remotes: by the hosts' names.
        news: what processes print, their ends, and hosts that are lost.
    """

    def __init__(self, hosts: Sequence[Host], way: Way) -> None:
        self.news: News = queue.SimpleQueue()
        self.remotes = {host.name: Remote(host, way, self.news) for host in hosts}
        self._way = way
        self._threads: list[threading.Thread] = []
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            for remote in self.remotes.values():
                undo.enter_context(remote)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        deadline = time.monotonic() + END_S
        for remote in self.remotes.values():
            remote.end()
        for remote in self.remotes.values():
            remote.wait(max(deadline - time.monotonic(), 0))
        for thread in self._threads:
            thread.join(1)
        self._undo.close()

    @property
    def lost(self) -> list[str]:
        """The hosts that do not answer any more, or never did."""
        return [name for name, remote in self.remotes.items() if remote.is_lost]

    def meet(self) -> dict[str, Hello]:
        """Waits until all have said who they are, and compares them.

        Returns:
            What they said, by the hosts' names.

        Raises:
            InputError: one is not reached, has other versions than this machine, or is another one under a second name.
        """
        hellos = self.together(lambda remote: _compared(remote.hello(), remote.host), patience=self._way.patience)
        machines: dict[str, str] = {}
        for host, hello in hellos.items():
            if not self.remotes[host].host.target:
                continue  # a scheduler has chosen it
            if (other := machines.setdefault(hello.machine, host)) != host:
                raise InputError(
                    f"hosts {other} and {host} are one machine; name each once, and say trainers = 2 for more processes on it"
                )
        return hellos

    def together(self, work: Callable[[Remote], Result], *, patience: float = 0.0) -> dict[str, Result]:
        """Does something for all hosts, in a thread each.

        Args:
            work: what.
            patience: seconds that the others have after one has failed, so that an error names all that do.

        Returns:
            What came of it, by the hosts' names.

        Raises:
            ClusterError, InputError: names the hosts that failed, or are stuck.
        """
        done: queue.SimpleQueue[_Done] = queue.SimpleQueue()
        for remote in self.remotes.values():
            thread = threading.Thread(target=_do, args=(work, remote, done), name=f"halohop-{remote.host.name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        found: dict[str, _Done] = {}
        deadline = math.inf
        while len(found) < len(self.remotes) and time.monotonic() <= deadline:
            for one in self._news_of(done, min(deadline - time.monotonic(), BEAT_S)):
                found.setdefault(one.host, one)
                if one.error is not None:
                    deadline = min(deadline, time.monotonic() + patience)
        failed = {host: found[host].error for host in self.remotes if host in found and found[host].error is not None}
        if failed:
            raise _joined(failed, len(self.remotes))
        return {host: found[host].result for host in self.remotes}

    def _news_of(self, done: "queue.SimpleQueue[_Done]", seconds: float) -> list[_Done]:
        """The next host that is done; if there is none in so many seconds, those that are stuck."""
        try:
            return [done.get(timeout=max(seconds, 0))]
        except queue.Empty:
            stuck = f"is connected, but has made no progress for {STUCK_S:g} s; check its storage"
            late = [host for host, remote in self.remotes.items() if remote.idle_s > STUCK_S]
            return [_Done(host=host, error=ClusterError(stuck)) for host in late]


def _do(work: Callable[[Remote], object], remote: Remote, done: "queue.SimpleQueue[_Done]") -> None:
    try:
        done.put(_Done(host=remote.host.name, result=work(remote)))
    except BaseException as error:
        done.put(_Done(host=remote.host.name, error=error))


def _joined(failed: dict[str, BaseException | None], count: int) -> BaseException:
    """One error for those of several hosts."""
    for error in failed.values():
        if not isinstance(error, ClusterError | InputError | ProtocolError):
            assert error is not None
            return error  # of this machine
    kind: type[HalohopError] = InputError if all(isinstance(error, InputError) for error in failed.values()) else ClusterError
    if len(failed) == 1:
        return kind("".join(f"host {host} {error}" for host, error in failed.items()))
    lines = "".join(f"\n  {host} {error}" for host, error in failed.items())
    return kind(f"{len(failed)} of {count} hosts cannot run this job:{lines}")


def _compared(hello: Hello, host: Host) -> Hello:
    """Refuses a host that would compute otherwise, or not understand us."""
    ours = {"Python": python_version(), "torch": version("torch"), "halohop": __version__}
    theirs = {"Python": hello.python, "torch": hello.torch, "halohop": hello.halohop}
    for name, own in ours.items():
        if not theirs[name]:
            raise InputError(f"has no {name} for {hello.executable}; install version {own} there, as here")
        if _short(name, own) != _short(name, theirs[name]):
            raise InputError(
                f"has {name} {theirs[name]} ({hello.executable}), but this machine has {own}; install the same there, or name "
                f"an interpreter that has it ({host.python_key})"
            )
    return hello


def _short(name: str, text: str) -> str:
    """What must be equal of a version: of Python its first two numbers; of torch not what it was built for.

    Example:
        >>> _short("Python", "3.12.4"), _short("torch", "2.8.0+cpu")
        ('3.12', '2.8.0')
    """
    return text.rpartition(".")[0] if name == "Python" else text.partition("+")[0]
