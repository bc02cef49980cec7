"""`halohop serve`: a host that answers about its partitions, for trainers that hold no graph."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from halohop import ops
from halohop.cluster.holding import Holding
from halohop.cluster.remote import DescribeReply, DescribeRequest, graph_codec
from halohop.cluster.router import Router
from halohop.errors import InputError
from halohop.telemetry import Counters
from halohop.transport import Limits, Token, load_token, zeromq


class Server:
    """Serves partitions until it is closed. Clients come and go; none of them leaves anything behind.

    Attributes:
        address: what clients connect to.
        parts: the partitions that are served.
    """

    def __init__(self, holding: Holding, *, token: Token | None, listen: str | None, limits: Limits) -> None:
        self.parts = tuple(holding.parts)
        self._counters = Counters()
        self._about = DescribeReply(manifest=holding.document, parts=self.parts)
        pool = ops.Pool()
        self._router = Router(holding.book, holding.holders(pool, self._counters), pool, self._counters)
        self._listener = zeromq.serve(self._answer, codec=graph_codec(), token=token, bind=listen, limits=limits)
        self.address = self._listener.address

    def _answer(self, request: Any) -> Any:
        return self._about if isinstance(request, DescribeRequest) else self._router.answer(request)

    def statistics(self) -> dict[str, float]:
        """Sums so far: seconds that answers took, and what the transport counts."""
        transport = {f"transport_{name}": amount for name, amount in self._listener.statistics().items()}
        return {**self._counters.snapshot(), **transport}

    def close(self) -> None:
        """Stops answering. Safe to call twice."""
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def serve(
    path: str | Path,
    *,
    partitions: Sequence[int] | None = None,
    listen: str | None = None,
    token: Token | None = None,
    limits: Limits | None = None,
    verify: bool = False,
) -> Server:
    """Serves the partitions of a data set to whoever shares the token; public as `halohop.serve`.

    Args:
        path: the folder that `halohop.partition` wrote, or the manifest and some of the partitions.
        partitions: serve only these of the partitions found here.
        listen: ``HOST:PORT``; None takes this host's loopback and a free port. Other hosts are let in only with a token.
        token: the secret that servers and trainers share; None takes the environment's HALOHOP_TOKEN.
        limits: of the transport: deadlines, sizes, how much may be in flight.
        verify: also compare every mapped file with its checksum.

    Raises:
        DatasetError: the folder is no complete, healthy data set of this version; names the file.
        InputError: partitions that are not here, none at all, or an address that others can reach without a token.
        TransportError: the address is taken, or not this host's.

    Example:
        >>> import tempfile, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = halohop.partition(synthetic("tiny"), f"{folder}/parts", num_parts=2, method="random")
        ...     with serve(f"{folder}/parts") as server, halohop.connect([server.address]) as graph:
        ...         graph.schema.nodes["node"].count
        1000
    """
    holding = Holding.of(Path(path), partitions=partitions, verify=verify)
    if not holding.parts:
        raise InputError(f"there is no partition in {path} to serve; copy a part-* folder to it")
    ops.warm_up()
    return Server(holding, token=token or load_token(), listen=listen, limits=limits or Limits())
