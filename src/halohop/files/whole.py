"""The one writer of files and folders: they appear under their names whole and on the disk, or not at all.

Until then they lie beside their names, see `halohop.files.aside`.
"""

import errno
import io
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, cast

from halohop.errors import CorruptDatasetError, IncompleteDatasetError, InputError, WriteError
from halohop.files.aside import move_aside, new_file, new_folder, target_of, unfinished, writing
from halohop.files.reading import open_regular, read_regular
from halohop.linux import exchange

_SYNCS = 16  # at a time
_PIECE = 1 << 20
_SEAL = b"\nhalohop crc32 "


@contextmanager
def whole_file(file: Path, *, instead_of: Sequence[Path] = (), record: Path | None = None) -> Iterator[IO[bytes]]:
    """A file that appears under its name when all of it is on the disk; until then what was there remains.

    Args:
        file: the name.
        instead_of, record: other files whose place it takes, see `publish`.

    Raises:
        WriteError: it cannot be written; names it.

    Example:
        >>> with whole_file(Path("notes.txt")) as stream:
        ...     _ = stream.write(b"whole")
        >>> Path("notes.txt").read_bytes()
        b'whole'
    """
    with set_aside([file]) as (partial,):
        with written_stream(partial, name=file, sync=True) as stream:
            yield stream
        publish({partial: file}, instead_of=instead_of, record=record)


@contextmanager
def written_stream(file: Path, *, name: Path | None = None, mode: str = "wb", sync: bool = False) -> Iterator[IO[bytes]]:
    """A file that is open for writing.

    Args:
        file: where it is written.
        name: what errors call it, where that is another name.
        mode: "wb", or "xb" for a file that must not be there yet.
        sync: whether it has to be on the disk when the block ends well; not in a `whole_folder`, which syncs all at its end.

    Raises:
        WriteError: it cannot be written; names it.
    """
    name = name or file
    with writing(name), _Remembering(file, mode) as raw:
        try:
            with io.BufferedWriter(cast(io.RawIOBase, raw), 1 << 20) as stream:
                yield stream
                stream.flush()
                if sync:
                    os.fsync(stream.fileno())
        except Exception as error:
            if raw.failure is None:
                raise
            raise WriteError.of(target_of(name), raw.failure) from error


def write_file(file: Path, data: bytes) -> None:
    """Writes a `whole_file` that is in memory."""
    with whole_file(file) as stream:
        stream.write(data)


@contextmanager
def sealed_file(file: Path) -> Iterator[IO[bytes]]:
    """A `whole_file` that ends with a checksum of the rest, for `read_sealed`; what reads zip files does not mind the end."""
    with whole_file(file) as stream:
        summed = SumStream(stream)
        yield cast("IO[bytes]", summed)
        stream.write(_seal(summed.checksum))


def read_sealed(file: Path) -> bytes:
    """What was written to a `sealed_file`.

    Raises:
        IncompleteDatasetError: there is no such file.
        CorruptDatasetError: it is not sealed, or was changed since.
    """
    try:
        data = read_regular(file)
    except FileNotFoundError:
        raise IncompleteDatasetError(f"there is no file {file}") from None
    end = len(data) - len(_seal(0))
    if end < 0 or not data[end:].startswith(_SEAL):
        raise CorruptDatasetError(f"{file} does not end with its checksum: it was cut short, or is of an older halohop")
    if data[end:] != _seal(zlib.crc32(memoryview(data)[:end])):
        raise CorruptDatasetError(f"{file} was changed after it was written: its checksum differs")
    return data[:end]


def check_sealed(file: Path) -> None:
    """Compares a `sealed_file` with its checksum, a piece at a time: it may be larger than memory. Raises as `read_sealed`."""
    try:
        stream = open_regular(file)
    except FileNotFoundError:
        raise IncompleteDatasetError(f"there is no file {file}") from None
    with stream:
        left, checksum = os.fstat(stream.fileno()).st_size - len(_seal(0)), 0
        while left > 0 and (data := stream.read(min(left, _PIECE))):
            left, checksum = left - len(data), zlib.crc32(data, checksum)
        seal = b"" if left else stream.read()
    if not seal.startswith(_SEAL):
        raise CorruptDatasetError(f"{file} does not end with its checksum: it was cut short, or is of an older halohop")
    if seal != _seal(checksum):
        raise CorruptDatasetError(f"{file} was changed after it was written: its checksum differs")


