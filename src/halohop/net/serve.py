"""`halohop serve`: a host that answers about its partitions, and makes batches, for trainers that hold no graph."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from halohop import ops
from halohop.attempts import Board
from halohop.cluster.graph import Graph
from halohop.cluster.holding import Holding
from halohop.cluster.in_memory import InMemory, OwnParts
from halohop.cluster.shard import LocalShard
from halohop.errors import InputError
from halohop.files.urls import is_url
from halohop.flags import checks_flags
from halohop.net.attendance import Expected
from halohop.net.finders import Awaited, Finder, Listed, finder_of
from halohop.net.interfaces import own_address, reached_as
from halohop.net.messages import server_codec
from halohop.net.partitions import all_records
from halohop.net.periodic import PeriodicThread
from halohop.net.seed_files import SeedFiles, Splits
from halohop.net.servers import Servers
from halohop.net.service import Keeping, Service
from halohop.sampling.remote import BatchRequest
from halohop.store.afar.staging import Stage, staged
from halohop.store.given import Given
from halohop.telemetry import Counters
from halohop.transport import Limits, Token, load_token, tcp
from halohop.transport.addresses import parsed_peer, spelled
from halohop.transport.base import Closing
from halohop.world import World

_SWEEPS_PER_LEASE = 10
_MEETING_SECONDS = 60.0


class Server(Closing):
    """Serves partitions until it is closed. Clients come and go; what is kept for one goes a lease after it, at the latest.

    Args:
        holding: what it serves.
        listen: ``HOST:PORT``; None takes this host's loopback and a free port.
        advertise: as of `serve`.
        servers: where the others are looked for, and what it takes to talk to them.
        keeping: what is kept for clients.
        shard, pool: the partitions, and memory for answers, where this process has them already.
        clients, seeds, splits, world: as of `serve`.

    Attributes:
        address: what clients connect to.
        parts: the partitions that are served.
        directory: the other servers that this one knows.
        tables: the rows of tables that lie with its partitions.
        is_ready: whether it takes new requests.
    """

    def __init__(
        self,
        holding: Holding,
        *,
        listen: str | None,
        servers: Servers,
        keeping: Keeping,
        shard: LocalShard | None = None,
        pool: ops.Pool | None = None,
        clients: Expected = None,
        seeds: str | Path | None = None,
        splits: Splits | None = None,
        advertise: str | None = None,
        world: World | None = None,
    ) -> None:
        self.parts = tuple(holding.parts)
        self.is_ready = True
        self._process = os.getpid()
        pool = pool or ops.Pool()
        counters = Counters()
        shard = shard or holding.shard(pool, counters)
        files = SeedFiles(seeds, splits, holding.manifest.schema)
        self._world = world or World()
        self._service = Service(holding, shard, servers, keeping, pool, counters, clients=clients, seeds=files, world=world)
        self.directory, self.tables = self._service.directory, shard.owner
        with ExitStack() as undo:
            undo.callback(self._service.close)
            self._listener = undo.enter_context(
                tcp.serve(
                    self._service.answer,
                    codec=server_codec(),
                    token=servers.token,
                    bind=listen,
                    limits=servers.limits,
                    waiting=(BatchRequest,),
                    identity=holding.identity,
                )
            )
            self.address = self._listener.address if advertise is None else reached_as(advertise, self._listener.address)
            sweeps = keeping.lease_seconds / _SWEEPS_PER_LEASE
            undo.enter_context(PeriodicThread(sweeps, self._service.sweep, name=f"sweeper-{self.address}"))
            self.directory.begin(self.address)
            self._undo = undo.pop_all()

    def meet(self, *, deadline: float = 60.0) -> None:
        """Sees that this server fits to the others of `world`: waits for the one at `master`, and asks all that it knows.

        Number 0 does not wait; clients wait for all servers (`halohop.connect(num_servers=)`).

        Raises:
            PeerLostError: the server at `master` did not come within the deadline (seconds).
            ClusterError: two servers have one number, one was started among another number of servers, or has another data set.
        """
        self._service.meet(self._world, self.address, deadline=deadline)

    @property
    def graph(self) -> Graph:
        """The whole graph as this server sees it: its partitions, and those of the servers that it knows.

        Raises:
            InputError: partitions are not here, and it knows no other server.
            PeerLostError, ClusterError: no server was found that has them.
        """
        return self._service.graph

    def wait(self, seconds: float | None = None) -> bool:
        """Until the clients that were expected have come, and all have left or are lost; whether that is so after some seconds.

        Without `clients` that never is.
        """
        return self._service.attendance.over.wait(seconds)

    def statistics(self) -> dict[str, float]:
        """Sums so far: seconds that answers took, batches, rows asked here and of peers, and what the transport counts. Of now:
        what is kept for clients ("kept_samplers", "kept_senders" of writes to tables), tables and their bytes ("tables",
        "table_bytes"), steps and writes that are not done ("pending_changes"), clients that said lately that they are there
        ("clients"), and memory that lies idle.
        """
        transport = {f"transport_{name}": amount for name, amount in self._listener.statistics().items()}
        return {**self._service.statistics(), **transport}

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        """Of each other server that this one asks to make batches: calls, their seconds, bytes, what waits."""
        return self.directory.statistics_by_peer()

    def drain(self, seconds: float) -> bool:
        """Prepares the end: takes no new requests, answers what it has, and says goodbye to clients, which turn to servers that
        have the same partitions.

        Returns:
            Whether all clients had their answers and left before the seconds were over. The server is still to be closed.
        """
        self.is_ready = False
        self.directory.withdraw()
        return self._listener.drain(seconds)

    def close(self) -> None:
        """Stops answering. Safe to call twice; a process that was forked from the server's ends nothing."""
        if os.getpid() == self._process:
            self._undo.close()


