"""How the launcher in the first pod reaches all pods of trainers, its own too: over the transport of halohop's servers."""

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from halohop.errors import AuthenticationError, HalohopError
from halohop.launch.jobs.crew.remote_runner import CUT, RemoteRunner
from halohop.launch.jobs.crew.way import Host, Running, last_words
from halohop.launch.jobs.k8s import messages
from halohop.launch.jobs.k8s.messages import Chunk, Read, Request, RunnerExit, Wait, Write
from halohop.transport import Channel, Codec, Identity, Limits, Token, connect
from halohop.transport.addresses import joined

_ANSWER_S = messages.POLL_S + 20.0
"""How long a pod may take to answer."""
_AGAIN_S = 1.0


class PodCalls:
    """See `RunnerCalls`.

    Args:
        channel: to the pod.
        patience: seconds within which the runner must be started.
    """

    lost: type[Exception] = HalohopError

    def __init__(self, channel: Channel, patience: float) -> None:
        self._channel, self._patience = channel, patience

    def start(self) -> None:
        self._channel.submit(messages.Start(), seconds=self._patience).result()

    def write(self, data: bytes) -> None:
        self._call(Write(data=data))

    def read(self, name: str) -> bytes:
        while True:
            chunk: Chunk = self._call(Read(name=name))
            if chunk.data is not None:
                return chunk.data

    def wait(self) -> int:
        while True:
            ended: RunnerExit = self._call(Wait())
            if ended.code is not None:
                return ended.code

    def kill(self) -> None:
        self._channel.close()

    def _call(self, request: Request) -> Any:
        return self._channel.submit(request, seconds=_ANSWER_S, once=True).result()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Starts runners in pods; see `Way`.

    Args:
        token: of the job.
        uid: of the Job. A pod of another Job that has, or had, the same name counts as missing.
    """

    token: Token
    uid: str
    patience: float = 30.0

    def start(self, host: Host) -> Running:
        return RemoteRunner(PodCalls(self.channel(host), self.patience))

    def explain(self, host: Host, printed: str, code: int | None) -> str:
        if code is None:
            return f"did not answer within {self.patience:g} s ({last_words(printed)})"
        return f"did not start ({last_words(printed)})"

    def is_cut(self, code: int | None) -> bool:
        return code == CUT

    def channel(self, host: Host) -> Channel:
        """A connection to a pod."""
        address = joined((host.address, messages.RUNNER_PORT))
        limits = Limits(heartbeat_seconds=1.0)
        codec, expected = Codec(messages.KINDS), Identity(dataset=self.uid)
        return connect(address, codec=codec, token=self.token, peer=host.name, limits=limits, expected=expected)

    def call_all(self, hosts: Sequence[Host], request: Request, seconds: float) -> tuple[dict[str, Any], dict[str, HalohopError]]:
        """Asks all pods for the same; returns answers, and errors of pods that have not answered in time, by their names."""
        found: dict[str, Any] = {}
        failed: dict[str, HalohopError] = {}
        deadline, pause = time.monotonic() + seconds, threading.Event()  # which is never set
        while waiting := [host for host in hosts if host.name not in found]:
            failed = self._call_once(waiting, request, max(deadline - time.monotonic(), _AGAIN_S), found)
            if time.monotonic() >= deadline or not any(isinstance(error, AuthenticationError) for error in failed.values()):
                break
            pause.wait(_AGAIN_S)  # a pod of an earlier job, with its token, is about to end
        return found, failed

    def _call_once(
        self, hosts: Sequence[Host], request: Request, seconds: float, found: dict[str, Any]
    ) -> dict[str, HalohopError]:
        failed: dict[str, HalohopError] = {}
        with ExitStack() as undo:
            channels = {host.name: undo.enter_context(self.channel(host)) for host in hosts}
            asked = {name: channel.submit(request, seconds=seconds) for name, channel in channels.items()}
            for name, future in asked.items():
                try:
                    found[name] = future.result()
                except HalohopError as error:
                    failed[name] = error
        return failed
