"""What a launcher and the runner of a host send each other: records, each a frame of a kind, a length and MessagePack, and then
the end of a line, as srun passes on whole lines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from halohop.store.checksums import FileRecord

MARK = b"\0halohop host, protocol 2\n"
"""What the runner writes first: a login shell may have written other things before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The sender is alive.

    Args:
        work: grows as long as it gets on with what it was asked for, such as bytes that it has compared.
        must_end: whether its host has asked it to end, as a scheduler that takes the host away.
    """

    work: int = 0
    must_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Runner: who it is. The launcher compares it before it sends anything.

    Args:
        python, torch, halohop: versions; "" where torch is not installed.
        executable: the interpreter.
        machine: differs between machines, and between containers with networks of their own.
        ports: free ones, of which a job takes those that nobody chose.
    """

    python: str
    torch: str
    halohop: str
    executable: str
    machine: str
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A process to start later, by `Begin`.

    Args:
        name: of the process, once on a host.
        argv: what follows the interpreter.
        env: beside that of the order.
        sharers: how many such processes share the host's cores.
        serves: whether it serves the others, and so makes no steps.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    sharers: int = 1
    serves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A folder, mostly of partitions, that comes over this connection, where it is not there already.

    Args:
        folder: where it is to be.
        files: large ones, by their paths in the folder.
        small: other files, whole; written before the manifest.
        manifest: the bytes of manifest.json, which is written last; None where the folder is no data set.
        executable: those of `files` that may be run; their modes are set also where they are there already.
    """

    folder: str
    files: Mapping[str, FileRecord]
    small: Mapping[str, bytes]
    manifest: bytes | None = None
    executable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Launcher: what is to run on this host. Sent once; it holds the token.

    Args:
        programs: processes; none is started before its `Begin`.
        folder: their working directory.
        env: their environment, beside what the host has.
        scripts: files that must be there, relative to `folder`.
        same: further files that must be there, and be the same on all hosts, relative to `folder`.
        reads: folders with a data set that must be there.
        ports: that must be free.
        copied: folders that the launcher will send.
        master: the host where ranks meet.
        stall: as of `Stalls`.
        mark: a file of the launcher's run folder and its text, by which a host knows whether it sees that folder.
    """

    programs: tuple[Program, ...]
    folder: str
    env: Mapping[str, str] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    copied: tuple[Copied, ...] = ()
    master: str = ""
    stall: float | None = None
    mark: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A file that all hosts must have alike.

    Args:
        path: where it is on this host.
        digest: of its bytes, SHA-256.
    """

    path: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Runner: what it has found.

    Args:
        problems: what of the order cannot work here, a sentence each.
        shared: whether it sees the run folder.
        seen: the order's scripts, then the further files, then the manifests of the data sets that it reads; none where there
            are problems.
        parts: numbers of the partitions that lie in the folder of the data set that it reads.
        num_parts: how many that data set has; 0 where it reads none.
    """

    problems: tuple[str, ...]
    shared: bool = False
    seen: tuple[Seen, ...] = ()
    parts: tuple[int, ...] = ()
    num_parts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """Launcher: compare the files of a folder that is to be copied, by its number in the order.

    The answer is `Wanted`. The launcher sends the pieces of these files in their order, and the runner, when it has written the
    manifest, `Wanted` without files.
    """

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Runner: which files of a folder are missing, or differ from their checksums."""

    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Either: the next bytes of a file that is sent. The last piece of a file may be empty.

    Args:
        path: of the file, in its folder.
        data: the bytes.
        last: whether the file ends here.
    """

    path: str
    data: bytes
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Launcher: start a process."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Launcher: ask a process to end, by SIGTERM."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Runner: a process was started; its number on this host."""

    name: str
    process: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Runner: what a process printed to its standard output or standard error."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Runner: a process has ended.

    Args:
        name: of the process.
        code: its exit code, as `subprocess` counts: negative for a signal.
        report: of the error that ended it, as `failures.report` spells it; empty where it reported none.
    """

    name: str
    code: int
    report: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bring:
    """Launcher: send the files below a folder. The answer is pieces of them, then `Brought`."""

    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """Runner: all files of a folder were sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Runner: what was asked for cannot be done; a sentence that names the remedy."""

    text: str


Message = (
    Beat
    | Hello
    | Order
    | Checked
    | Compare
    | Wanted
    | Piece
    | Begin
    | Stop
    | Started
    | Output
    | Ended
    | Bring
    | Brought
    | Trouble
)

KINDS: tuple[type[Any], ...] = get_args(Message)
