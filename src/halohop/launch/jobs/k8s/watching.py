"""A job on the cluster until it has ended: what keeps pods from starting, what they print, and which one failed first."""

import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halohop.errors import ClusterError, HalohopError, InputError
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.k8s.kubectl import Kubectl
from halohop.launch.jobs.k8s.options import Options
from halohop.launch.jobs.k8s.pod_logs import PodLogs
from halohop.launch.jobs.k8s.pods import Pod, pod_of
from halohop.launch.jobs.k8s.submitting import UnansweredError, hints
from halohop.launch.jobs.last_message import last_message
from halohop.launch.processes.failures import Failure, failure
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.logs import is_verbose
from halohop.launch.terminal.refusal import JobFailedError
from halohop.launch.terminal.wording import counted
from halohop.recipes.stopping import EXIT_RESUMABLE

_ASKED_TO_END = (EXIT_RESUMABLE, -15)
_SAID = (1, 2)
"""Exit codes of `pod.main`, which has printed why."""
_HOPELESS = ("Image", "ErrImage", "InvalidImage", "CreateContainer", "RunContainer")
_CRASHES = 3
"""So often a server may fail before it has served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a launcher waits, in seconds.

    Args:
        every: between two looks.
        stuck: for a pod whose image or configuration Kubernetes cannot use.
        silent: for an API server that does not answer.
    """

    every: float = 2.0
    stuck: float = 30.0
    silent: float = 300.0


