"""How the failure of a trainer reaches the user: as its own error, where it is one of halohop's, else as the end of its log."""

import json
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from halohop import errors
from halohop.alive import REPORT_FILE
from halohop.errors import ClusterError, DatasetError, HalohopError, InputError, PeerLostError, WriteError

TAIL_LINES = 15

_PEER_LOST = re.compile(
    r"PeerLostError|Connection (closed|reset) by|Connection was likely closed|Broken pipe|DistBackendError|DistNetworkError|"
    r"remote process exited|Socket (Timeout|closed)|gloo.*(timed out|Timed out)"
)

_REPORT_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A process that ended badly.

    Args:
        name: of the process, for messages.
        code: its exit code, as `subprocess` counts: negative for a signal.
        log: what it printed; the file need not exist.
        error: what it reported itself, if anything.
    """

    name: str
    code: int
    log: Path
    error: HalohopError | None

    @property
    def was_killed(self) -> bool:
        return self.code < 0 and self.code != -signal.SIGABRT  # a library that gives up after a peer's death aborts itself

    @property
    def lost_a_peer(self) -> bool:
        """Whether it seems to have failed only because another process had, by the end of what it printed."""
        return isinstance(self.error, PeerLostError) or _PEER_LOST.search("\n".join(_last_lines(self))) is not None


def report(error: HalohopError, env: Mapping[str, str] | None = None) -> None:
    """Writes the error that ends this process where the launcher looks for it; nothing without a launcher."""
    path = (os.environ if env is None else env).get(REPORT_FILE)
    if path is not None:
        file = Path(path)
        with file.open("r+b" if file.exists() else "xb") as stream:  # into the room of `prepare`
            stream.write(spelled_report(error))


def spelled_report(error: HalohopError) -> bytes:
    """A report as `parse_report` reads it."""
    return json.dumps({"kind": type(error).__name__, "message": str(error)}).encode()


def prepare(path: Path) -> None:
    """Makes room for a report, which so can be written on a full disk, too."""
    path.write_bytes(b" " * _REPORT_BYTES)


def reported(path: Path) -> HalohopError | None:
    """The error that a process reported, of the same class; None if it did not come to that.

    Example:
        >>> report(InputError("lr=0 must be over 0"), {REPORT_FILE: "error.json"})
        >>> reported(Path("error.json")), reported(Path("nothing.json"))
        (InputError('lr=0 must be over 0'), None)
    """
    try:
        return parse_report(path.read_bytes())
    except FileNotFoundError:
        return None


def parse_report(text: bytes) -> HalohopError | None:
    """The error that a report spells; None if the process was killed before or while it wrote."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    kind = getattr(errors, found["kind"], HalohopError)
    error: HalohopError = kind.__new__(kind, found["message"])  # as it was raised there, whatever its constructor takes
    return error


def failure(failed: Sequence[Failure], *, ended: Sequence[str] = ()) -> HalohopError:
    """The error to raise for a run: what a trainer says of the user's input, or who failed, the likeliest culprit first.

    Args:
        failed: at least one, in the order of their ends.
        ended: names of the processes that the launcher ended after that.
    """
    # One that was killed, else the first to fail, but one that only lost its peer is not to blame.
    first, *others = sorted(failed, key=lambda one: (not one.was_killed, one.lost_a_peer))
    if not first.was_killed:
        for one in failed:
            if isinstance(one.error, InputError | DatasetError | WriteError):  # the others only lost their peer
                return one.error
    if first.error is not None:
        story = [f"{first.name} failed: {first.error} (its log: {first.log})"]
    else:
        story = [f"{first.name} {_manner(first.code)}; the end of {first.log}:", _tail(first)]
    for one in others:
        last = str(one.error) if one.error is not None else _tail(one)
        story.append(f"then {one.name} {_manner(one.code)}: {last.splitlines()[-1].strip()}")
    if ended:
        story.append(f"then the launcher ended {', '.join(ended)}")
    return ClusterError("\n".join(story))


def _manner(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"


def _tail(failed: Failure) -> str:
    return "\n".join(f"    {line}" for line in _last_lines(failed)) or "    (it printed nothing)"


def _last_lines(failed: Failure) -> list[str]:
    text = failed.log.read_text(errors="replace") if failed.log.exists() else ""
    return text.rstrip().splitlines()[-TAIL_LINES:]
