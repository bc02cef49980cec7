"""A graph server as an actor of Ray: it starts again wherever Ray puts it, loads its partitions, and says where it is."""

import logging
import socket
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import halohop
from halohop.errors import ClusterError, DatasetError, HalohopError, InputError, TransportError, WriteError
from halohop.launch.jobs.ray.data import Parts
from halohop.launch.jobs.ray.finder import RegistryFinder
from halohop.launch.jobs.ray.library import ray_library
from halohop.launch.jobs.ray.registry import RegistryClient
from halohop.launch.processes.failures import spelled_report
from halohop.net.serve import Server
from halohop.net.service import Keeping
from halohop.store.disk import read_manifest
from halohop.store.share import Share, in_shares
from halohop.transport.addresses import joined

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of `halohop serve` that servers on Ray take, by the same names."""

    cache: str | int | None = "auto"
    memory: str | int | None = None
    hot_memory: str | int = 0
    grace: float = 0.0
    lease: float = 60.0
    metrics: str | None = None
    seeds: str | None = None
    verify: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTask:
    """What a server is to do, whichever process it is.

    Args:
        service: name of the service.
        number: of the server.
        parts: the data set.
        shares: which of these it serves; none: all.
        port: where it answers, unless that is taken; 0: at a free one.
        options: further ones.
    """

    service: str
    number: int
    parts: Parts
    shares: tuple[Share, ...]
    port: int
    options: ServeOptions

    @property
    def name(self) -> str:
        return f"server-{self.number}"


class GraphServer:
    """The actor. Ray makes it anew, with the same task, when its process or its node is gone.

    Args:
        task: what to serve.
    """

    def __init__(self, task: ServerTask) -> None:
        self._name = task.name
        self._grace = task.options.grace
        self._closed = threading.Event()
        with ExitStack() as undo:
            try:
                server = undo.enter_context(_serve(task, RegistryFinder(task.service, announces=task.name)))
                if task.options.metrics is not None:
                    undo.enter_context(halohop.metrics(server, listen=task.options.metrics))
            except Exception as error:
                said = _named(error, f"{task.name} on {socket.gethostname()}")
                RegistryClient(task.service).ask("report", spelled_report(said))
                raise
            self._undo = undo.pop_all()
        self._server = server

    def address(self) -> str:
        """Where it answers now."""
        return self._server.address

    def live(self) -> None:
        """Returns when it is closed."""
        self._closed.wait()

    def statistics(self) -> dict[str, float]:
        """As of `Server.statistics`."""
        return self._server.statistics()

    def close(self) -> None:
        """Stops answering, after what clients have asked already where there is a grace."""
        if self._grace:
            self._server.drain(self._grace)
        self._undo.close()
        self._closed.set()

    def __repr__(self) -> str:
        return self._name


def _named(error: Exception, place: str) -> HalohopError:
    """An error with its place before it: of its class if it is about what the user gave.

    Example:
        >>> _named(InputError("lr=0 must be over 0"), "server-1 on b"), _named(LookupError("no such luck"), "server-1 on b")
        (InputError('server-1 on b: lr=0 must be over 0'), ClusterError('server-1 on b failed: LookupError: no such luck'))
    """
    if not isinstance(error, InputError | DatasetError | WriteError):
        return ClusterError(f"{place} failed: {type(error).__name__}: {error}")
    kind = type(error)
    return kind.__new__(kind, f"{place}: {error}")  # whatever its constructor takes


def _serve(task: ServerTask, finder: RegistryFinder) -> Server:
    """
    Raises:
        InputError: the node does not see the folder.
        DatasetError: it is no complete, healthy data set here.
        TransportError: nothing can listen here.
    """
    options = task.options
    folder = task.parts.here(task.shares)
    host = ray_library("ray.util").get_node_ip_address()
    parts = in_shares(task.shares, read_manifest(Path(folder)).num_parts)

    def at(port: int) -> Server:
        return halohop.serve(
            folder,
            partitions=parts,
            listen=joined((host, port)),
            peers=finder,
            token=finder.token(),
            keeping=Keeping(lease_seconds=options.lease),
            cache=options.cache,
            memory=options.memory,
            hot_memory=options.hot_memory,
            seeds=options.seeds,
            verify=options.verify,
        )

    try:
        return at(task.port)
    except TransportError as error:
        if not task.port:
            raise
        _LOG.warning("%s answers at another port than %d: %s", task.name, task.port, error)
        return at(0)
