"""The chunks of a data set's files, fetched into a folder: what is there with the right checksum is not fetched again."""

import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from halohop.errors import CorruptDatasetError, DatasetError, IncompleteDatasetError, WriteError
from halohop.files.aside import writing
from halohop.files.parallel import Report, in_threads
from halohop.files.url_folder import UrlFolder
from halohop.memory import format_size
from halohop.store.checksums import FileRecord, hexadecimal, sum_range

THREADS = 16
_PIECE = 8 << 20  # of a chunk, in one request
_TRIES = 2  # of a chunk whose checksum is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """Where some bytes lie, there and here, and their checksum."""

    name: str
    file: Path
    begin: int
    end: int
    checksum: str


def fetch_files(
    source: UrlFolder,
    folder: Path,
    records: Mapping[str, FileRecord],
    *,
    deadline: float,
    on_bytes: Callable[[int], None],
) -> None:
    """Fetches files, in parallel, and compares all of them with their checksums.

    Args:
        source: where they are.
        folder: where they go; what an interrupted fetch has left there is gone on with.
        records: of the files, by their paths in both.
        deadline: seconds without a byte after which this is given up.
        on_bytes: called with how many bytes more are here and right.

    Raises:
        CorruptDatasetError: a file is another than was recorded; names it.
        IncompleteDatasetError: a file is not there; names it.
        DatasetError: it cannot be read.
        WriteError: it cannot be written, or there is no room for all of them.
        DeadlineExceededError: nothing came for `deadline` seconds.
    """
    check_room(folder, sum(record.bytes - _allocated(folder / name, record) for name, record in records.items()))
    for name, record in records.items():
        _make_ready(folder / name, record)
    chunks = [
        _Chunk(name=name, file=folder / name, begin=begin, end=end, checksum=checksum)
        for name, record in records.items()
        for begin, end, checksum in record.chunks()
    ]
    in_threads(
        lambda chunk, report: _fetch(source, chunk, report),
        chunks,
        threads=THREADS,
        deadline=deadline,
        name="fetch",
        on_done=on_bytes,
    )


def check_room(folder: Path, needed: int) -> None:
    """
    Raises:
        WriteError: the disk on which a folder lies, or will lie, has less room.
    """
    there = next(path for path in (folder, *folder.parents) if path.exists())
    found = os.statvfs(there)
    if needed > (free := found.f_bavail * found.f_frsize):
        raise WriteError(
            f"{folder} needs {format_size(needed)} more, and its disk has {format_size(free)} left; "
            "make room there, or choose another folder"
        )


def check_names(records: Mapping[str, FileRecord], name: str) -> None:
    """
    Raises:
        CorruptDatasetError: the manifest called `name` has a file outside of the data set's folder.
    """
    for file in records:
        pieces = PurePosixPath(file).parts
        if not pieces or file != "/".join(pieces) or {"..", ".", "/"} & set(pieces) or "\0" in file:
            raise CorruptDatasetError(f"{name} lists the file {file!r}, which no data set has; upload the data set again")


def _allocated(file: Path, record: FileRecord) -> int:
    """Bytes of the disk that a file has, of those that it needs."""
    return min(file.stat().st_blocks * 512, record.bytes) if file.is_file() else 0


def _make_ready(file: Path, record: FileRecord) -> None:
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_file() and file.stat().st_size > record.bytes:
            os.truncate(file, record.bytes)


def _fetch(source: UrlFolder, chunk: _Chunk, report: Report) -> None:
    with writing(chunk.file):
        descriptor = os.open(chunk.file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        if _is_here(descriptor, chunk):
            report(chunk.end - chunk.begin)
            return
        for _ in range(_TRIES):
            found = _copied(source, chunk, descriptor, report)
            if found == chunk.checksum:
                report(chunk.end - chunk.begin)
                return
    finally:
        os.close(descriptor)
    raise CorruptDatasetError(
        f"{source.at(chunk.name)} has checksum {found} in the bytes {chunk.begin} to {chunk.end}, the manifest says "
        f"{chunk.checksum}; upload the data set again"
    )


def _is_here(descriptor: int, chunk: _Chunk) -> bool:
    if os.fstat(descriptor).st_size < chunk.end:
        return False
    try:
        return hexadecimal(sum_range(descriptor, chunk.begin, chunk.end)) == chunk.checksum
    except OSError as error:
        raise DatasetError(f"{chunk.file} cannot be read: {error.strerror}") from error


def _copied(source: UrlFolder, chunk: _Chunk, descriptor: int, report: Report) -> str:
    """Writes a chunk to its place in the file; returns the checksum of what has come."""
    checksum = 0
    for begin in range(chunk.begin, chunk.end, _PIECE):
        data = _piece(source, chunk.name, begin, min(begin + _PIECE, chunk.end))
        with writing(chunk.file):
            _write(descriptor, data, begin)
        checksum = zlib.crc32(data, checksum)
        report(0)
    return hexadecimal(checksum)


def _piece(source: UrlFolder, name: str, begin: int, end: int) -> bytes:
    """Some bytes of a file, asked again for those that are missing of an answer that was cut short."""
    pieces, at = [], begin
    try:
        while at < end and (data := source.read_range(name, at, end)):
            pieces.append(data)
            at += len(data)
    except FileNotFoundError:
        raise IncompleteDatasetError(
            f"{source.at(name)} is missing, which the manifest beside it lists; upload the data set again"
        ) from None
    if at != end:
        raise CorruptDatasetError(
            f"{source.at(name)} ends, or goes on, at byte {at}, where the manifest says {end}; upload the data set again"
        )
    return b"".join(pieces)


def _write(descriptor: int, data: bytes, begin: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(descriptor, view, begin)
        view, begin = view[count:], begin + count
