"""A folder with data sets that were fetched, which the processes of a host share: one fetches, the others wait and use the same.

    STAGE/<digest of the manifest>/         a data set, or the partitions of it that were needed here
    STAGE/<digest of the manifest>.lock     locked by all that use it; holds how many bytes it may take

With a limit, the data sets that were used least recently, and are in use nowhere, make room for new ones.
"""

import hashlib
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from halohop.errors import DeadlineExceededError, InputError
from halohop.files.aside import remove, writing
from halohop.files.private import private_folder
from halohop.files.url_folder import UrlFolder
from halohop.files.urls import as_url, masked, refuse_url
from halohop.memory import format_size, parse_size
from halohop.store.afar.fetching import fetch, read_far_manifest, wait_for_lock, wanted_parts
from halohop.store.disk import files_of, held_parts
from halohop.store.manifest import Manifest
from halohop.typing import OnProgress
from halohop.world import World

User = TypeVar("User")

_LOCK = ".lock"
_ROOM = "room"
_REMOVED = ".removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where fetched data sets lie.

    Args:
        folder: on a disk of this host; None: nowhere, so that a URL is refused.
        limit: bytes that all data sets there may take together; None: no limit, and nothing is ever removed.
    """

    folder: Path | None = None
    limit: int | None = None

    @classmethod
    def of(cls, folder: str | Path | None, limit: str | int | None = None) -> "Stage":
        """As a user gives it.

        Raises:
            InputError: a limit that is no size.
        """
        return cls(folder=None if folder is None else Path(folder), limit=None if limit is None else parse_size(limit))


class Staged:
    """A data set that was fetched, and stays until this is closed, or the process ends.

    Attributes:
        folder: where it lies.
        parts: the partitions that were asked for.
    """

    def __init__(self, folder: Path, parts: tuple[int, ...], close: Callable[[], None]) -> None:
        self.folder, self.parts, self.close = folder, parts, close
        weakref.finalize(self, close)

    def kept_for(self, user: User) -> User:
        """Stays for as long as there is an object that uses it, which is returned."""
        weakref.finalize(user, Staged.__exit__, self, None, None, None)
        return user

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def staged(
    url: str | Path,
    stage: Stage,
    *,
    partitions: Sequence[int] | None = None,
    share: str | None = None,
    world: World | None = None,
    deadline: float = 300.0,
    progress: OnProgress = lambda stage, done, total: None,
) -> Staged:
    """Fetches a data set, or finds it fetched already.

    Args:
        url: of the data set.
        stage: where fetched data sets lie.
        partitions, share: which are needed here, as of `fetch`.
        world: where it has several hosts, and neither of these is given, each fetches its share: host K of N has "K/N".
        deadline, progress: as of `fetch`.

    Raises:
        InputError: no folder to stage in, or others may write it; or its limit is too small for what is in use.
        DatasetError, WriteError, DeadlineExceededError: as of `fetch`.
    """
    if stage.folder is None:
        raise InputError(f"{masked(as_url(url))} is fetched before it is read; say into which folder: stage=FOLDER")
    refuse_url(stage.folder, "stage", "give a folder on a disk of this host")
    source = UrlFolder(url, deadline)
    document, manifest = read_far_manifest(source)
    wanted = wanted_parts(manifest, source.name, partitions=partitions, share=share)
    if partitions is None and share is None and world is not None and world.num_hosts > 1:
        wanted = wanted[world.host :: world.num_hosts]  # none where there are more hosts than partitions
    folder = private_folder(stage.folder) / hashlib.blake2b(document, digest_size=16).hexdigest()
    with ExitStack() as undo:
        lock = _opened(folder.with_name(folder.name + _LOCK))
        undo.callback(os.close, lock)
        wait_for_lock(lock, folder, deadline, shared=True)
        _find_room(stage, folder, lock, _needed(folder, manifest, wanted), source.name, deadline)
        fetch(url, private_folder(folder.parent, folder.name), partitions=wanted, deadline=deadline, progress=progress)
        return Staged(folder, wanted, undo.pop_all().close)


def _needed(folder: Path, manifest: Manifest, wanted: Sequence[int]) -> int:
    """Bytes of the partitions that will be there."""
    parts = {*wanted, *held_parts(folder, manifest)}
    return sum(record.bytes for part in parts for record in files_of(manifest, part).values())


def _find_room(stage: Stage, folder: Path, lock: int, needed: int, name: str, deadline: float) -> None:
    """Removes what was not used for the longest time, until the limit is kept; notes what this data set may take."""
    with _alone(folder.with_name(_ROOM + _LOCK), deadline):
        others = {
            file: int(file.read_text() or 0) for file in folder.parent.glob(f"*{_LOCK}") if file.stem not in (folder.name, _ROOM)
        }
        for left in folder.parent.glob(f"*{_REMOVED}"):  # by a process that was killed
            remove(left)
        for file in sorted(others, key=lambda file: file.stat().st_mtime_ns):
            if stage.limit is None or sum(others.values()) + needed <= stage.limit:
                break
            if _removed(file):
                del others[file]
        if stage.limit is not None and sum(others.values()) + needed > stage.limit:
            raise InputError(
                f"stage_bytes={stage.limit} has no room for {name}: it takes {format_size(needed)}, and those in use take "
                f"{format_size(sum(others.values()))}; give more, or another folder"
            )
        with writing(folder):
            os.pwrite(lock, f"{needed:<20}".encode(), 0)  # its time says when it was used


def _removed(file: Path) -> bool:
    """Removes a data set that no process uses; whether it was so."""
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        with suppress(DeadlineExceededError):
            wait_for_lock(descriptor, file, 0.0)
            with suppress(FileNotFoundError):
                file.with_suffix("").rename(file.with_suffix(_REMOVED))
            remove(file.with_suffix(_REMOVED))
            os.ftruncate(descriptor, 0)
            return True
        return False
    finally:
        os.close(descriptor)


@contextmanager
def _alone(file: Path, deadline: float) -> Iterator[None]:
    descriptor = _opened(file)
    try:
        wait_for_lock(descriptor, file.parent, deadline)
        yield
    finally:
        os.close(descriptor)


def _opened(file: Path) -> int:
    with writing(file):
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
