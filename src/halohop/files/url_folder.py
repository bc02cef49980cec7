"""A folder at a URL, through fsspec, which PyG and torch bring; for ``s3://`` and others users install the package that it needs.

Failures name the URL, without what is secret in it, and what helps.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from halohop.errors import DatasetError, HalohopError, InputError, WriteError
from halohop.files.urls import as_url, is_url, masked
from halohop.files.whole import whole_file

_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss"), "adlfs"),
    **dict.fromkeys(("sftp", "ssh"), "paramiko"),
    **dict.fromkeys(("http", "https"), "aiohttp requests"),
    **dict.fromkeys(("hdfs", "arrow_hdfs"), "pyarrow"),
    "oci": "ocifs",
    "oss": "ossfs",
    "webdav": "webdav4",
}
_WHOLE_AT_ONCE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oci", "oss", "memory"}
"""Stores where an object appears under its name when all of it has come."""

_TRIES, _PAUSE_S = 3, 0.2
_REFUSED = (
    "credential",
    "forbidden",
    "access denied",
    "accessdenied",
    "unauthorized",
    "invalidaccesskey",
    "signature",
    "403",
    "401",
)


class UrlFolder:
    """Reads and writes files below a URL, or in a folder here; safe to use from several threads.

    Args:
        url: of the folder, or its path.

    Raises:
        InputError: an unknown scheme, or its package is not installed.
    """

    def __init__(self, url: str | Path) -> None:
        text = as_url(url).rstrip("/") if is_url(url) else str(Path(url).absolute())
        self._scheme = re.split(r"::|://", text)[0] if is_url(url) else "file"
        self._fs, self._root = _filesystem(text)
        self.name = masked(text)
        """For people: without passwords."""

    def read(self, name: str) -> bytes:
        """All of a small file.

        Raises:
            FileNotFoundError: there is none.
            DatasetError: it cannot be read.
        """
        with self._failing(name):
            data: bytes = _again(lambda: self._fs.cat_file(self._path(name)))
            return data

    def read_range(self, name: str, begin: int, end: int) -> bytes:
        """Some bytes of a file, or fewer where it is shorter; raises as `read`."""
        with self._failing(name):
            data: bytes = _again(lambda: self._fs.cat_file(self._path(name), start=begin, end=end))
            return data

    def size(self, name: str) -> int | None:
        """Bytes of a file; None where there is none.

        Raises:
            DatasetError: the store does not say.
        """
        try:
            with self._failing(name):
                return int(_again(lambda: self._fs.info(self._path(name)))["size"])
        except FileNotFoundError:
            return None

    def files(self) -> dict[str, int]:
        """All files, and the bytes of each; none where there is no such folder.

        Raises:
            DatasetError: the store does not list them.
        """
        found: dict[str, dict[str, Any]] = {}
        with suppress(FileNotFoundError), self._failing(""):  # of some stores, of a bucket that is not there
            found = _again(lambda: self._fs.find(self._root, detail=True))
        root = self._root.rstrip("/") + "/"
        return {
            path.removeprefix(root): int(info["size"]) for path, info in found.items() if path.startswith(root) and path != root
        }

    def send(self, file: Path, name: str) -> None:
        """Writes what a file here holds; readers see all of it, or what was there before.

        Raises:
            WriteError: it cannot be written.
        """
        with self._failing(name, writes=True):
            target = self._path(name)
            if self._scheme in ("file", "local"):
                place = Path(target)
                place.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(place) as stream, file.open("rb") as source:
                    while data := source.read(1 << 20):
                        stream.write(data)
            elif self._scheme in _WHOLE_AT_ONCE:
                _again(lambda: self._fs.put_file(str(file), target))
            else:
                self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)
                _again(lambda: self._fs.put_file(str(file), f"{target}.partial"))
                self._fs.mv(f"{target}.partial", target)
            self._fs.invalidate_cache()

    def remove(self, name: str) -> None:
        """Removes a file, if it is there.

        Raises:
            WriteError: it may not be removed.
        """
        with self._failing(name, writes=True), suppress(FileNotFoundError):
            self._fs.rm_file(self._path(name))

    def at(self, name: str) -> str:
        """A file's URL, for people."""
        return f"{self.name}/{name}" if name else self.name

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @contextmanager
    def _failing(self, name: str, *, writes: bool = False) -> Iterator[None]:
        """Gives what a file system raises, whatever its class, our words."""
        try:
            yield
        except HalohopError:
            raise
        except Exception as error:  # libraries of stores have errors of their own
            if isinstance(error, FileNotFoundError) and not writes:
                raise
            reason = masked(f"{type(error).__name__}: {error}".splitlines()[0])
            refused = isinstance(error, PermissionError) or any(word in reason.lower() for word in _REFUSED)
            remedy = (
                "see whether the credentials that its library finds in the environment are there, and may do this"
                if refused
                else "see whether the store works, and start it again"
            )
            kind = WriteError if writes else DatasetError
            raise kind(f"{self.at(name)} cannot be {'written' if writes else 'read'} ({reason}); {remedy}") from (
                error if "***" not in self.name else None
            )


def _filesystem(url: str) -> tuple[Any, str]:
    """fsspec's file system for a URL, and the path in it."""
    from fsspec.core import url_to_fs

    scheme = re.split(r"::|://", url)[0]
    try:
        system, root = url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        package = _PACKAGES.get(scheme)
        remedy = f"pip install {package}" if package else masked(str(error))
        raise InputError(f"{masked(url)} needs a package that is not installed: {remedy}") from error
    except ValueError as error:
        raise InputError(
            f"{masked(url)} has the scheme {scheme!r}, which fsspec does not know; "
            "write s3://, gs://, az://, sftp://, https://, file://, or another of fsspec's"
        ) from (error if url == masked(url) else None)
    except Exception as error:
        reason = masked(f"{type(error).__name__}: {error}")
        raise DatasetError(f"{masked(url)} cannot be reached ({reason}); see whether the name is right") from (
            error if url == masked(url) else None
        )
    return system, str(root)


def _again(do: Any) -> Any:
    """Does something that a network may interrupt, a few times."""
    pause = threading.Event()
    for attempt in range(_TRIES - 1):
        try:
            return do()
        except (FileNotFoundError, PermissionError, NotImplementedError):
            raise
        except OSError:
            pause.wait(_PAUSE_S * 2**attempt)
    return do()
