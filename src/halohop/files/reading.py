"""Reads files as they may have been left: no regular file at all, or JSON of any depth."""

import os
import stat
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from halohop.errors import CorruptDatasetError, DatasetError

Value = TypeVar("Value")


def open_regular(file: Path) -> IO[bytes]:
    """A regular file, open for reading, unbuffered. Of a pipe, which would let its reader wait for ever, an error.

    Raises:
        FileNotFoundError: there is no such file.
        CorruptDatasetError: it is no regular file.
        DatasetError: it cannot be opened.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DatasetError(f"{file} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CorruptDatasetError(f"{file} is no regular file; put the file itself there")
    return os.fdopen(descriptor, "rb", buffering=0)


def read_regular(file: Path) -> bytes:
    """All bytes of a file; raises as `open_regular`."""
    with open_regular(file) as stream:
        try:
            return stream.read()
        except OSError as error:
            raise DatasetError(f"{file} cannot be read: {error.strerror}") from error


def decode_json(data: bytes, name: object, kind: type[Value] | Any = Any) -> Value:
    """JSON from a file, which may be damaged or nested without end.

    Args:
        data: the bytes.
        name: of the file, for errors.
        kind: what it should be.

    Raises:
        CorruptDatasetError: it is none.

    Example:
        >>> decode_json(b'{"epochs": 3}', "run.json", dict[str, int])
        {'epochs': 3}
        >>> decode_json(b"[" * 10**6, "run.json")
        Traceback (most recent call last):
        halohop.errors.CorruptDatasetError: run.json cannot be read as JSON: it is nested too deep
    """
    try:
        value: Value = msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise CorruptDatasetError(f"{name} cannot be read as JSON: it is nested too deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # no JSON, no text, a field missing or of a wrong type
        raise CorruptDatasetError(f"{name} cannot be read as JSON: {error}") from error
    return value


def resolve_below(folder: Path, name: str) -> Path | None:
    """Where `name` leads in a folder without links in its own path; None if that is outside, or if a link leads to itself.

    Example:
        >>> resolve_below(Path("/data"), "../secret") is None
        True
    """
    try:
        path = (folder / name).resolve()  # an absolute name stays as it is
        loops = any(place.is_symlink() for place in (path, *path.parents))  # Python 3.13 leaves such a link as it is
    except (OSError, RuntimeError):  # older ones raise
        return None
    return path if path.is_relative_to(folder) and not loops else None
