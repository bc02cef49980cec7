"""What a pod of trainers does for the launcher: it holds the runner of the pod, and forwards its streams."""

import os
import secrets
import signal
import sys
import threading
from concurrent.futures import Future

from halohop.errors import ClusterError
from halohop.launch.jobs.host.held_runner import HeldRunner
from halohop.launch.jobs.k8s.messages import (
    POLL_S,
    RUNNER_PORT,
    Chunk,
    Dismiss,
    Done,
    Ping,
    Pong,
    Read,
    Request,
    RunnerExit,
    Start,
    Wait,
    Write,
)

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a pod that was asked to end. Kubernetes replaces it."""
_END_S = 8.0
"""Seconds that a runner has to end everything before it is killed."""


class PodService:
    """Answers the launcher, and knows when the pod may end.

    Attributes:
        is_terminating: whether Kubernetes has asked the pod to end.
    """

    def __init__(self) -> None:
        self.is_terminating = False
        self._identity = secrets.token_hex(8)
        self._runner: HeldRunner | None = None
        self._is_dismissed = False
        self._starting, self._changed = threading.Lock(), threading.Event()

    def answer(self, request: Request) -> Pong | Done | Chunk | RunnerExit | Future[Done]:
        """See `transport.Handler`.

        Raises:
            ClusterError: the pod has no runner, because it was started again.
        """
        match request:
            case Ping():
                self._changed.set()  # waits again for the launcher, which waits for other pods
                return Pong(identity=self._identity)
            case Start():
                return self._start()
            case Write(data=data):
                self._current().write(data)
            case Read(name=name):
                return Chunk(data=self._current().read(name, POLL_S))
            case Wait():
                return RunnerExit(code=self._current().wait(POLL_S))
            case Dismiss():
                self.dismiss()
        return Done()

    def dismiss(self) -> None:
        """Lets the pod end well, whatever comes."""
        self._is_dismissed = True
        self._changed.set()

    def terminate(self, *_: object) -> None:
        """Handles SIGTERM: makes all ranks of the job save; exits if no runner is running."""
        if self._is_dismissed:
            return
        self.is_terminating = True
        if not self._is_running():
            raise SystemExit(TERMINATED)
        self._current().terminate()

    def until_dismissed(self, patience: float) -> int:
        """Waits until the launcher dismisses the pod; returns the exit code of the pod.

        Args:
            patience: seconds to wait for a launcher.

        Raises:
            ClusterError: no launcher connected in time.
        """
        while not self._is_dismissed:
            is_running = self._is_running()
            if self.is_terminating and not is_running:
                return TERMINATED
            if not self._changed.wait(None if is_running else patience):
                raise ClusterError(
                    f"the first pod did not connect within {patience:g} s (start_seconds in [k8s]); check that it runs, and that "
                    f"pods of this job can connect to each other on port {RUNNER_PORT}"
                )
            self._changed.clear()
        return 0

    def _start(self) -> Done | Future[Done]:
        if self.is_terminating:
            return Future()  # never done: the call is repeated at the pod that replaces this one
        with self._starting:  # the launcher repeats a call whose connection it has lost
            if self._runner is not None:
                self._runner.end(_END_S)
            runner = HeldRunner(sys.executable, os.environ)
            runner.start()
            self._runner = runner
        threading.Thread(target=self._attend, args=(runner,), name="halohop-runner", daemon=True).start()
        return Done()

    def _attend(self, runner: HeldRunner) -> None:
        runner.wait()
        self._changed.set()

    def _is_running(self) -> bool:
        return self._runner is not None and self._runner.wait(0) is None

    def _current(self) -> HeldRunner:
        if self._runner is None:
            raise ClusterError("the pod was started again")
        return self._runner