class Watch:
    """Follows one job.

    Args:
        kubectl: asks the cluster.
        job: what was asked for.
        uid: of the Job.
        options: the table [k8s].
        logs: folder for the logs of pods.
        console: gets what rank 0 prints, and what becomes of the job.
        patience: with the cluster.
    """

    def __init__(
        self, kubectl: Kubectl, job: Job, uid: str, options: Options, logs: Path, console: Console, patience: Patience
    ) -> None:
        self._kubectl, self._job, self._uid, self._console, self._patience = kubectl, job, uid, console, patience
        self._selector = f"--selector=app.kubernetes.io/name=halohop,app.kubernetes.io/instance={job.name}"
        self._logs = PodLogs(kubectl, logs, self._show, console.print)
        self._start_seconds, self._begun = options.start_seconds, time.monotonic()
        self._have_started = False
        self._since: dict[tuple[str, str], float] = {}  # when an obstacle of a pod was first seen
        self._noted: set[str] = set()  # uids of pods that failed

    def until_done(self) -> None:
        """Returns when the job has succeeded.

        Raises:
            InputError: pods cannot start as they are asked for.
            ClusterError: pods did not start in time, or a server fails each time.
            UnansweredError: the API server has not answered for minutes.
            JobFailedError: the job failed, or was deleted by others.
        """
        pause = threading.Event()  # is never set
        try:
            while not self._has_ended(self._look(pause)):
                pause.wait(self._patience.every)
            self._logs.finish()
        finally:
            self._logs.close()

    def _look(self, pause: threading.Event) -> list[Any]:
        """The Job and all pods, once the API server answers."""
        begun = time.monotonic()
        while True:
            try:
                found: list[Any] = json.loads(self._kubectl("get", "jobs,pods", self._selector, "--output=json"))["items"]
                return found
            except HalohopError as error:
                if (silent := time.monotonic() - begun) > self._patience.silent:
                    said = f"job {self._job.name} goes on, but the cluster has not answered for {silent:.0f} s: {error}"
                    raise UnansweredError(f"{said}\n{hints(self._kubectl, self._job)}") from error
            pause.wait(self._patience.every)

    def _has_ended(self, found: list[Any]) -> bool:
        """Whether the job has succeeded; raises if it failed."""
        job = next((each for each in found if each["metadata"]["uid"] == self._uid), None)
        if job is None:
            raise JobFailedError(f"job {self._job.name} was deleted", exit_code=1)
        pods = [pod_of(each) for each in found if each["kind"] == "Pod"]
        trainers = [pod for pod in pods if pod.owner == self._uid]
        servers = [pod for pod in pods if pod.process.startswith("server") and not pod.leaving]
        for pod in (*servers, *trainers):
            self._logs.follow(pod)
        ends = {each["type"]: each for each in job["status"].get("conditions", ()) if each["status"] == "True"}
        if "Failed" in ends:
            self._logs.finish()
            raise self._failure(ends["Failed"], trainers)
        for pod in trainers if "FailureTarget" not in ends else ():
            self._note(pod)
        if "Complete" in ends:
            return True
        self._check_start([pod for pod in (*servers, *trainers) if not pod.leaving], job["spec"]["completions"])
        return False

    def _note(self, pod: Pod) -> None:
        """Says once how a pod of trainers failed."""
        if pod.phase == "Failed" and pod.uid not in self._noted:
            self._noted.add(pod.uid)
            failed = self._failed(pod)
            self._console.print(f"{failed.name} ended with exit code {failed.code}; see {failed.log}", soft_wrap=True)

    def _failed(self, pod: Pod) -> Failure:
        at = pod.culprit
        why = pod.reason or (at.reason if at is not None and at.reason != "Error" else "")
        name = f"{pod.process} on {pod.name}" + (f" ({why}{f': {pod.message}' if pod.message else ''})" if why else "")
        log = self._logs.file(pod, "trainers" if at is None else at.name)
        return Failure(name=name, code=1 if at is None else at.code, log=log, error=None)

    def _failure(self, end: Any, trainers: list[Pod]) -> JobFailedError:
        """What to raise for a Job that has failed: what the launcher in the first pod said, or how the last pod failed."""
        pods = sorted((pod for pod in trainers if pod.phase == "Failed"), key=lambda pod: pod.ended)
        failed = [failed for failed in map(self._failed, pods) if failed.code not in _ASKED_TO_END]
        if not failed:
            said = f"job {self._job.name} failed: {end.get('reason', '')}: {end.get('message', '')}"
            return JobFailedError(said, exit_code=EXIT_RESUMABLE if pods else 1)
        last = failed[-1]
        if last.code in _SAID and (said := last_message(last.log)):
            return JobFailedError(said, exit_code=last.code)
        return JobFailedError(str(failure([last])), exit_code=last.code if last.code > 0 else 1)

    def _check_start(self, pods: list[Pod], count: int) -> None:
        """Says what keeps pods from starting, until all have started once.

        Raises:
            InputError: an image or a configuration that Kubernetes cannot use.
            ClusterError: pods did not start in time, or a server failed several times.
        """
        now = time.monotonic()
        for pod in pods:
            if not pod.has_started and pod.obstacle is not None:
                self._check_obstacle(pod, *pod.obstacle, now)
        if not all(pod.is_at_work for pod in pods):
            self._check_servers(pods)
        if self._have_started:
            return
        waiting = [pod for pod in pods if not pod.has_started]
        if not waiting and sum(pod.owner == self._uid for pod in pods) >= count:
            self._have_started = True
            self._console.print(f"{counted(len(pods), 'pod')} of job {self._job.name} started")
        elif now - self._begun > self._start_seconds:
            reasons = [f"{pod.name}: {self._why(pod)}" for pod in waiting] or [
                f"there are {len(pods)} pods: {self._events(self._uid)}"
            ]
            raise ClusterError(
                f"pods of job {self._job.name} did not start within {self._start_seconds} s (start_seconds in [k8s]): "
                + "; ".join(reasons)
            )

    def _check_servers(self, pods: list[Pod]) -> None:
        """Nobody waits for a server that ends again and again."""
        for pod in pods:
            main = pod.containers[-1] if pod.process.startswith("server") and pod.containers else None
            if main is not None and main.state != "running" and main.restarts >= _CRASHES and main.code:
                failed = Failure(
                    name=f"{pod.process} on {pod.name}", code=main.code, log=self._logs.file(pod, main.name), error=None
                )
                raise failure([failed])

    def _check_obstacle(self, pod: Pod, reason: str, message: str, now: float) -> None:
        first = self._since.setdefault((pod.uid, "" if reason.startswith(_HOPELESS) else reason), now)
        said = f"{pod.name} cannot start: {reason}: {message}"
        if reason.startswith(_HOPELESS) and now - first > self._patience.stuck:
            raise InputError(f"{said}; correct image, pull_secret or env_secrets in [k8s]")
        if first == now:
            self._console.print(said, soft_wrap=True)

    def _why(self, pod: Pod) -> str:
        return ": ".join(pod.obstacle) if pod.obstacle else self._events(pod.uid)

    def _events(self, uid: str) -> str:
        """The last warning about an object."""
        field = f"--field-selector=type=Warning,involvedObject.uid={uid}"
        try:
            events = json.loads(self._kubectl("get", "events", field, "--output=json"))["items"]
        except HalohopError as error:
            return str(error)
        return ": ".join((events[-1]["reason"], events[-1]["message"])) if events else "Kubernetes does not say why"

    def _show(self, pod: Pod, line: bytes) -> None:
        """Shows what the user's own processes print: rank 0's pod, or all."""
        console = self._console
        if console.quiet or not (is_verbose() or pod.process == "trainers-0"):
            return
        prefix = f"[{pod.name} {pod.process}] " if is_verbose() else ""
        console.file.write(prefix + line.decode(errors="replace"))
