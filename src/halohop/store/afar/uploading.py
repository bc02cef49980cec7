"""A data set, sent to a URL: files in parallel, the manifest last. Until then there is no data set there.

What is unfinished there is marked by ``manifest.uploading``, a copy of the manifest: all other files are then of this data set,
and one of the right size is whole, because stores show no half ones.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from halohop.errors import DatasetError, IncompleteDatasetError, InputError, VersionMismatchError, WriteError
from halohop.files.parallel import Report, in_threads
from halohop.files.reading import read_regular
from halohop.files.url_folder import UrlFolder
from halohop.flags import checks_flags
from halohop.store.disk import held_parts, map_part, read_manifest
from halohop.store.manifest import STAMP, Manifest, decode, part_folder
from halohop.store.names import MANIFEST
from halohop.typing import OnProgress

UPLOADING = "manifest.uploading"

_THREADS = 8
_OF_A_PARTITION = re.compile(r"part-\d{4,}/")


@checks_flags
def upload(
    folder: str | Path,
    url: str,
    *,
    overwrite: bool = False,
    deadline: float = 300.0,
    progress: OnProgress = lambda stage, done, total: None,
) -> None:
    """Sends a partitioned graph to an object store; public as `halohop.upload`.

    An upload that was stopped, even killed, goes on where it was. While it lasts there is no manifest, and so no data set, at the
    URL. Stores have no locks: let one process at a time write to a URL.

    Args:
        folder: of the data set, with all its partitions.
        url: ``s3://bucket/parts``, or anything that fsspec writes to with the packages that are installed.
        overwrite: replace the data set that is there, which is removed first.
        deadline: seconds without a file that has been sent before giving up.
        progress: called with "upload", how many bytes are there, and of how many.

    Raises:
        InputError: another data set, or something else, is there; an unknown scheme, or a package that is not installed.
        DatasetError: the folder is no whole data set, or the URL cannot be read.
        WriteError: it cannot be written.
        DeadlineExceededError: nothing was sent for so long.

    Example:
        >>> import tempfile, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as place:
        ...     _ = halohop.partition(synthetic("tiny"), f"{place}/parts", num_parts=2, method="random")
        ...     upload(f"{place}/parts", f"file://{place}/there")
        ...     halohop.fetch(f"file://{place}/there", f"{place}/here").name
        'here'
    """
    folder, target = Path(folder), UrlFolder(url, deadline)
    files = _files(folder)
    document = read_regular(folder / MANIFEST)
    found = check_target(target, document, overwrite=overwrite)
    if found.is_there:
        target.remove(UPLOADING)
        return
    if not found.goes_on:
        for name in (MANIFEST, *(name for name in found.files if name != MANIFEST)):
            target.remove(name)
        target.send(folder / MANIFEST, UPLOADING)
    there = found.files if found.goes_on else {}
    missing = [name for name, size in files.items() if there.get(name) != size]
    _send(folder, target, files, missing, deadline=deadline, progress=progress)
    _check_sent(target, document, files)
    target.send(folder / MANIFEST, MANIFEST)
    target.remove(UPLOADING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is at a URL before an upload.

    Args:
        files: bytes of each.
        is_there: the same data set, whole.
        goes_on: an unfinished upload of it.
    """

    files: dict[str, int]
    is_there: bool = False
    goes_on: bool = False


def check_target(target: UrlFolder, document: bytes | None = None, *, overwrite: bool) -> Found:
    """Looks at what is where a data set is to go.

    Args:
        target: where.
        document: its manifest; None: it has not been made.
        overwrite: whether another one may be replaced.

    Raises:
        InputError: something is there that may not be replaced.
        DatasetError: it cannot be read.
    """
    files = target.files()
    if document is not None and MANIFEST in files and target.read(MANIFEST) == document:
        return Found(files=files, is_there=True)
    if document is not None and UPLOADING in files and MANIFEST not in files and target.read(UPLOADING) == document:
        return Found(files=files, goes_on=True)
    strange = sorted(name for name in files if name not in (MANIFEST, UPLOADING) and not _OF_A_PARTITION.match(name))
    if strange or (MANIFEST in files and not _is_ours(target)):
        raise InputError(f"{target.at(strange[0] if strange else MANIFEST)} is there, and is not halohop's; choose another URL")
    if files and not overwrite:
        what = "a data set" if MANIFEST in files else "an unfinished upload of another data set"
        raise InputError(f"{target.name} holds {what}; choose another URL, or pass overwrite=True to replace it")
    return Found(files=files)


def _is_ours(target: UrlFolder) -> bool:
    try:
        decode(target.read(MANIFEST), target.at(MANIFEST))
    except VersionMismatchError:  # an older data set is replaced, too
        return True
    except DatasetError:
        return False
    return True


def _files(folder: Path) -> dict[str, int]:
    """All files of a data set but its manifest, and their sizes.

    Raises:
        DatasetError: it is not whole.
    """
    manifest: Manifest = read_manifest(folder)
    if absent := sorted(set(range(manifest.num_parts)) - set(held_parts(folder, manifest))):
        raise IncompleteDatasetError(f"{folder} lacks the partitions {absent}; upload a folder that has all of them")
    sizes = {name: record.bytes for name, record in manifest.files.items()}
    for part in range(manifest.num_parts):
        map_part(folder, manifest, part)
        if manifest.stamps:
            stamp = f"{part_folder(part)}/{STAMP}"
            sizes[stamp] = (folder / stamp).stat().st_size
    return sizes


def _send(
    folder: Path, target: UrlFolder, files: dict[str, int], missing: list[str], *, deadline: float, progress: OnProgress
) -> None:
    total = sum(files.values())
    there = total - sum(files[name] for name in missing)
    progress("upload", there, total)

    def on_done(count: int) -> None:
        nonlocal there
        there += count
        progress("upload", there, total)

    def send(name: str, report: Report) -> None:
        target.send(folder / name, name)
        report(files[name])

    in_threads(send, missing, threads=_THREADS, deadline=deadline, name="upload", on_done=on_done)


def _check_sent(target: UrlFolder, document: bytes, files: dict[str, int]) -> None:
    there = target.files()
    if UPLOADING not in there or target.read(UPLOADING) != document:
        raise WriteError(f"{target.name} was written to by another process meanwhile; let one at a time upload there")
    for name, size in files.items():
        if there.get(name) != size:
            raise WriteError(
                f"{target.at(name)} has {there.get(name, 0)} bytes after it was sent, instead of {size}; start it again"
            )
