"""A job on Ray while it runs: its logs, its servers, and what is said when it fails."""

import threading
import time
from collections.abc import Sequence
from typing import Any

from halohop.errors import ClusterError, HalohopError
from halohop.launch.jobs.ray.output import Output
from halohop.launch.jobs.ray.registry import Member, RegistryClient, Report
from halohop.launch.jobs.ray.service import GraphService

_LOOK_S = 0.5
_QUIET_S = 1.0
"""What a process printed last comes so much later, or"""
_LAST_LINES_S = 5.0
"""on a busy cluster, so much."""


class Watch:
    """Waits for the trainers of a job.

    Args:
        name: of the job's registry.
        servers: of the job, if it has some.
        output: what its processes print.
    """

    def __init__(self, name: str, servers: GraphService | None, output: Output) -> None:
        self._client = RegistryClient(name)
        self._servers = servers
        self._output = output
        self._members: dict[tuple[str, int], Member] = {}
        self._ended = threading.Event()
        self._failure: BaseException | None = None

    def until_done(self, trainer: Any) -> None:
        """Runs a trainer of Ray Train to its end.

        Raises:
            HalohopError: it failed, or a server is gone for good; names the process and its host.
            WriteError: a log cannot be written.
        """
        # In a thread: Ray would answer Ctrl-C itself, and the command shall, with its exit code.
        threading.Thread(target=self._fit, args=(trainer,), name="halohop-ray-train", daemon=True).start()
        while not self._ended.wait(_LOOK_S):
            self._look()
            if self._servers is not None:
                self._servers.check()
        self._take_last_lines()
        if self._failure is not None:
            members = [*self._members.values()]
            raise first_failure(self._failure, self._client.reports(), members, self._output) from self._failure

    def _take_last_lines(self) -> None:
        pause, ends = threading.Event(), time.monotonic() + _LAST_LINES_S
        self._look()
        while not pause.wait(_QUIET_S) and self._look() and time.monotonic() < ends:
            continue

    def _fit(self, trainer: Any) -> None:
        try:
            trainer.fit()
        except BaseException as error:
            self._failure = error
        finally:
            self._ended.set()

    def _look(self) -> bool:
        """Whether processes have printed something since the last look."""
        for member in self._client.ask("members"):
            self._members[member.ip, member.pid] = member
        return self._output.write(self._members.values())


def first_failure(failure: BaseException, reports: Sequence[Report], members: Sequence[Member], output: Output) -> HalohopError:
    """The first failure of a job, with the process's name, its host and the end of its log.

    Args:
        failure: what Ray Train raised.
        reports: what processes said before they failed.
        members: those that have begun; of one name the last one counts.
        output: their logs.
    """
    if final := next((report for report in reports if report.is_final), None):
        return final.error()
    last = {member.name: member for member in members}
    said = {report.member for report in reports}
    for rank in getattr(failure, "worker_failures", {}):
        member = last.get(f"rank-{rank}")
        if member is not None and member not in said:  # it could not say so itself, and others lost their peer
            return ClusterError(f"{member.name} on {member.host} was killed, or its node is gone; {output.tail(member)}")
    if reports:
        return ClusterError(f"{reports[0].error()}; {output.tail(reports[0].member)}")
    return ClusterError(f"Ray Train failed: {failure}")
