"""Reads files and compares them with their checksums, on all cores; what was stopped goes on where it was.

A journal, a line for each chunk that was right, is there only while a verification is unfinished: disks forget bits without
changing a file's status, so a new verification reads everything again. A line counts as long as the file is the one that was
read: of the same inode, size and times of change, of which only the system sets one (ctime).
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from halohop.cores import usable_cores
from halohop.errors import CorruptDatasetError, DatasetError
from halohop.files.reading import open_regular, read_regular
from halohop.store.checksums import FileRecord, hexadecimal, sum_range

_SETTLED_S = 2.0  # a file that was changed just now may change again without its times being others

Check = tuple[Path, int, int, str]
"""A file, where a chunk of it begins and ends, and its checksum."""


def verify_files(
    folder: Path,
    records: Mapping[str, FileRecord],
    *,
    journal: Path | None = None,
    on_bytes: Callable[[int], None] = lambda count: None,
) -> None:
    """Compares files with their checksums.

    Args:
        folder: of the data set.
        records: of the files, by their paths in it; their sizes were compared already.
        journal: where it is noted how far this came, if it may be written; removed at the end.
        on_bytes: called with how many bytes more are known to be right.

    Raises:
        CorruptDatasetError: a file is another than was recorded; names the first one.
        DatasetError: a file cannot be read.
    """
    checks = [(folder / path, *chunk) for path, record in records.items() for chunk in record.chunks()]
    with _noting(journal) as notes, ThreadPoolExecutor(len(usable_cores()), thread_name_prefix="halohop verify") as pool:
        running = [pool.submit(_verify, check, notes) for check in checks]
        try:
            for future in running:  # in their order, so that the same file is named each time
                on_bytes(future.result())
        finally:
            pool.shutdown(cancel_futures=True)
    if journal is not None:
        with suppress(OSError):  # of a disk that is only read there is none
            journal.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """That a chunk was right when the file's status was this."""

    file: str
    begin: int
    checksum: str
    status: tuple[int, ...]


class _Notes:
    """What a verification has read, and what those before it had."""

    def __init__(self, known: set[_Note], descriptor: int | None) -> None:
        self._known, self._descriptor = known, descriptor

    def has(self, note: _Note) -> bool:
        return note in self._known

    def add(self, note: _Note) -> None:
        if self._descriptor is not None:
            with suppress(OSError):  # a full disk: it will be read again
                os.write(self._descriptor, msgspec.json.encode(note) + b"\n")


@contextmanager
def _noting(journal: Path | None) -> Iterator[_Notes]:
    with ExitStack() as stack:
        descriptor, known = None, set()
        if journal is not None:
            with suppress(OSError, DatasetError):  # none, or not ours to write: then everything is read, and nothing noted
                descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
                stack.callback(os.close, descriptor)
                known = set(_read(journal))
                os.write(descriptor, b"\n")  # a line that a kill cut short ends here
        yield _Notes(known, descriptor)


def _read(journal: Path) -> Iterator[_Note]:
    for line in read_regular(journal).splitlines():
        with suppress(msgspec.DecodeError, RecursionError):  # cut short, or empty
            yield msgspec.json.decode(line, type=_Note)


def _verify(check: Check, notes: _Notes) -> int:
    """Reads a chunk, unless it is known to be right; returns its size."""
    file, begin, end, recorded = check
    with open_regular(file) as stream:
        before = os.fstat(stream.fileno())
        note = _Note(file=str(file), begin=begin, checksum=recorded, status=_status(before))
        if not notes.has(note):
            try:
                checksum = hexadecimal(sum_range(stream.fileno(), begin, end))
            except OSError as error:
                raise DatasetError(f"{file} cannot be read: {error.strerror}") from error
            if checksum != recorded:
                raise CorruptDatasetError(
                    f"{file} has checksum {checksum} in the bytes {begin} to {end}, the manifest says {recorded}; copy it again"
                )
            if _status(os.fstat(stream.fileno())) == note.status and time.time() - before.st_ctime > _SETTLED_S:
                notes.add(note)
    return end - begin


def _status(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
