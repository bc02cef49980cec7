"""Processes that share work through a folder, on one host or on several: who is alive, and whose a piece of work is.

A worker is a file, ``BOOT-RANDOM``, that it keeps locked and touches every few seconds. A claim is a symbolic link to that file,
beside the work: made in one step or not at all, and never without saying whose it is. Claims are not deleted but numbered: where
the owner of the last one is gone, the work belongs to the worker who makes the next. On the same running system (BOOT, see
`halohop.files.aside`) a worker is gone when its file is not locked; on another host, whose locks may not be seen here, when it
has not touched its file for `SILENT_S`. A host that slept for so long may go on with what is another's by then: so work must be
such that two may do it, and a worker that has lost a claim does not say that the work is done.
"""

import fcntl
import os
import re
import secrets
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from halohop.errors import ClusterError
from halohop.files.aside import boot, lock, new_file, writing

BEAT_S = 5.0
"""Seconds between two touches of a worker's file."""

SILENT_S = 60.0
"""How long a worker of another host may leave its file untouched before its work is another's. An NFS client may show a file
as it was half a minute ago."""

_CLAIM = re.compile(r"(.*)\.claim-(\d+)")


class Worker:
    """This process among the workers of a folder; a context manager.

    Args:
        folder: of the workers' files, which all of them see; it is there.

    Raises:
        WriteError: the folder cannot be written to.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = f"{boot()}-{secrets.token_hex(4)}"
        self._own: dict[Path, int] = {}
        self._beats: dict[str, tuple[int, float]] = {}
        self._stopping, self._lock = threading.Event(), threading.Lock()
        self._beating = threading.Thread(target=self._beat, name="halohop heartbeat", daemon=True)
        self._failure: OSError | None = None

    def __enter__(self) -> Self:
        with writing(self._folder):
            self._descriptor = new_file(self._folder / self.name)
        lock(self._descriptor)
        self._beating.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._beating.join()
        (self._folder / self.name).unlink(missing_ok=True)  # what it has claimed and not done is free now
        os.close(self._descriptor)

    def claim(self, work: Path, last: int) -> bool:
        """Whether a piece of work is this worker's from now on.

        Args:
            work: any name in a folder of such; what it names need not be there.
            last: the number of its last claim, as `last_claims` says; -1 if there is none.

        Raises:
            ClusterError: the folder is gone, or its file system has no symbolic links.
        """
        with self._lock:
            if last >= 0:
                owner = _claim(work, last).readlink().name
                if owner == self.name or self._is_alive(owner):
                    return False
            target = os.path.relpath(self._folder / self.name, work.parent)
            try:
                _claim(work, last + 1).symlink_to(target)
            except FileExistsError:  # of a quicker worker; or NFS made it, and answers that it was asked once more
                if work in self._own or str(_claim(work, last + 1).readlink()) != target:
                    return False
            except FileNotFoundError as error:
                raise gone(work.parent) from error
            except OSError as error:
                raise ClusterError(
                    f"{work.parent} takes no symbolic links, by which workers claim their steps ({error}); choose a folder on "
                    "another file system"
                ) from error
            self._own[work] = last + 1
            return True

    def owns(self, work: Path) -> bool:
        """Whether what this worker has claimed is no other's by now."""
        return not os.path.lexists(_claim(work, self._own[work] + 1))

    def others(self) -> list[str]:
        """The other workers that are alive."""
        try:
            names = [path.name for path in self._folder.iterdir() if path.name != self.name]
        except FileNotFoundError:
            return []
        return [name for name in names if self._is_alive(name)]

    def check(self) -> None:
        """
        Raises:
            ClusterError: this worker cannot touch its file, so others will take it for gone.
        """
        if self._failure is not None:
            raise ClusterError(f"{self._folder / self.name} cannot be touched any more: {self._failure}") from self._failure

    def _is_alive(self, name: str) -> bool:
        try:
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)  # which asks NFS anew
        except FileNotFoundError:
            return False
        try:
            touched = os.fstat(descriptor).st_mtime_ns
            if name.startswith(f"{boot()}-") and (locked := _is_locked(descriptor)) is not None:
                return locked
        finally:
            os.close(descriptor)
        before, since = self._beats.get(name, (None, 0.0))
        if touched != before:
            self._beats[name] = touched, time.monotonic()
            return True
        return time.monotonic() - since < SILENT_S

    def _beat(self) -> None:
        while not self._stopping.wait(BEAT_S):
            try:
                os.utime(self._descriptor)  # takes no room on a full disk
            except OSError as error:
                self._failure = error
                return


def last_claims(names: Iterable[str]) -> dict[str, int]:
    """The number of the last claim of each piece of work that has one, given all names in a folder.

    Example:
        >>> last_claims(["7", "7.claim-0", "8.claim-0", "8.claim-1"])
        {'7': 0, '8': 1}
    """
    found: dict[str, int] = {}
    for work, number in (match.groups() for name in names if (match := _CLAIM.fullmatch(name))):
        found[work] = max(int(number), found.get(work, -1))
    return found


def gone(folder: Path) -> ClusterError:
    """The error of a worker whose folder another one has removed."""
    return ClusterError(f"{folder} is gone: another worker has finished the work, or it was deleted; look at the result")


def _claim(work: Path, number: int) -> Path:
    return work.with_name(f"{work.name}.claim-{number}")


def _is_locked(descriptor: int) -> bool | None:
    """None where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: several may look at a time
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