@contextmanager
def set_aside(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Empty files beside some names, to be written and published together; those that were not are removed at the end.

    Raises:
        WriteError: as of `whole_file`.
    """
    with ExitStack() as stack:
        yield [stack.enter_context(unfinished(_real(file), new_file)) for file in files]


def publish(files: Mapping[Path, Path], *, instead_of: Sequence[Path] = (), record: Path | None = None) -> None:
    """Gives finished files their names, in this order.

    Args:
        files: where each lies, synced already, and its name.
        instead_of: the names of everything of an earlier set, which goes first. A kill between two renames then leaves files
            missing, and never those of two sets side by side.
        record: a file that is there from the first of these steps to the last, on the disk as well. Where it is found later, a
            kill came between them, and the files do not make a set.

    Raises:
        WriteError: as of `whole_file`.
    """
    if record is not None:
        write_file(record, b"These files are not complete: the run that wrote them was stopped. Start it again.\n")
    for stale in instead_of:
        with writing(stale):
            stale.unlink(missing_ok=True)
    for partial, file in files.items():
        with writing(file):
            partial.replace(_real(file))
    for folder in {_real(file).parent for file in files.values()}:
        sync_folder(folder)
    if record is not None:
        with writing(record):
            record.unlink()
        sync_folder(record.parent)


@contextmanager
def whole_folder(folder: Path, check: Callable[[], None], *, overwrite: bool) -> Iterator[Path]:
    """A folder to fill, which appears under its name when the block ends well and all that is in it is on the disk.

    Args:
        folder: its name; where a link leads to, if it is one.
        check: raises if the name may not be taken; called at the beginning and, since others may write meanwhile, at the end.
        overwrite: take the place of a folder that is there.

    Raises:
        InputError: another writer was quicker, and `overwrite` is false.
        WriteError: it cannot be written; names it.
    """
    folder = _real(folder)
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with unfinished(folder, new_folder, check) as partial:
        yield partial
        sync_tree(partial)
        check()
        publish_folder(partial, folder, overwrite=overwrite)


def publish_folder(partial: Path, folder: Path, *, overwrite: bool) -> None:
    """Gives a finished folder, all of which is on the disk, its name.

    What had the name before has that of the folder then, or is gone.

    Raises:
        InputError, WriteError: as of `whole_folder`.
    """
    with writing(folder):
        _take_place(partial, folder, overwrite=overwrite)
    sync_folder(folder.parent)


class SumStream:
    """Passes bytes on to a stream and keeps the CRC-32 of all of them."""

    def __init__(self, stream: IO[bytes], checksum: int = 0) -> None:
        self._stream = stream
        self.checksum = checksum

    def write(self, data: bytes | memoryview) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        return self._stream.write(data)

    def flush(self) -> None:
        self._stream.flush()


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable; the files' contents are synced on their own."""
    _sync(folder)


def sync_tree(folder: Path) -> None:
    """Makes a folder durable, with all files and folders in it.

    Many are synced at a time, since a file system writes one journal entry for all that wait for it: 600 files take a twentieth
    of the time. (To sync the whole file system is quicker still, and waits for all that others have written to it.)

    Raises:
        WriteError: the disk failed or is full; names the file.
    """
    paths = [folder, *folder.rglob("*")]
    with ThreadPoolExecutor(_SYNCS, thread_name_prefix="halohop sync") as pool:
        for _ in pool.map(_sync_all, (paths[number::_SYNCS] for number in range(_SYNCS))):
            pass


def _sync_all(paths: Sequence[Path]) -> None:
    for path in paths:
        _sync(path)


def _sync(path: Path) -> None:
    with writing(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class _Remembering(io.FileIO):
    """A file that remembers why it could not be written: torch and zipfile raise errors of their own, without the reason."""

    failure: OSError | None = None

    def write(self, data: bytes) -> int:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            raise


def _take_place(partial: Path, folder: Path, *, overwrite: bool) -> None:
    """Renames an unfinished folder; what was there is under the unfinished one's name then, or gone."""
    try:
        partial.rename(folder)  # also onto an empty one
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not overwrite:
            raise InputError(f"{folder} exists: another process was quicker; choose another folder") from error
        if not exchange(partial, folder):
            move_aside(folder, partial)


def _seal(checksum: int) -> bytes:
    return _SEAL + f"{checksum:08x}\n".encode()


def _real(path: Path) -> Path:
    """Where a name leads to through links, so that a file is written aside on the disk where it will lie."""
    return Path(os.path.realpath(path))
