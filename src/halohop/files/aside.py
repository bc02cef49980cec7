"""Unfinished files and folders are next to their names, locked by their writers, as ``NAME.partial-HOST-BOOT-RANDOM``.

A kill leaves one there, unlocked, and the next writer of that name removes it. BOOT names the running system, since a lock is
known to that system alone; what this HOST left before it was started again is removed, too. What another host on a shared disk
writes, or left, is not touched, but named. Where two names cannot be exchanged in one step, what was there before is
``NAME.replaced-HOST-BOOT-RANDOM`` for a moment; a kill in that moment is undone by the next writer.
"""

import fcntl
import hashlib
import logging
import os
import platform
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from halohop.errors import HalohopError, WriteError
from halohop.files.urls import refuse_url
from halohop.linux import boot_id, seconds_since_boot
from halohop.memory import format_size

UNFINISHED = re.compile(r"\.partial-([0-9a-f]{8}-){0,2}[0-9a-f]{8}$")
"""The end of the name of something unfinished."""

_LEFT = re.compile(r"(.+)\.(partial|replaced)-(?:(?:([0-9a-f]{8})-)?([0-9a-f]{8})-)?[0-9a-f]{8}")
_MACHINE_ID = Path("/etc/machine-id")
_LOG = logging.getLogger(__name__)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Gives a failure to write, inside the block, the name of what was written.

    Raises:
        WriteError: says which file, why, and what helps.
        InputError: it is a URL: nothing is written to a folder that is called ``s3:``.
    """
    refuse_url(path, "path", "give a folder or a file here")
    try:
        yield
    except HalohopError:  # some of which are OSErrors, too
        raise
    except OSError as error:
        raise WriteError.of(target_of(path), error) from error


def target_of(path: Path) -> Path:
    """What a path is called when it is finished: without the endings that only an unfinished file or folder has.

    Example:
        >>> target_of(Path("parts.partial-0123abcd-89efabcd/part-0000/x.npy"))
        PosixPath('parts/part-0000/x.npy')
    """
    return Path(*(UNFINISHED.sub("", part) for part in path.parts))


@contextmanager
def unfinished(name: Path, make: Callable[[Path], int], check: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Something new beside a name, locked for as long as the block takes; it is removed at the end if it is still there.

    Args:
        name: what it is to become; its folder exists.
        make: `new_file` or `new_folder`.
        check: called when what killed writers left has been removed, and before anything is made.

    Raises:
        WriteError: it cannot be written; names it.
    """
    with writing(name):
        clear_abandoned(name)
        check()
        partial, descriptor = _locked(name, make)
    try:
        yield partial
    finally:
        remove(partial)
        os.close(descriptor)


