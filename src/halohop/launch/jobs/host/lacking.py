"""Who a host is, and what of an order cannot work on it: known before anything is started anywhere.

A host offers free ports at random, so that two jobs rarely take the same one. Holding their sockets through torchrun costs more
than that is worth.
"""

import hashlib
import os
import platform
import random
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path

from halohop import __version__
from halohop.errors import DeadlineExceededError
from halohop.files.aside import boot
from halohop.files.parallel import in_threads
from halohop.launch.jobs.host.messages import Checked, Copied, Hello, Order, Seen
from halohop.launch.jobs.host.parts import num_parts_of, parts_in
from halohop.linux import namespace
from halohop.memory import format_size
from halohop.store.names import MANIFEST

_OWN_PORTS = range(20000, 32768)  # below those that systems give to connections
_OFFERED = 64
HANG_S = 60.0
"""Seconds after which storage that does not answer is taken for one that never will."""


def hello() -> Hello:
    """Who this host is."""
    return Hello(
        python=platform.python_version(),
        torch=_version("torch"),
        halohop=__version__,
        executable=sys.executable,
        machine=f"{boot()} {namespace('net')}",
        ports=free_ports(_OFFERED),
    )


def free_ports(count: int) -> tuple[int, ...]:
    """Ports at which nothing listens, in any order: two jobs that ask at the same moment hardly take the same."""
    tried = random.SystemRandom().sample(_OWN_PORTS, len(_OWN_PORTS))
    return tuple(islice((port for port in tried if _port(port) is None), count))


def checked(order: Order) -> Checked:
    """What this host finds of an order."""
    if found := problems(order):
        return Checked(problems=found)
    try:
        seen = Checked(problems=(), shared=sees(*order.mark), seen=tuple(_alike(order)))
        folder = Path(order.reads[0]) if order.reads else None
        return seen if folder is None else replace(seen, parts=parts_in(folder), num_parts=num_parts_of(folder))
    except OSError as error:
        return Checked(problems=(f"{error.filename} cannot be read by {_user()}: {error.strerror}; change its permissions",))


def checked_in_time(order: Order, seconds: float = HANG_S) -> Checked:
    """As `checked`; if the folders do not answer for so many seconds, that is the problem."""
    found: list[Checked] = []
    try:
        in_threads(
            lambda one, _: found.append(checked(one)),
            [order],
            threads=1,
            deadline=seconds,
            name="check folders",
            on_done=lambda _: None,
        )
    except DeadlineExceededError:
        folders = dict.fromkeys([order.folder, *order.reads, *(copied.folder for copied in order.copied)])
        return Checked(
            problems=(f"{', '.join(folders)} did not answer within {seconds:g} s; see whether the storage of this host works",)
        )
    return found[0]


def problems(order: Order) -> tuple[str, ...]:
    """What of an order cannot work here, a sentence each."""
    found = [*_places(order)]
    for folder in order.reads:
        found += _data(Path(folder))
    for copied in order.copied:
        found += _room(copied)
    found += [problem for port in order.ports if (problem := _port(port))]
    return tuple(found)


def misses(copied: Copied) -> list[str]:
    """The files of a folder that are not there, or are of another size."""
    return [path for path, record in copied.files.items() if _size(Path(copied.folder) / path) != record.bytes]


def sees(file: str, text: str) -> bool:
    """Whether a file is here, with this text."""
    with suppress(OSError, UnicodeDecodeError):
        return Path(file).read_text() == text
    return False


def _alike(order: Order) -> Iterator[Seen]:
    """The files that are to be the same on all hosts."""
    files = [Path(order.folder) / file for file in (*order.scripts, *order.same)]
    for file in (*files, *(Path(folder) / MANIFEST for folder in order.reads)):
        with file.open("rb") as stream:
            yield Seen(path=str(file), digest=hashlib.file_digest(stream, "sha256").hexdigest())


def _places(order: Order) -> Iterator[str]:
    folder = Path(order.folder)
    if not folder.is_dir():
        yield f"there is no folder {folder}, where the processes are to work; make it, or name another one (folder)"
        return
    for script in order.scripts:
        if not (folder / script).is_file():
            yield f"there is no script {folder / script}; copy it there, or name a folder that all hosts see (folder)"
    for file in order.same:
        if not (folder / file).is_file():
            yield f"there is no file {folder / file}, which all hosts need; copy it there, or share the folder"


def _data(folder: Path) -> Iterator[str]:
    if not (folder / MANIFEST).exists():
        yield (
            f"{folder} has no {MANIFEST}: this host does not see the data set; share the folder with it, or name a folder for "
            "copies of its partitions (cache)"
        )


def _room(copied: Copied) -> Iterator[str]:
    folder = Path(copied.folder)
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield f"{folder} cannot be written, because {there} is not a folder of {_user()}; name another one (cache, workspace)"
        return
    needed = sum(copied.files[path].bytes for path in misses(copied))
    if needed > (free := shutil.disk_usage(there).free):
        yield (
            f"{folder} needs {format_size(needed)} more for its partitions, but {format_size(free)} are free there; "
            "make room, or name another folder (cache, workspace)"
        )


def _port(port: int) -> str | None:
    """What keeps a port from being listened at, on all interfaces."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that has just been left is free
        try:
            probe.bind(("", port))
            probe.listen()
        except OSError as error:
            return (
                f"port {port} cannot be used: {error.strerror}; end what listens there, or give another one (port, master_port)"
            )
    return None


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None


def _user() -> str:
    return f"user {os.environ.get('USER') or os.getuid()}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
