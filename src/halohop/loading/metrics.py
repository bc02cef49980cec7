"""What a loader, a graph or a server counts, over HTTP as Prometheus reads it. Nothing is kept for it: a scrape asks for it."""

import logging
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any, Protocol
from urllib.error import URLError
from urllib.request import urlopen
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from halohop.errors import InputError, TransportError
from halohop.telemetry import Gauge
from halohop.transport.addresses import joined, parsed
from halohop.transport.base import Closing
from halohop.transport.lookup import place_of

_LOG = logging.getLogger(__name__)
_MOST_CONNECTIONS = 16
_CONNECTION_SECONDS = 10.0
_LOOK_SECONDS = 0.2

PREFIX = "halohop_"
_PEER = "peer_"


class Source(Protocol):
    """Whatever counts: a loader, a graph, a server."""

    def statistics(self) -> dict[str, float]: ...
    def statistics_by_peer(self) -> dict[str, dict[str, float]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a source counted, at one moment: its `statistics`, and those by peer."""

    sums: Mapping[str, float]
    peers: Mapping[str, Mapping[str, float]]


class Metrics(Closing):
    """An endpoint that Prometheus can scrape, until it is closed; made by `metrics`.

    Attributes:
        address: ``HOST:PORT``.
    """

    def __init__(self, source: Source, host: str, port: int) -> None:
        library = prometheus()
        registry = library.CollectorRegistry()
        registry.register(_Collector(source))
        try:
            self._server = _Server(host, port)
        except OSError as error:
            raise TransportError(f"no metrics at {joined((host, port))}: {error}; give another --metrics HOST:PORT") from error
        self._server.set_app(_with_health(library.make_wsgi_app(registry), source))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOK_SECONDS,), name="halohop-metrics", daemon=True
        )
        self._thread.start()
        self.address = joined((host, self._server.server_port))
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Ends the endpoint. Safe to call twice."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


def _with_health(metrics: WSGIApplication, source: Source) -> WSGIApplication:
    """Beside the metrics: ``/healthz``, whether the process answers, and ``/readyz``, whether it takes new requests."""

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO")
        if path not in ("/healthz", "/readyz"):
            return metrics(environ, start)
        ready = path == "/healthz" or getattr(source, "is_ready", True)
        start("200 OK" if ready else "503 Service Unavailable", [("Content-Type", "text/plain")])
        return [b"ok\n" if ready else b"it ends\n"]

    return answer


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection, each of which lasts some seconds, whatever the client does or leaves undone.

    One more than there may be, and the oldest is closed: so a scrape is answered while strangers hold connections.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        (self.address_family, *_, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}  # since when, the oldest first
        super().__init__(place_of(address), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = time.monotonic()
            if len(self._open) > _MOST_CONNECTIONS:
                _hang_up(self._open, next(iter(self._open)))
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Several times a second: ends what has lasted too long."""
        now = time.monotonic()
        with self._lock:
            for connection in [one for one, since in self._open.items() if now - since > _CONNECTION_SECONDS]:
                _hang_up(self._open, connection)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            for connection in list(self._open):
                _hang_up(self._open, connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        _LOG.debug("a connection from %s to the metrics broke", client_address, exc_info=True)


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Requests are no news."""


def _hang_up(connections: dict[socket.socket, float], connection: socket.socket) -> None:
    """Wakes the thread that reads or writes there; that thread closes the connection."""
    del connections[connection]
    with suppress(OSError):  # the client has gone
        connection.shutdown(socket.SHUT_RDWR)


class _Collector:
    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterator[Any]:
        for name, amount in sorted(self._source.statistics().items()):
            yield _family(name, PREFIX + name, {"": amount})
        by_name: dict[str, dict[str, float]] = {}
        for peer, counted in self._source.statistics_by_peer().items():
            for name, amount in counted.items():
                by_name.setdefault(name, {})[peer] = amount
        for name, amounts in sorted(by_name.items()):
            yield _family(name, PREFIX + _PEER + name, amounts)

    def describe(self) -> list[Any]:
        """Nothing is known before the first scrape."""
        return []


def metrics(source: Source, *, listen: str = "127.0.0.1:9464", ahead: int = 0) -> Metrics:
    """Lets Prometheus and `halohop top` read what a loader, a graph or a server counts; public as `halohop.metrics`.

    A sum ``draw_seconds`` of ``source.statistics()`` is the counter ``halohop_draw_seconds_total``; what may become less again,
    such as ``backlog_ready``, is a gauge. ``halohop_peer_...`` are those by peer, with the label ``peer``: divide the increase of
    ``halohop_peer_call_seconds_total`` by that of ``halohop_peer_calls_total`` for the latency.

    ``/healthz`` answers 200 as long as the process does; ``/readyz``, too, until a server takes no new requests: then 503.

    Args:
        source: what has `statistics` and `statistics_by_peer`.
        listen: ``HOST:PORT``, or ``:PORT`` on this host's loopback; port 0 takes a free one. Whoever reaches it can read it.
        ahead: listen at a port as much further, for one of several processes of a host, such as `World.local_rank`.

    Raises:
        InputError: no such address, or prometheus-client is not installed.
        TransportError: the address is taken, or not this host's.

    Example:
        >>> import halohop
        >>> from halohop.datasets import synthetic
        >>> from halohop.cluster.graph import in_memory
        >>> loader = halohop.NeighborLoader(in_memory(synthetic("tiny")), [3], "train", batch_size=100, run="inline")
        >>> with metrics(loader, listen=":0") as endpoint:
        ...     batches = list(loader)
        ...     int(scrape(endpoint.address).sums["batches"])
        6
    """
    host, port = address_of(listen, ahead=ahead)
    return Metrics(source, host, port)


def scrape(address: str, *, timeout: float = 5.0) -> Counted:
    """What an endpoint of `metrics` reports, by the names that `statistics` uses.

    Raises:
        TransportError: it does not answer within `timeout` seconds, or is none.
    """
    place = joined(address_of(address))
    try:
        with urlopen(f"http://{place}/metrics", timeout=timeout) as reply:
            text = reply.read().decode()
        families = list(_parser().text_string_to_metric_families(text))
    except (URLError, OSError, ValueError) as error:
        raise TransportError(f"no metrics at {place}: {getattr(error, 'reason', error)}; is it what --metrics said?") from error
    sums: dict[str, float] = {}
    peers: dict[str, dict[str, float]] = {}
    for sample in (sample for family in families for sample in family.samples if sample.name.startswith(PREFIX)):
        name = sample.name.removeprefix(PREFIX).removesuffix("_total")
        if "peer" in sample.labels:
            peers.setdefault(sample.labels["peer"], {})[name.removeprefix(_PEER)] = sample.value
        else:
            sums[name] = sample.value
    return Counted(sums=sums, peers=peers)


def address_of(text: str, *, ahead: int = 0) -> tuple[str, int]:
    """Host and port of an address; the port as much further as `ahead` says, for one of several processes of a host.

    Raises:
        InputError: it is none.

    Example:
        >>> address_of(":9464", ahead=1), address_of("10.0.0.7:80")
        (('127.0.0.1', 9465), ('10.0.0.7', 80))
    """
    try:
        host, port = parsed(text, default_host="127.0.0.1")
    except InputError as error:
        raise InputError(f"no address of metrics, which is HOST:PORT, such as 127.0.0.1:9464, or :9464: {error}") from error
    if port + ahead > 65535:
        raise InputError(f"the {ahead}th port after that of the metrics, {text!r}, is over 65535; give a lower port")
    return host, port + ahead if port else 0


def _family(name: str, full: str, amounts: Mapping[str, float]) -> Any:
    library = prometheus()
    now = any(isinstance(amount, Gauge) for amount in amounts.values())
    kind = library.metrics_core.GaugeMetricFamily if now else library.metrics_core.CounterMetricFamily
    labels = [] if "" in amounts else ["peer"]
    family = kind(full, f"{name} of halohop's statistics", labels=labels)
    for peer, amount in amounts.items():
        family.add_metric([peer] if labels else [], amount)
    return family


def prometheus() -> Any:
    """The library prometheus-client.

    Raises:
        InputError: it is not installed.
    """
    try:
        import prometheus_client
    except ImportError as error:
        raise InputError("metrics need prometheus-client: pip install 'halohop[metrics]'") from error
    return prometheus_client


def _parser() -> Any:
    prometheus()
    from prometheus_client import parser

    return parser