def new_file(path: Path) -> int:
    """Makes a file; returns a descriptor."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def new_folder(path: Path) -> int:
    """Makes a folder; returns a descriptor."""
    path.mkdir()
    return _opened_folder(path)


def move_aside(folder: Path, instead: Path) -> None:
    """Gives `instead` the name of a folder that is there, which is removed, in two steps.

    Raises:
        OSError: a step failed, and the folder has its name again.
    """
    descriptor = _opened_folder(folder)
    try:
        lock(descriptor)  # or another writer would take it for left behind
        replaced = folder.rename(_beside(folder, "replaced"))
        try:
            instead.rename(folder)
        except OSError:
            replaced.rename(folder)
            raise
        remove(replaced)  # who has mapped it keeps its pages
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Removes a file or a folder, also where another writer is doing the same."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def discard(folder: Path) -> None:
    """Removes a folder that others may be looking at: for them it is gone at once. Where it is gone already, nothing happens."""
    aside = _beside(folder, "partial")  # which the next writer of that name clears away, if this one is killed now
    with suppress(FileNotFoundError):
        folder.rename(aside)
        remove(aside)


def lock(descriptor: int) -> None:
    """Locks an open file or folder, for as long as the descriptor is open."""
    with suppress(OSError):  # a file system without locks: others get none there either
        fcntl.flock(descriptor, fcntl.LOCK_EX)


@cache
def boot() -> str:
    """Of the running system, since it started; the same in all its containers."""
    return hashlib.sha256((boot_id() or platform.node()).encode()).hexdigest()[:8]


@cache
def host() -> str:
    """A digest that names this host, also after it was started again; a container counts as a host by its name."""
    machine = _MACHINE_ID.read_text() if _MACHINE_ID.exists() else ""
    return hashlib.sha256(f"{machine}{platform.node()}".encode()).hexdigest()[:8]


def clear_abandoned(name: Path) -> None:
    """Removes what killed writers of this host left next to a name, and logs what others left. What one of them had moved away
    comes back."""
    for path in _left_beside(name):
        with _abandoned(path) as free:
            ours = bool(free) and _is_ours(path)
            if ours and ".replaced-" in path.name and not name.exists():
                path.rename(name)
            elif ours:
                remove(path)
        if not ours:
            _mention(path)


def mention_leftovers(name: Path) -> None:
    """Logs a warning about each of the `leftovers` next to a name, once in a process."""
    with suppress(OSError):  # a folder that this user may not list
        for path in _left_beside(name):
            _mention(path)


def leftovers(folder: Path) -> dict[Path, int]:
    """Unfinished files and folders next to a folder and in it, and the bytes of each, without those that a process has locked."""
    found: list[Path] = []
    with suppress(OSError):  # the folder around it may not be listed
        found += _left_beside(folder)
    for place, folders, files in os.walk(folder):
        found += [Path(place, name) for name in (*folders, *files) if _LEFT.fullmatch(name)]
        folders[:] = [name for name in folders if not _LEFT.fullmatch(name)]
    return {path: _measure(path)[0] for path in sorted(found) if not _is_in_use(path)}


def removal(path: Path) -> str:
    """The command that removes a file or a folder."""
    return f"rm -r {shlex.quote(str(path))}"


def _left_beside(name: Path) -> list[Path]:
    return [path for path in name.parent.iterdir() if (left := _LEFT.fullmatch(path.name)) and left[1] == name.name]


@cache
def _mention(path: Path) -> None:
    only_copy = ".replaced-" in path.name and not path.with_name(_LEFT.sub(r"\1", path.name)).exists()
    if not only_copy and not _is_in_use(path):
        _LOG.warning(
            "%s takes %s: a writer that was stopped left it there. If no process of another host writes it, remove it: %s",
            path,
            format_size(_measure(path)[0]),
            removal(path),
        )


def _is_ours(path: Path) -> bool:
    """Whether this system, or this host before it was started again, wrote something; no other system with its name did."""
    left = _LEFT.fullmatch(path.name)
    if left is None or left[3] is None:  # of an older halohop, which did not say of which host
        return False
    if left[4] == boot():
        return True
    return left[3] == host() and _measure(path)[1] < time.time() - seconds_since_boot()


def _measure(path: Path) -> tuple[int, float]:
    """The bytes of a file or of all files of a folder, and when something of it was changed last."""
    paths = [path, *(Path(place, name) for place, folders, files in os.walk(path) for name in (*folders, *files))]
    found = []
    for each in paths:
        with suppress(FileNotFoundError):  # removed meanwhile
            found.append(each.lstat())
    return sum(one.st_size for one in found), max((one.st_ctime for one in found), default=0.0)


def _is_in_use(path: Path) -> bool:
    with _abandoned(path) as free:
        return free is False


@contextmanager
def _abandoned(path: Path) -> Iterator[bool | None]:
    """Whether no living process writes there, and none begins to while the block lasts; None where it cannot be known."""
    with ExitStack() as stack:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileNotFoundError):  # locked, or gone meanwhile
            yield False
        except OSError:  # not ours, or on a file system without locks
            yield None
        else:
            yield path.exists()


def _locked(name: Path, make: Callable[[Path], int]) -> tuple[Path, int]:
    while True:
        path = _beside(name, "partial")
        try:
            descriptor = make(path)
        except FileNotFoundError:
            if not name.parent.is_dir():
                raise
            continue  # another writer took it for left behind before it was open
        lock(descriptor)
        if path.exists():
            return path, descriptor
        os.close(descriptor)  # likewise, before it was locked


def _opened_folder(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _beside(name: Path, why: str) -> Path:
    return name.with_name(f"{name.name}.{why}-{host()}-{boot()}-{secrets.token_hex(4)}")
