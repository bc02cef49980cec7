"""Folders that come over a connection, by the checksums of a manifest, and result files that go back."""

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from halohop.cores import usable_cores
from halohop.errors import CorruptDatasetError, ProtocolError
from halohop.files import whole_file, write_file, writing
from halohop.files.parallel import SLOWEST, Report, in_threads
from halohop.files.private import refuse_links_to
from halohop.files.reading import resolve_below
from halohop.launch.jobs.host.channel import PIECE
from halohop.launch.jobs.host.messages import Copied, Piece
from halohop.store.checksums import ChunkSums, FileRecord, hexadecimal, sum_range
from halohop.store.names import MANIFEST

HANG_S = 120.0
"""Seconds without a byte of a file after which storage is taken for one that hangs."""


def wanted(copied: Copied, on_work: Report, seconds: float = HANG_S) -> tuple[str, ...]:
    """The files of a folder that are not there, or differ from their checksums: reads those that are there, on all cores.

    Args:
        copied: the folder.
        on_work: gets how many more bytes have been read.
        seconds: how long the storage may read without a result.

    Raises:
        DeadlineExceededError: it hangs.
    """
    folder, whole = Path(copied.folder), set()

    def compare(item: tuple[str, FileRecord], report: Report) -> None:
        if _is_whole(folder / item[0], item[1], report):
            whole.add(item[0])

    in_threads(
        compare,
        list(copied.files.items()),
        threads=len(usable_cores()),
        deadline=seconds,
        name=f"compare {folder}",
        on_done=on_work,
    )
    return tuple(path for path in copied.files if path not in whole)


def write(
    copied: Copied,
    missing: tuple[str, ...],
    take: Callable[[], Piece],
    on_work: Report,
    seconds: float = HANG_S,
) -> None:
    """Writes the files that are missing, each under its name only when it is whole, and the manifest last.

    Args:
        copied: the folder.
        missing: as of `wanted`.
        take: returns the next piece.
        on_work: gets how many more bytes have been written.
        seconds: how long the storage may take for a piece, plus a second for each MiB of the file, which is flushed at its end.

    Raises:
        DeadlineExceededError: it hangs, or no piece comes.
        InputError: a symbolic link is where a file goes, or on the way there.
        WriteError: the disk is full, or the folder not ours.
        CorruptDatasetError: the files at the source are not what their manifest says.
        ProtocolError: the pieces are of other files.
    """
    folder = Path(copied.folder)
    manifest = folder / MANIFEST
    for path in (MANIFEST, *missing, *copied.executable, *copied.small):
        refuse_links_to(folder, path)
    if copied.manifest is not None and (missing or _content(manifest) != copied.manifest):
        with writing(manifest):
            manifest.unlink(missing_ok=True)  # until all is there, the folder is no data set
    for path in missing:
        deadline = seconds + copied.files[path].bytes / SLOWEST
        work = partial(_write, folder, record=copied.files[path], take=take)
        in_threads(work, [path], threads=1, deadline=deadline, name=f"write {folder / path}", on_done=on_work)
    for path in copied.executable:
        _make_executable(folder / path)
    for path, data in copied.small.items():
        _replace(folder / path, data)
    if copied.manifest is not None:
        _replace(manifest, copied.manifest)


def pieces(folder: Path) -> Iterator[Piece]:
    """All regular files below a folder, piece by piece; what is written meanwhile is sent as far as it is there."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.is_symlink():
            path = str(file.relative_to(folder))
            with file.open("rb") as stream:
                while data := stream.read(PIECE):
                    yield Piece(path=path, data=data, last=False)
            yield Piece(path=path, data=b"", last=True)


def write_brought(folder: Path, take: Callable[[], Piece | None]) -> list[str]:
    """Writes files that come piece by piece until there is none; returns their paths.

    Raises:
        WriteError: the disk is full, or the folder not ours.
        ProtocolError: a path leads out of the folder.
    """
    found = []
    while (piece := take()) is not None:
        file = folder / piece.path
        if resolve_below(folder.resolve(), piece.path) is None:
            raise ProtocolError(f"a host sent a file {piece.path!r}, which lies outside of {folder}")
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as stream:
            stream.write(piece.data)
            while not piece.last:
                piece = _following(piece.path, take())
                stream.write(piece.data)
        found.append(piece.path)
    return found


def _write(folder: Path, path: str, report: Report, *, record: FileRecord, take: Callable[[], Piece]) -> None:
    checksum, sums, size = 0, ChunkSums(), 0
    with writing(folder / path):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / path) as stream:
        last = False
        while not last:
            piece = _following(path, take())
            stream.write(piece.data)
            if len(record.checksums) == 1:
                checksum = zlib.crc32(piece.data, checksum)
            else:
                sums.add(piece.data)
            size, last = size + len(piece.data), piece.last
            report(len(piece.data))
        found = (checksum,) if len(record.checksums) == 1 else sums.checksums
        if size != record.bytes or tuple(map(hexadecimal, found)) != record.checksums:
            raise CorruptDatasetError(
                f"{path} is not what the manifest says where it was copied from; run `halohop inspect --verify` there, and copy "
                "the data set to it again"
            )


def _make_executable(file: Path) -> None:
    """For all who may read it, as this host's umask has it."""
    with writing(file):
        mode = file.stat().st_mode
        if not mode & 0o100:
            file.chmod(mode | (mode & 0o444) >> 2)


def _following(path: str, piece: Piece | None) -> Piece:
    if piece is None or piece.path != path:
        raise ProtocolError(f"expected the next bytes of {path}, got {'an end' if piece is None else f'some of {piece.path}'}")
    return piece


def _is_whole(file: Path, record: FileRecord, report: Report) -> bool:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.fstat(descriptor).st_size == record.bytes and all(
            hexadecimal(sum_range(descriptor, begin, end, report)) == checksum for begin, end, checksum in record.chunks()
        )
    except OSError:  # a disk that cannot read it; another copy may be written beside
        return False
    finally:
        os.close(descriptor)


def _replace(file: Path, data: bytes) -> None:
    if _content(file) != data:
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, data)


def _content(file: Path) -> bytes | None:
    with suppress(OSError):
        return file.read_bytes()
    return None
