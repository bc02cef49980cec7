"""Messages of a launcher that runs on the cluster, and how the launcher that waits for it reads the last one from a log."""

from pathlib import Path

_PREFIX = "halohop: "


def say(text: str) -> None:
    """Prints a message about the job."""
    print(f"{_PREFIX}{text}", flush=True)


def last_message(log: Path) -> str:
    """Returns the last message in a log, which may have several lines; "" if there is none."""
    text = "\n" + (log.read_text(errors="replace") if log.exists() else "")
    _, prefix, last = text.rpartition(f"\n{_PREFIX}")
    return last.rstrip() if prefix else ""
