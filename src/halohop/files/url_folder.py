"""A folder at a URL, through fsspec, which PyG and torch bring; for ``s3://`` and others users install the package that it needs.

Failures name the URL, without what is secret in it, and what helps.
"""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from halohop.errors import DatasetError, HalohopError, InputError, WriteError
from halohop.files.parallel import SLOWEST, Report, in_threads
from halohop.files.private import refuse_links_to
from halohop.files.urls import as_url, is_url, masked
from halohop.files.whole import whole_file
from halohop.memory import format_size

Found = TypeVar("Found")

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

_SMALL = 256 << 20
"""Bytes of the largest file that is read at once."""
_RECEIVED = 1 << 20
"""Bytes that are taken at a time, of an HTTP server's answer or a file here."""

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
        deadline: seconds without an answer, or over HTTP without a byte, before a read or a write is given up.

    Raises:
        InputError: an unknown scheme, or its package is not installed.
        DeadlineExceededError: raised by everything that reads or writes, when nothing came for so long.
    """

    def __init__(self, url: str | Path, deadline: float = 300.0) -> None:
        text = as_url(url).rstrip("/") if is_url(url) else str(Path(url).absolute())
        self._scheme = re.split(r"::|://", text)[0] if is_url(url) else "file"
        self._fs, self._root = _filesystem(text)
        self._is_http, self._deadline = self._scheme in ("http", "https"), deadline
        self.name = masked(text)
        """For people: without passwords."""

    def read(self, name: str) -> bytes:
        """All of a small file.

        Raises:
            FileNotFoundError: there is none.
            DatasetError: it cannot be read, or is not small.
        """
        # An HTTP server need not tell the size, so that only what comes is limited; others may send all of a file at once.
        size = _SMALL + 1 if self._is_http else self.size(name)
        if size is None:
            raise FileNotFoundError(self.at(name))
        if self._is_http or size <= _SMALL:
            data = self.read_range(name, 0, size)
            if len(data) <= _SMALL:
                return data
        raise DatasetError(
            f"{self.at(name)} has more than {format_size(_SMALL)}, the most that is read at once; see whether the URL is right"
        )

    def read_range(self, name: str, begin: int, end: int) -> bytes:
        """Some bytes of a file, or fewer where it is shorter; raises as `read`."""
        path, is_http = self._path(name), self._is_http

        def read(report: Report) -> bytes:
            if is_http:
                coming = _received(self._fs, path, begin, end, report)
                return asyncio.run_coroutine_threadsafe(coming, self._fs.loop).result()
            data: bytes = self._fs.cat_file(path, start=begin, end=end)
            return data

        return self._in_time(name, read)

    def size(self, name: str) -> int | None:
        """Bytes of a file; None where there is none.

        Raises:
            DatasetError: the store does not say.
        """

        def info(report: Report) -> dict[str, Any]:
            try:
                found: dict[str, Any] = self._fs.info(self._path(name))
                return found
            except FileNotFoundError as error:  # which fsspec raises for every failure over HTTP
                if self._is_http and error.__cause__ is not None and getattr(error.__cause__, "status", None) not in (404, 410):
                    raise error.__cause__ from None
                raise

        try:
            size = self._in_time(name, info)["size"]
        except FileNotFoundError:
            return None
        if size is None:
            raise DatasetError(f"{self.at(name)} has a server that does not report sizes (no Content-Length); use another server")
        return int(size)

    def files(self) -> dict[str, int]:
        """All files, and the bytes of each; none where there is no such folder.

        Raises:
            DatasetError: the store does not list them, or a name leads out of the folder.
        """
        found: dict[str, dict[str, Any]] = {}
        with suppress(FileNotFoundError):  # of some stores, of a bucket that is not there
            found = self._in_time("", lambda report: self._fs.find(self._root, detail=True))
        root = self._root.rstrip("/") + "/"
        sizes = {
            path.removeprefix(root): int(info["size"]) for path, info in found.items() if path.startswith(root) and path != root
        }
        for name in sizes:
            if name.startswith("/") or ".." in name.split("/") or "\0" in name:
                raise DatasetError(f"{self.name} has a file {name!r}, whose name leads out of the folder; remove it there")
        return sizes

    def send(self, file: Path, name: str) -> None:
        """Writes what a file here holds; readers see all of it, or what was there before.

        The deadline counts for all of the file, and grows by a second for each MiB of it.

        Raises:
            WriteError: it cannot be written.
            InputError: it is in a folder here, and a symbolic link is on the way.
        """
        target = self._path(name)

        def send(report: Report) -> None:
            if self._scheme in ("file", "local"):
                place = Path(target)
                refuse_links_to(Path(self._root), name)
                place.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(place) as stream, file.open("rb") as source:
                    while data := source.read(_RECEIVED):
                        stream.write(data)
                        report(0)
            elif self._scheme in _WHOLE_AT_ONCE:
                self._fs.put_file(str(file), target)
            else:
                self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)
                self._fs.put_file(str(file), f"{target}.partial")
                report(0)  # one that took too long stops here
                self._fs.mv(f"{target}.partial", target)
            self._fs.invalidate_cache()

        self._in_time(name, send, writes=True, deadline=self._deadline + file.stat().st_size / SLOWEST)

    def remove(self, name: str) -> None:
        """Removes a file, if it is there.

        Raises:
            WriteError: it may not be removed.
        """

        def remove(report: Report) -> None:
            with suppress(FileNotFoundError):
                self._fs.rm_file(self._path(name))

        self._in_time(name, remove, writes=True)

    def at(self, name: str) -> str:
        """A file's URL, for people."""
        return f"{self.name}/{name}" if name else self.name

    def _in_time(self, name: str, do: Callable[[Report], Found], *, writes: bool = False, deadline: float | None = None) -> Found:
        """What a read or a write returns, in a thread that is left behind when the deadline passes; failures as of `_failing`."""
        found: list[Found] = []

        def work(task: None, report: Report) -> None:
            found.append(_again(lambda: do(report)))

        limit = self._deadline if deadline is None else deadline
        with self._failing(name, writes=writes):
            in_threads(work, [None], threads=1, deadline=limit, name=self.at(name), on_done=lambda count: None)
        return found[0]

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


async def _received(system: Any, url: str, begin: int, end: int, report: Report) -> bytes:
    """Some bytes of a file from an HTTP server, and never more than these, whatever it sends."""
    options = dict(system.kwargs)
    options["headers"] = {**options.get("headers", {}), "Range": f"bytes={begin}-{end - 1}", "Accept-Encoding": "identity"}
    session, data = await system.set_session(), bytearray()
    async with session.get(system.encode_url(url), **options) as answer:
        if answer.status == 404:
            raise FileNotFoundError(url)
        if answer.status == 416:  # the file ends before these bytes
            return b""
        answer.raise_for_status()
        if begin and answer.status != 206:
            raise DatasetError(
                f"{masked(url)} cannot be read from byte {begin} on: its server sends whole files only (no HTTP ranges); "
                "use a server that supports ranges, such as nginx or an object store"
            )
        while piece := await answer.content.read(min(end - begin - len(data), _RECEIVED)):
            data += piece
            report(0)
    return bytes(data)


def _again(do: Any) -> Any:
    """Does something that a network may interrupt, a few times."""
    pause = threading.Event()
    for attempt in range(_TRIES - 1):
        try:
            return do()
        except (FileNotFoundError, PermissionError, NotImplementedError, HalohopError):
            raise
        except OSError:
            pause.wait(_PAUSE_S * 2**attempt)
    return do()
