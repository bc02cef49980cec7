"""The hosts of a job as a launcher knows them, and how it reaches what runs on them."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

from halohop.launch.jobs.host.held_runner import RUNNER

_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host of a job.

    Args:
        name: what messages and logs call it.
        target: words by which it is reached, as ssh takes them, with options: ``("-p", "2222", "ann@b")``.
        address: under which the other hosts reach it.
        python, folder, data: as of `Job`.
        python_key: where the job file names its interpreter, for messages.
        env: the job's, and its own.
        own: of these, those of this host alone.
        server_port: where its first server answers; 0: where the job says.
    """

    name: str
    target: tuple[str, ...] = ()
    address: str
    python: str
    folder: str
    data: str
    python_key: str = "python"
    env: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    server_port: int = 0


class Running(Protocol):
    """A runner that was started on some host, as `subprocess.Popen` shows a process of this one. Its streams are pipes."""

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    @property
    def stderr(self) -> IO[bytes] | None: ...

    @property
    def returncode(self) -> int | Any: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


class Way(Protocol):
    """Starts the runner of a host, whose standard input and output carry the messages."""

    @property
    def patience(self) -> float:
        """Seconds within which a host must be reached."""
        ...

    def start(self, host: Host) -> Running:
        """Starts the runner of a host; does not wait until it answers."""
        ...

    def explain(self, host: Host, printed: str, code: int | None) -> str:
        """Says why the runner of a host did not start, and what to do.

        Args:
            host: which.
            printed: what came from standard error.
            code: the exit code; None: it runs, and nothing came.
        """
        ...

    def is_cut(self, code: int | None) -> bool:
        """Returns whether this exit code means that the connection has ended, and not the runner."""
        ...


def piped(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts a command that lasts as long as the runner that it starts on a host."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)


def last_words(printed: str) -> str:
    """The end of what a command printed, on one line.

    Example:
        >>> last_words("Traceback\\n  luck\\n"), last_words("")
        ('Traceback / luck', 'it printed nothing')
    """
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return " / ".join(lines[-_LINES:]) or "it printed nothing"


def runner_words(host: Host) -> list[str]:
    """The command that is to run on a host."""
    path = host.env.get("PYTHONPATH")
    return [*(["env", f"PYTHONPATH={path}"] if path else []), host.python, "-m", RUNNER]
