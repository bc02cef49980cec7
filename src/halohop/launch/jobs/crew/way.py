"""The hosts of a job as a launcher knows them, and how it reaches what runs on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

RUNNER = "halohop.launch.jobs.host"
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


class Way(Protocol):
    """Starts the runner of a host by a command, whose standard input and output carry the messages."""

    @property
    def patience(self) -> float:
        """Seconds within which a host must be reached."""
        ...

    def command(self, host: Host) -> list[str]:
        """Returns the command that starts the runner of a host and lasts as long as it."""
        ...

    def explain(self, host: Host, printed: str, code: int | None) -> str:
        """Says why the runner of a host did not start, and what to do.

        Args:
            host: which.
            printed: what the command printed to standard error.
            code: its exit code; None: it runs, and nothing came.
        """
        ...

    def is_cut(self, code: int | None) -> bool:
        """Whether the connection, and not the runner, has ended a command with this exit code."""
        ...


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
