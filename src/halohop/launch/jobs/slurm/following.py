"""A job that somebody waits for: its output as it comes, how it ended, and its end when the waiting is interrupted."""

import threading
import time
from pathlib import Path

from halohop.errors import ClusterError, InputError
from halohop.launch.jobs.last_message import last_message
from halohop.launch.jobs.slurm import queue
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.refusal import JobFailedError

_SILENT_S = 300.0
"""How long Slurm may fail to answer, as while its controller is started again."""


def follow(number: str, log: Path, console: Console, *, every: float = 1.0) -> None:
    """Shows the output of a job until it has ended. Ctrl-C and SIGTERM cancel the job, a Slurm that does not answer does not.

    Args:
        number: of the job.
        log: where the batch script writes.
        console: gets what is new in it, and what becomes of the job.
        every: seconds between two looks.

    Raises:
        JobFailedError: the job failed or was cancelled.
        ClusterError: Slurm has not answered for minutes.
    """
    pause = threading.Event()  # is never set
    shown, last = 0, queue.state(number)
    try:
        while not last.has_ended:
            pause.wait(every)
            now = _state(number, pause, every)
            shown = _show(log, shown, console)
            if now.name != last.name:
                console.print(f"job {number} is {now.name}")
            last = now
    except ClusterError as error:
        raise ClusterError(
            f"Slurm has not answered for {_SILENT_S / 60:.0f} minutes: {error}; job {number} goes on; squeue --jobs {number}"
        ) from error
    except BaseException:
        try:
            queue.cancel(number)
            console.print(f"job {number} is cancelled")
        except (ClusterError, InputError) as error:
            console.print(f"job {number} goes on: {error}; cancel it with scancel {number}")
        raise
    _show(log, shown, console)
    if last.name != "COMPLETED":
        said, ended = last_message(log), f"job {number} ended as {last.name}, with exit code {last.code}; see {log}"
        raise JobFailedError(said if said and last.name == "FAILED" else f"{ended}\n{said}".rstrip(), exit_code=last.code or 1)


def _state(number: str, pause: threading.Event, every: float) -> queue.State:
    """Where the job stands, once Slurm answers."""
    deadline = time.monotonic() + _SILENT_S
    while True:
        try:
            return queue.state(number)
        except ClusterError:
            if time.monotonic() > deadline:
                raise
        pause.wait(every)


def _show(log: Path, shown: int, console: Console) -> int:
    """Prints whole lines that came behind the first `shown` bytes; returns how many bytes have been printed."""
    if not log.exists():
        return shown
    with log.open("rb") as stream:
        stream.seek(shown)
        new = stream.read()
    new = new[: new.rfind(b"\n") + 1]
    if new and not console.quiet:
        console.file.write(new.decode(errors="replace"))  # of the user's own processes
    return shown + len(new)
