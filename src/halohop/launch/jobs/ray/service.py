"""Graph servers on a cluster of Ray's, for a driver that starts its trainers itself."""

import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

import halohop
from halohop.cluster.graph import Graph, GraphReference
from halohop.errors import ClusterError, InputError
from halohop.files.urls import is_url
from halohop.launch.jobs.job import Servers
from halohop.launch.jobs.plan import shares_held
from halohop.launch.jobs.ray.data import Parts
from halohop.launch.jobs.ray.finder import RegistryFinder
from halohop.launch.jobs.ray.graph_server import GraphServer, ServeOptions, ServerTask
from halohop.launch.jobs.ray.library import NAMESPACE, ray_library
from halohop.launch.jobs.ray.nodes import Strategy, placed
from halohop.launch.jobs.ray.registry import RegistryClient, start_registry
from halohop.launch.processes.failures import parse_report
from halohop.launch.terminal.wording import counted
from halohop.transport import Token, load_token

_CLOSE_S = 3.0


class GraphService:
    """Servers of a graph as actors of Ray; use it as a context manager, in a process that has called ``ray.init``.

    When a server's process or its node is gone, Ray starts it again, and clients find it: the same batches follow. The servers
    end with this process, however it ends. Ray carries their addresses, never what they serve.

    Args:
        parts: the folder that `halohop.partition` wrote, or a URL.
        cache: folder on each node into which servers fetch their partitions, ``{host}`` stands for the node's name; None: all
            nodes see `parts` at this path.
        servers: how many; server K of N holds every N-th partition from K.
        replicas: how many servers hold each partition.
        shares: instead of both: which shares of the partitions each server holds, such as ``["0/2,1/2", "1/2"]``.
        name: of the service, unique in the cluster; None: a new one. Servers are the actors ``NAME-server-0``, ... in the
            namespace ``halohop``.
        token: the secret for servers and trainers; None takes the environment's HALOHOP_TOKEN, or else a new one.
        num_cpus: that Ray reserves for each server.
        strategy: "STRICT_SPREAD" puts each server on a node of its own, "SPREAD" does so as far as there are nodes.
        max_restarts: how often Ray starts a server again; -1: always.
        port: where the first server answers; the next ones answer at the following ports. 0: at free ones.
        options: of the servers.
        deadline: seconds until all servers answer.

    Attributes:
        finder: finds the servers, for `halohop.connect`.
        token: the secret.

    Raises:
        InputError: Ray is not installed or not connected, numbers that cannot work, or fewer nodes than servers need.

    Example:
        >>> with GraphService("parts", servers=2) as service:  # doctest: +SKIP
        ...     config = {"graph": service.reference()}  # a trainer: config["graph"].open()
        ...     TorchTrainer(train, train_loop_config=config, scaling_config=ScalingConfig(num_workers=4)).fit()
    """

    def __init__(
        self,
        parts: str | Path,
        *,
        cache: str | Path | None = None,
        servers: int = 1,
        replicas: int = 1,
        shares: Sequence[str] = (),
        name: str | None = None,
        token: Token | None = None,
        num_cpus: float = 1.0,
        strategy: Strategy = "STRICT_SPREAD",
        max_restarts: int = -1,
        port: int = 0,
        options: ServeOptions | None = None,
        deadline: float = 120.0,
    ) -> None:
        held = shares_held(Servers(count=servers if not shares else None, replicas=replicas, shares=tuple(shares)), servers)
        if strategy not in get_args(Strategy):
            raise InputError(f"strategy={strategy!r} is none of {list(get_args(Strategy))}")
        if not ray_library().is_initialized():
            raise InputError("this process is not connected to Ray; call ray.init(address='auto') first")
        if is_url(parts) and cache is None:
            raise InputError(f"parts={parts!r} must be fetched before it is served; give a folder for it on the nodes (cache)")
        source = Parts(
            source=str(parts if is_url(parts) else Path(parts).absolute()),
            cache=None if cache is None else str(Path(cache).absolute()),
        )
        self.token = token or load_token() or Token(secrets.token_hex(32))
        self._service = name or f"graph-{secrets.token_hex(4)}"
        self._cpus, self._strategy, self._deadline = num_cpus, strategy, deadline
        self._max_restarts = max_restarts
        self._tasks = [
            ServerTask(
                service=self._service,
                number=number,
                parts=source,
                shares=some,
                port=port and port + number,
                options=options or ServeOptions(),
            )
            for number, some in enumerate(held)
        ]
        self.finder = RegistryFinder(self._service)
        self._undo = ExitStack()
        self._actors: list[Any] = []
        self._lives: list[Any] = []

    @property
    def addresses(self) -> Sequence[str]:
        """Where the servers are now."""
        return self.finder()

    def connect(self, **options: Any) -> Graph:
        """The graph, as `halohop.connect` opens it with further options."""
        return _connect(self.finder, options)

    def reference(self, **options: Any) -> GraphReference:
        """What trainers open the graph by, with further options of `halohop.connect`. It pickles, and does not hold the token:
        a worker of Ray's asks the service for it; processes that a worker starts take theirs from the environment.
        """
        return GraphReference(opens=partial(_connect, self.finder, options))

    def check(self) -> None:
        """Sees whether every server is there, or on its way to be.

        Raises:
            ClusterError: one is gone for good; says why, as far as that is known.
        """
        ray = ray_library()
        ended, _ = ray.wait(self._lives, num_returns=len(self._lives), timeout=0)
        for life in ended:
            try:
                ray.get(life)
            except ray.exceptions.RayError as error:
                raise self._failed(error) from error

    def close(self) -> None:
        """Ends the servers. Safe to call twice."""
        self._undo.close()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            registry = start_registry(self._service, self.token, deadline=self._deadline)
            undo.callback(ray_library().kill, registry)
            bundles, what = [{"CPU": self._cpus} for _ in self._tasks], counted(len(self._tasks), "server")
            rooms = undo.enter_context(placed(bundles, self._strategy, what, deadline=self._deadline))
            kind = ray_library().remote(GraphServer)
            undo.callback(self._end_servers)
            for task, room in zip(self._tasks, rooms, strict=True):
                actor = kind.options(
                    name=f"{self._service}-{task.name}",
                    namespace=NAMESPACE,
                    max_restarts=self._max_restarts,
                    max_task_retries=-1,
                    max_concurrency=4,
                    **room,
                ).remote(task)
                self._actors.append(actor)
                self._lives.append(actor.live.remote())
            self._meet()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _meet(self) -> None:
        """Until all servers answer.

        Raises:
            ClusterError: one failed, or did not come in time.
        """
        ray = ray_library()
        try:
            ray.get([actor.address.remote() for actor in self._actors], timeout=self._deadline)
        except ray.exceptions.GetTimeoutError as error:
            names = ", ".join(task.name for task in self._tasks)
            raise ClusterError(f"of the servers {names}, not all have started within {self._deadline:g} s") from error
        except ray.exceptions.RayError as error:
            raise self._failed(error) from error

    def _end_servers(self) -> None:
        """Closes all servers, and has Ray forget them."""
        ray = ray_library()
        if self._actors:
            ray.wait(
                [actor.close.remote() for actor in self._actors],
                num_returns=len(self._actors),
                timeout=_CLOSE_S + self._tasks[0].options.grace,
            )
        for actor in self._actors:
            ray.kill(actor, no_restart=True)

    def _failed(self, error: Exception) -> Exception:
        found = parse_report(RegistryClient(self._service).ask("first_report"))
        return found or ClusterError(f"a server of {self._service!r} is gone for good: {error}")


def _connect(finder: RegistryFinder, options: dict[str, Any]) -> Graph:
    graph = halohop.connect(finder, token=finder.token(), **options)
    graph.opened_by = GraphReference(opens=partial(_connect, finder, options))
    return graph
