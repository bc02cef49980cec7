"""A data set, or some partitions of it, fetched from a URL into a folder here. It is whole there, or it is not there.

What is unfinished lies in ``FOLDER/fetching``, where an interrupted fetch is gone on with. A partition gets its name when all its
files are right and on the disk; a new folder gets its manifest after the last of them, and is no data set before that.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from halohop.errors import CorruptDatasetError, DeadlineExceededError, IncompleteDatasetError, InputError
from halohop.files.aside import remove, writing
from halohop.files.private import refuse_links
from halohop.files.reading import read_regular
from halohop.files.url_folder import UrlFolder
from halohop.files.urls import refuse_url
from halohop.files.whole import sync_folder, sync_tree, write_file
from halohop.flags import checks_flags
from halohop.store.afar.chunks import check_names, fetch_files
from halohop.store.disk import files_of, map_part
from halohop.store.manifest import STAMP, VERIFYING, Manifest, decode, part_folder
from halohop.store.names import MANIFEST
from halohop.store.share import in_shares, shares
from halohop.store.verify import verify_files
from halohop.typing import OnProgress

FETCHING = "fetching"
"""Folder of what is unfinished."""

_LOOK_S = 0.05


@checks_flags
def fetch(
    url: str | Path,
    folder: str | Path,
    *,
    partitions: Sequence[int] | None = None,
    share: str | None = None,
    verify: bool = False,
    deadline: float = 300.0,
    progress: OnProgress = lambda stage, done, total: None,
) -> Path:
    """Fetches a partitioned graph from an object store, or from a folder; public as `halohop.fetch`.

    Every file is compared with the checksums of the manifest on its way. What is in the folder already, and whole, is not fetched
    again; a fetch that was stopped, even killed, goes on where it was. Until all has come, the folder is no data set, and a
    partition that is added to one is not in it. Of several fetches into one folder one works, and the others wait for it.

    Args:
        url: ``s3://bucket/parts``, ``gs://...``, anything that fsspec opens with the packages that are installed, or a folder.
            Credentials are those that its library finds in the environment.
        folder: where the data set goes; one of the same data set may be there, and gets the partitions that it lacks.
        partitions: fetch only these; None fetches all.
        share: fetch only these of them, as "K/N": every N-th partition from K on; or several, "0/3,1/3".
        verify: read the files of partitions that are in the folder, too, and fetch again what is damaged. Without it their sizes
            are compared, as opening does.
        deadline: seconds without a byte, or without a sign of another fetch that is at work in this folder, before giving up.
        progress: called with "fetch", how many bytes are here and right, and of how many.

    Returns:
        The folder, for `halohop.open`.

    Raises:
        InputError: an unknown scheme, a package that is not installed (names it), partitions that there are not, or a folder that
            holds another data set, other files, or a symbolic link.
        DatasetError: there is no data set at the URL, or it cannot be read; a file is missing or not what the manifest says.
        WriteError: the folder cannot be written, or has no room for it; nothing was fetched then.
        DeadlineExceededError: nothing came for so long.

    Example:
        >>> import tempfile, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as place:
        ...     _ = halohop.partition(synthetic("tiny"), f"{place}/parts", num_parts=2, method="random")
        ...     here = fetch(f"file://{place}/parts", f"{place}/here", partitions=[1])
        ...     sorted(path.name for path in here.iterdir())
        ['manifest.json', 'part-0001']
    """
    refuse_url(folder, "folder", "give a folder here; `halohop upload` writes to a URL")
    source, folder = UrlFolder(url, deadline), Path(folder).resolve()
    document, manifest = read_far_manifest(source)
    wanted = wanted_parts(manifest, source.name, partitions=partitions, share=share)
    with _alone(folder, deadline) as sign:
        refuse_links(folder)
        _check_same(folder, document, source.name)
        missing = [part for part in wanted if not _is_whole(folder, manifest, part, verify=verify)]
        if missing or not (folder / MANIFEST).exists():
            _fetch_parts(source, folder, document, manifest, missing, deadline=deadline, on_bytes=_counted(progress, sign))
    return folder


def read_far_manifest(source: UrlFolder) -> tuple[bytes, Manifest]:
    """The bytes of a manifest that is elsewhere, and what it says.

    Raises:
        IncompleteDatasetError: there is none.
        DatasetError: as of `halohop.store.disk.read_manifest`.
    """
    try:
        document = source.read(MANIFEST)
    except FileNotFoundError:
        raise IncompleteDatasetError(
            f"{source.name} has no {MANIFEST}: it is no halohop data set, was not uploaded to its end, or the bucket or the path "
            "has another name"
        ) from None
    manifest = decode(document, source.at(MANIFEST))
    check_names(manifest.files, source.at(MANIFEST))
    return document, manifest


def wanted_parts(manifest: Manifest, name: str, *, partitions: Sequence[int] | None, share: str | None) -> tuple[int, ...]:
    """The partitions that `fetch` is asked for.

    Raises:
        InputError: one is not in the data set called `name`, a share is none, or both are given.
    """
    if partitions is not None and share is not None:
        raise InputError(f"partitions={list(partitions)} and share={share!r} both say what to fetch; leave one out")
    if strange := sorted(set(partitions or ()) - set(range(manifest.num_parts))):
        raise InputError(f"partitions={strange} are not in {name}, which has the partitions 0 to {manifest.num_parts - 1}")
    if partitions is not None:
        return tuple(sorted(set(partitions)))
    return in_shares(shares(share) if share else (), manifest.num_parts)


def _counted(progress: OnProgress, sign: Callable[[], None]) -> Callable[[int, int], None]:
    """Reports the sum of what is reported, with a sign of life."""
    here = 0

    def on_bytes(count: int, total: int) -> None:
        nonlocal here
        here += count
        sign()
        progress("fetch", here, total)

    return on_bytes


def _fetch_parts(
    source: UrlFolder,
    folder: Path,
    document: bytes,
    manifest: Manifest,
    parts: Sequence[int],
    *,
    deadline: float,
    on_bytes: Callable[[int, int], None],
) -> None:
    work = folder / FETCHING
    with writing(work):
        work.mkdir(exist_ok=True)
    write_file(work / MANIFEST, document)  # says whose the unfinished files are
    for part in parts:
        _take_back(folder / part_folder(part), work / part_folder(part))
    records = {name: record for part in parts for name, record in files_of(manifest, part).items()}
    total = sum(record.bytes for record in records.values())
    on_bytes(0, total)
    fetch_files(source, work, records, deadline=deadline, on_bytes=lambda count: on_bytes(count, total))
    for part in parts:
        _publish(work / part_folder(part), folder / part_folder(part), manifest, part)
    if not (folder / MANIFEST).exists():
        write_file(folder / MANIFEST, document)
    if not any(path.is_dir() for path in work.iterdir()):  # or another fetch has begun other partitions, and was stopped
        remove(work)


def _publish(unfinished: Path, part: Path, manifest: Manifest, number: int) -> None:
    with writing(unfinished):
        unfinished.mkdir(exist_ok=True)
    if manifest.stamps:
        write_file(unfinished / STAMP, f"{manifest.stamps[number]}\n".encode())
    listed = {part.parent / name for name in files_of(manifest, number)} | {part / STAMP}
    for file in [file for file in unfinished.rglob("*") if not file.is_dir() or file.is_symlink()]:
        if part / file.relative_to(unfinished) not in listed:
            remove(file)
    sync_tree(unfinished)
    with writing(part):
        unfinished.rename(part)
    sync_folder(part.parent)


def _take_back(part: Path, unfinished: Path) -> None:
    """Makes a partition that is damaged an unfinished one, so that nobody opens it, and what is right of it is kept."""
    if part.is_dir():
        remove(unfinished)
        with writing(part):
            part.rename(unfinished)


def _is_whole(folder: Path, manifest: Manifest, part: int, *, verify: bool) -> bool:
    records = files_of(manifest, part)
    try:
        map_part(folder, manifest, part)
        if any((folder / name).stat().st_size != record.bytes for name, record in records.items()):
            return False
        if verify:
            verify_files(folder, records, journal=folder / part_folder(part) / VERIFYING)
    except (CorruptDatasetError, IncompleteDatasetError, FileNotFoundError):
        return False
    return True


def _check_same(folder: Path, document: bytes, name: str) -> None:
    """
    Raises:
        InputError: the folder holds another data set, or something else.
    """
    for place in (folder, folder / FETCHING):
        with suppress(FileNotFoundError):
            if read_regular(place / MANIFEST) != document:
                raise InputError(f"{place} holds another data set than {name}; choose another folder, or delete that one")
            return
    strange = sorted(path.name for path in folder.iterdir() if path.name != FETCHING)
    if strange:
        raise InputError(f"{folder} holds {strange[0]!r} and no data set; choose a new folder for {name}")


@contextmanager
def _alone(folder: Path, deadline: float) -> Iterator[Callable[[], None]]:
    """The only fetch in a folder, which is made; gives what shows others that this one is at work."""
    descriptor = _locked(folder, deadline)
    try:
        yield lambda: os.utime(descriptor)
    finally:
        with suppress(OSError):  # it holds something
            folder.rmdir()
        os.close(descriptor)


def _locked(folder: Path, deadline: float) -> int:
    while True:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            wait_for_lock(descriptor, folder, deadline)
            if folder.exists() and folder.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # another fetch, which failed, has removed it again


def wait_for_lock(descriptor: int, path: Path, deadline: float, *, shared: bool = False) -> None:
    """Locks an open file or folder, as soon as other processes let go of it.

    Args:
        descriptor, path: what, and what errors call it.
        deadline: seconds to wait without a sign of the process that has it: a change of the file's times.
        shared: with others that share it.

    Raises:
        DeadlineExceededError: it still is locked.
    """
    pause, since, seen = threading.Event(), time.monotonic(), -1
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        except OSError:  # a file system without locks: others get none there either
            return
        if (now := os.fstat(descriptor).st_mtime_ns) != seen:
            seen, since = now, time.monotonic()
        if time.monotonic() - since > deadline:
            raise DeadlineExceededError(
                f"another process fetches into {path}, and has done nothing for {deadline:g} s; see whether it hangs, or choose "
                "another folder"
            )
        pause.wait(_LOOK_S)
