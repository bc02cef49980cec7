"""The runner of a host in an actor of Ray, which forwards its streams."""

import os
import socket
import sys
from typing import Any

from halohop.launch.jobs.host.held_runner import HeldRunner
from halohop.launch.jobs.ray.library import ray_library

GROUPS = {"stdin": 1, "stdout": 1, "stderr": 1}
"""Threads of the actor, so that each stream is read and written in order while the others wait."""


class HostActor(HeldRunner):
    """An actor that holds the runner of a host. Its process ends with the driver, and the runner with it.

    Args:
        python: interpreter of the runner; "": the one of Ray's workers.
        env: additional environment of the runner.
    """

    def __init__(self, python: str, env: dict[str, str]) -> None:
        super().__init__(python or sys.executable, {**os.environ, **env})

    def place(self) -> tuple[str, str]:
        """Name and address of the node."""
        return socket.gethostname(), ray_library("ray.util").get_node_ip_address()


class ActorCalls:
    """See `RunnerCalls`.

    Args:
        actor: a handle of a `HostActor`.
    """

    def __init__(self, actor: Any) -> None:
        self._actor, self._ray = actor, ray_library()
        self.lost: type[Exception] = self._ray.exceptions.RayError

    def start(self) -> None:
        self._call("start", "stdin")

    def write(self, data: bytes) -> None:
        self._call("write", "stdin", data)

    def read(self, name: str) -> bytes:
        found: bytes = self._call("read", name, name)
        return found

    def wait(self) -> int:
        code: int = self._call("wait", "stdout")
        return code

    def kill(self) -> None:
        self._ray.kill(self._actor)

    def _call(self, method: str, group: str, *arguments: object) -> Any:
        reference = getattr(self._actor, method).options(concurrency_group=group).remote(*arguments)
        return self._ray.get(reference)