@checks_flags
def serve(
    path: str | Path | InMemory,
    *,
    partitions: Sequence[int] | None = None,
    columns: Given | None = None,
    listen: str | None = None,
    peers: Sequence[str] | Finder = (),
    token: Token | None = None,
    limits: Limits | None = None,
    keeping: Keeping | None = None,
    verify: bool = False,
    memory: str | int | None = None,
    hot_memory: str | int = 0,
    cache: str | int | None = "auto",
    board: Board | None = None,
    clients: Expected = None,
    seeds: str | Path | None = None,
    splits: Splits | None = None,
    master: str | None = None,
    world: World | None = None,
    advertise: str | None = None,
    stage: str | Path | None = None,
    stage_bytes: str | int | None = None,
    tables: str | Path | None = None,
) -> Server:
    """Serves the partitions of a data set to clients that share the token; public as `halohop.serve`.

    Args:
        path: the folder that `halohop.partition` wrote, or the manifest and some of the partitions. Or its URL, from which all
            partitions are fetched, or those of `partitions`. Or partitions in memory (`halohop.slices.MemoryPartition`), one or a
            list.
        partitions: serve only these of the partitions found here.
        columns: further columns, as of `halohop.open`; all servers of a data set give the same.
        listen: ``HOST:PORT``; None takes this host's loopback and a free port. Other hosts are let in only with a token.
        peers: the other servers' addresses, where these hold what is not here, or a callable that returns these (see
            `halohop.net.finders`); without them this one cannot sample for trainers. They may start later.
        token: the secret that servers and trainers share, and whether they encrypt; None takes the environment's HALOHOP_TOKEN
            and HALOHOP_ENCRYPT.
        limits: of the transport: deadlines, sizes, how much may be in flight.
        keeping: what is kept for clients, and how long after they are gone: a minute unless told otherwise.
        verify: also compare every mapped file with its checksum.
        memory, hot_memory: how much of this host's memory the mapped partitions, and copies of rows of theirs, may take, as of
            `halohop.open`.
        cache: how much memory it may take for rows of its peers that batches which it makes need often, as of `halohop.open`.
        board: a store of torch's (`torch.distributed.TCPStore`, ...) where servers with partitions in memory agree how many edges
            each has. They wait for each other there. Without it every partition must know the owners of all edges.
        clients: how many graphs will connect: `Server.wait` waits until they have come, and have left or are lost. One is lost
            when it was not heard of for a lease of `keeping`. "jobs": as many as a job has that they join (`Graph.join`); its
            clients may come and go until each number was taken once.
        seeds: a folder of `.npy` and `.pt` files with ids that clients may read (`Graph.seed_file`); nothing outside of it.
        splits: ids of nodes that clients may read by name (`Graph.seed_split`): of this server's share, for example.
        master: ``HOST:PORT`` where all servers of `world` find each other, and clients find them: number 0 listens there, the
            others at the interface towards it and a free port. It takes the place of `listen` and `peers`.
        world: this server's number among all (`World(rank=..., size=...)`), by which clients name it (`Graph.servers`).
        advertise: ``HOST:PORT`` under which others reach this server, where that is not what it listens at: behind a published
            port, or a name that moves with it. Port 0 stands for the port that it listens at. None: where it listens.
        stage, stage_bytes: where data sets of URLs are fetched to, as of `halohop.open`.
        tables: a folder of this server's for tables on disk, and for checkpoints of tables; None: it can have neither.

    Raises:
        ClusterError: a partition in memory that did not come to the board.
        DatasetError: the folder is no complete, healthy data set of this version; names the file.
        SchemaError: a column for a node type or relation that is not there, or of a name that is stored already.
        InputError: partitions that are not here, none at all, rows that do not fit the nodes or edges, an address that others
            can reach without a token, or a `master` beside `listen` or `peers`.
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
    finder = finder_of(peers)
    if master is not None:
        if listen is not None or finder != Listed(addresses=()):
            raise InputError(f"master={master!r} says where servers listen and find each other; leave out listen and peers")
        listen, finder = _around(master, world or World())
    found = None
    if isinstance(path, str | Path) and is_url(path):
        found = staged(path, Stage.of(stage, stage_bytes), partitions=partitions)
        path, partitions = found.folder, found.parts
    if isinstance(path, str | Path):
        holding = Holding.of(Path(path), partitions=partitions, verify=verify, memory=memory, hot_memory=hot_memory)
    else:
        own = OwnParts.of(path, partitions=partitions, verify=verify)
        holding = own.holding(None if board is None else all_records(board, "halohop", own.records, deadline=_MEETING_SECONDS))
    holding = replace(holding, tables=None if tables is None else Path(tables), saves_anywhere=False).with_columns(columns)
    if not holding.parts:
        raise InputError(f"there is no partition in {path} to serve; copy a part-* folder to it")
    ops.warm_up()
    if tables is not None:
        ops.warm_up_tables()  # not within an answer, whose deadline it would exceed
    ops.warm_up_near()  # for batches that a server with the whole graph makes
    servers = Servers(finder=finder, token=token or load_token(), limits=limits or Limits())
    keeping = replace(keeping or Keeping(), cache=cache)
    server = Server(
        holding,
        listen=listen,
        advertise=advertise,
        servers=servers,
        keeping=keeping,
        clients=clients,
        seeds=seeds,
        splits=splits,
        world=world,
    )
    return server if found is None else found.kept_for(server)


def _around(master: str, world: World) -> tuple[str, Finder]:
    """Where a server listens that meets others at an address, and where it looks for them."""
    if world.rank == 0:
        return spelled(parsed_peer(master)), Awaited()
    return spelled((own_address(parsed_peer(master)[0]), 0)), Listed(addresses=(master,))
