"""What the launcher in the first pod asks of each pod of trainers, and the answers."""

from dataclasses import dataclass

RUNNER_PORT = 9400
"""Where pods of trainers listen for the launcher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """Check that the pod answers: `Pong`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start the runner, and end an earlier one. The answer is `Done`, as to `Write` and `Dismiss`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Write to the runner's standard input; without data, close it."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read the next bytes of the runner's stream of this name: `Chunk`."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait for the end of the runner: `RunnerExit`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismiss:
    """End the pod, because the job has ended well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """The identity of a pod; a pod that replaces another has a different one."""

    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """It was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Bytes of a stream: none at its end, None if nothing has come yet."""

    data: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerExit:
    """Exit code of the runner, or None if it is still running."""

    code: int | None


Request = Ping | Start | Write | Read | Wait | Dismiss

KINDS = (Ping, Start, Write, Read, Wait, Dismiss, Pong, Done, Chunk, RunnerExit)
WAITING = (Start, Read, Wait)
"""Requests that may take seconds."""
POLL_S = 10.0
"""Longest time that `Read` and `Wait` block."""
