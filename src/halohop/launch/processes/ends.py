"""What the ends of a job's processes mean: the job continues, is done, may be resumed, or has failed.

Whoever reports the ends, a parent process or hosts over a network, the same job ends in the same way, with the same words.
"""

import logging
import signal
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from halohop.errors import ClusterError
from halohop.launch.processes.failures import Failure, failure
from halohop.launch.terminal.signals import EXIT_RESUMABLE, Resumable

_TERMINATED = {-signal.SIGTERM, 128 + signal.SIGTERM}
"""Exit codes of processes that have obeyed SIGTERM and saved nothing."""

SETTLE_S = 5.0
"""Seconds that the other processes have, after one failed, to say themselves what they saw."""

_LOG = logging.getLogger(__name__)
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A process of a job.

    Args:
        stays: it serves the others, and is ended when these have.
        spare: others do its work when it has ended, and the job continues.
    """

    stays: bool = False
    spare: bool = False


class Ends(Generic[Key]):
    """Takes the ends of processes, and knows how long to wait for more.

    Args:
        name: what messages call a process, by what identifies it.
        linger: seconds that the others may run on after the first has ended well; None: as long as they like.
        saves: whether a process that is asked to end saves, unless it has not begun to train.

    Attributes:
        codes: exit codes of those that have ended, as `subprocess` counts: negative for a signal.
        were_asked: whether processes have been asked to save where they stand. Then none has failed before all have ended.

    Example:
        >>> ends = Ends(name="process {}".format)
        >>> ends.begin(0, Member())
        >>> ends.begin(1, Member(stays=True))
        >>> ends.note(0, 0)
        >>> ends.is_over, ends.left()
        (True, None)
    """

    def __init__(self, *, name: Callable[[Key], str], linger: float | None = None, saves: bool = False) -> None:
        self._name, self._linger, self._saves = name, linger, saves
        self._members: dict[Key, Member] = {}
        self._failed: list[Key] = []
        self._deadline: float | None = None
        self._patience = 0.0
        self.codes: dict[Key, int] = {}
        self.were_asked = False

    def begin(self, key: Key, member: Member) -> None:
        """A process is started."""
        self._members[key] = member

    def ask(self, patience: float) -> None:
        """Processes are asked to save where they stand, and have so many seconds."""
        self.were_asked = True
        self._limit(patience)

    def note(self, key: Key, code: int) -> None:
        """A process has ended with this exit code."""
        member = self._members[key]
        self.codes[key] = code
        if code and member.spare:
            if not (self.is_over and self.has_trainers):
                _LOG.warning("%s has ended (%d); others stand in for it", self._name(key), code)
            return
        if code and not (member.stays and self.were_asked):  # whatever ends the others may end those that serve them
            self._failed.append(key)
        if self.were_asked:
            return
        if code not in (0, EXIT_RESUMABLE):
            if (left := self.left()) is None or left > SETTLE_S:
                self._limit(SETTLE_S)
        elif self._deadline is None and not member.stays and self._linger is not None:
            self._limit(self._linger)

    @property
    def is_over(self) -> bool:
        """Whether all have ended but those that stay."""
        return all(key in self.codes for key, member in self._members.items() if not member.stays)

    @property
    def has_trainers(self) -> bool:
        """Whether a process has begun that serves no others."""
        return not all(member.stays for member in self._members.values())

    @property
    def has_failed(self) -> bool:
        """Whether a process that is not spare has ended and left no state to resume from."""
        return not self.were_asked and any(self.codes[key] != EXIT_RESUMABLE for key in self._failed)

    @property
    def may_resume(self) -> bool:
        """Whether some of those that do not stay have left a state to resume from, and all others have ended well.

        If they were asked to save, one state is enough, as the others may have lost a peer that had saved; or none had begun.
        """
        codes = {self.codes.get(key) for key, member in self._members.items() if not member.stays}
        if self.were_asked:
            return EXIT_RESUMABLE in codes or (self._saves and bool(codes & _TERMINATED) and codes <= {0, *_TERMINATED})
        return EXIT_RESUMABLE in codes and codes <= {0, EXIT_RESUMABLE}

    def _limit(self, seconds: float) -> None:
        self._patience, self._deadline = seconds, time.monotonic() + seconds

    def left(self) -> float | None:
        """Seconds to wait for more; None: as long as it takes."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0)

    def running(self, *, staying: bool = True) -> list[str]:
        """Names of the processes that have not ended.

        Args:
            staying: those that stay, too.
        """
        return [self._name(key) for key in self.keys_running(staying=staying)]

    def keys_running(self, *, staying: bool = True) -> list[Key]:
        """As `running`, by what identifies them."""
        return [key for key, member in self._members.items() if key not in self.codes and (staying or not member.stays)]

    def judge(self, failed: Callable[[Key], Failure], *, logs: object) -> None:
        """Returns if the job is done.

        Args:
            failed: the failure of a process that ended badly.
            logs: folder, for the message.

        Raises:
            Resumable: as of `may_resume`.
            HalohopError: as of `failure`, or processes run on after their time.
        """
        if self.may_resume and not self.has_failed:
            raise Resumable
        if self._failed:
            raise failure([failed(key) for key in self._failed], ended=self.running())
        if self._deadline is not None and (late := self.running(staying=False)):
            cause = "they were asked to" if self.were_asked else "the others had"
            raise ClusterError(f"{', '.join(late)} did not end within {self._patience:g} s after {cause}; see {logs}")
