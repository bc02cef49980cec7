"""A host's result files on their way to the launcher's machine."""

from pathlib import Path
from typing import Protocol, TypeVar

from halohop.errors import ProtocolError
from halohop.launch.jobs.host.copying import write_brought
from halohop.launch.jobs.host.messages import Bring, Brought, Message, Piece

Kind = TypeVar("Kind")


class Host(Protocol):
    """A host that sends files."""

    def send(self, message: Message) -> None:
        """Sends it a message."""
        ...

    def answer(self, kind: type[Kind]) -> Kind:
        """Its next answer."""
        ...


def bring(host: Host, remote: str, folder: Path) -> list[str]:
    """Writes the files below a host's folder to one here, each whole; returns their paths.

    Raises:
        ClusterError: the host is lost.
        WriteError: they cannot be written here.
    """
    host.send(Bring(folder=remote))

    def take() -> Piece | None:
        answer = host.answer(object)
        if not isinstance(answer, Piece | Brought):
            raise ProtocolError(f"sent {type(answer).__name__} where a file was expected")
        return answer if isinstance(answer, Piece) else None

    return write_brought(folder, take)
