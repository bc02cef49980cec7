"""A job on Ray while it runs: its logs, its servers, and what is said when it fails."""

import threading
import time
from typing import Any

from halohop.errors import ClusterError, HalohopError
from halohop.launch.jobs.ray.library import ray_library
from halohop.launch.jobs.ray.output import Output
from halohop.launch.jobs.ray.registry import Member, RegistryClient
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
            raise self._told(self._failure) from self._failure

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

    def _told(self, failure: BaseException) -> HalohopError:
        """The first failure, with the process's name, host and the end of its log."""
        reports = sorted(self._client.reports(), key=lambda report: not report.is_final)
        if reports and reports[0].is_final:
            return reports[0].error()
        lost = [(rank, error) for rank, error in getattr(failure, "worker_failures", {}).items() if _is_lost(error)]
        if lost:
            rank, error = lost[0]
            member = self._last(f"rank-{rank}")
            if member is None:
                return ClusterError(f"rank-{rank} is gone: {error}")
            return ClusterError(f"{member.name} on {member.host} was killed, or its node is gone; {self._output.tail(member)}")
        if reports:
            return ClusterError(f"{reports[0].error()}; {self._output.tail(reports[0].member)}")
        return ClusterError(f"Ray Train failed: {failure}")

    def _last(self, name: str) -> Member | None:
        return next((member for member in reversed(self._members.values()) if member.name == name), None)


def _is_lost(error: BaseException) -> bool:
    """Whether a worker did not raise the error itself."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ray_library().exceptions.RayActorError):
            return True
        cause = cause.__cause__
    return False
