"""Partitions on their way to a host."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from halohop.errors import DatasetError
from halohop.files.parallel import SLOWEST
from halohop.files.reading import read_regular
from halohop.launch.jobs.host.channel import PIECE
from halohop.launch.jobs.host.messages import Compare, Copied, Message, Piece, Wanted
from halohop.launch.jobs.plan import Data
from halohop.store.disk import read_manifest
from halohop.store.manifest import STAMP, Manifest, part_folder
from halohop.store.names import MANIFEST
from halohop.store.share import in_shares

Kind = TypeVar("Kind")


class Host(Protocol):
    """A host that takes files."""

    flush_s: float

    def send(self, message: Message) -> None:
        """Sends it a message."""
        ...

    def answer(self, kind: type[Kind]) -> Kind:
        """Its next answer."""
        ...

    def check(self) -> None:
        """Raises what it says without being asked."""
        ...


def manifest_of(source: str) -> Manifest:
    """What a data set is made of; raises as `read_manifest`."""
    return read_manifest(source)


def copied(data: Data, manifest: Manifest, small: Mapping[str, bytes] | None = None) -> Copied:
    """The files of a host's partitions, and further small ones beside them.

    Raises:
        DatasetError: the data set is not all here.
    """
    source = Path(data.source)
    begins = {f"{part_folder(part)}/" for part in in_shares(data.shares, manifest.num_parts)}
    files = {path: record for path, record in manifest.files.items() if f"{path.partition('/')[0]}/" in begins}
    stamps = [path for begin in sorted(begins) if (source / (path := begin + STAMP)).exists()]
    try:
        own = {path: read_regular(source / path) for path in stamps}
        return Copied(folder=data.folder, files=files, small={**own, **(small or {})}, manifest=read_regular(source / MANIFEST))
    except FileNotFoundError as error:
        raise DatasetError(f"{error.filename} is gone; was the data set replaced meanwhile?") from error


def send(host: Host, number: int, folder: Copied, source: Path) -> int:
    """Sends what a host lacks of a folder; returns how many bytes that were.

    Args:
        host: which.
        number: of the folder, in the order.
        folder: what the host must have.
        source: where its files are here.

    Raises:
        ClusterError: the host is lost, or could not write; says why.
        DatasetError: a file is not here, or cannot be read.
    """
    host.send(Compare(number=number))
    missing = host.answer(Wanted).files
    host.flush_s = max((folder.files[path].bytes / SLOWEST for path in missing), default=0.0)
    for path in missing:
        try:
            with (source / path).open("rb") as stream:
                while data := stream.read(PIECE):
                    host.check()
                    host.send(Piece(path=path, data=data, last=False))
        except OSError as error:
            raise DatasetError(f"{source / path} cannot be read: {error.strerror}") from error
        host.send(Piece(path=path, data=b"", last=True))
    if missing:
        host.answer(Wanted)
    host.flush_s = 0.0
    return sum(folder.files[path].bytes for path in missing)
