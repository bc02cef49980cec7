"""`halohop.open`: maps what lies here, finds the hosts that hold the rest."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from halohop.attempts import Board
from halohop.cluster.device import DeviceOptions, Mode
from halohop.cluster.graph import Graph, GraphReference, local_graph
from halohop.cluster.holding import Holding
from halohop.cluster.in_memory import InMemory, OwnParts
from halohop.errors import InputError
from halohop.files.urls import is_url
from halohop.flags import checks_flags
from halohop.net.board import join_board, master_host, master_of
from halohop.net.connect import connected, with_device
from halohop.net.finders import finder_of
from halohop.net.interfaces import is_loopback, own_address
from halohop.net.joining import Meeting, joined
from halohop.net.ownership import owners
from halohop.net.partitions import all_records
from halohop.net.rendezvous import Rendezvous
from halohop.net.servers import Servers
from halohop.net.tables_here import OneHost
from halohop.store.afar.staging import Stage, Staged, staged
from halohop.store.given import Given, with_absolute_paths
from halohop.tables.owner import Owner
from halohop.transport import Limits, Token, load_token
from halohop.transport.addresses import spelled
from halohop.transport.security import TOKEN_REMEDY
from halohop.world import World


@checks_flags
def open_graph(
    path: str | Path | InMemory,
    *,
    partitions: Sequence[int] | None = None,
    columns: Given | None = None,
    world: World | None = None,
    token: Token | None = None,
    listen: str | None = None,
    verify: bool = False,
    memory: str | int | None = None,
    hot_memory: str | int = 0,
    cache: str | int | None = "auto",
    limits: Limits | None = None,
    deadline: float = 60.0,
    master: str | None = None,
    board: Board | None = None,
    advertise: str | None = None,
    stage: str | Path | None = None,
    stage_bytes: str | int | None = None,
    tables: str | Path | None = None,
    device: str | None = None,
    mode: Mode | None = None,
    feature_cache: str | float | None = None,
    cache_devices: Sequence[str] | None = None,
) -> Graph:
    """Opens a partitioned graph; public as `halohop.open`.

    Every partition found in the folder is memory-mapped: opening takes milliseconds, all processes of a host share the pages,
    and data larger than RAM works. In a world of several hosts (torchrun, `halohop train --nodes N`) the first trainer of each
    host serves its partitions to the others, and what is not found here is asked of a host that found it.

    Args:
        path: the folder that `halohop.partition` wrote; on a host of several, the manifest and some of the partitions. Or its
            URL, from which host K of N fetches its share, "K/N", unless `partitions` says otherwise. Or partitions in memory
            (`halohop.slices.MemoryPartition`), one or a list; on a host of several, its own.
        partitions: use only these of the partitions found here.
        columns: further columns, in batches as if stored: by node type or relation, then by name, a tensor, an array or the path
            of a `.npy` file with a row for each id (of nodes the user's ids, of edges their places in the user's input) from 0
            on, or a pair of ids and rows. All hosts of a world give the same; rows of nodes and edges that lie elsewhere are not
            read.
        world: who takes part; None reads torchrun's environment. Where it does not say which ranks share a host
            (`World.hosts_known`), and some partitions are not here or `master` is given, all ranks meet and find out: those on
            one machine that hold the same partitions are one host.
        token: the secret that the hosts share, and whether they encrypt; None takes the environment's HALOHOP_TOKEN and
            HALOHOP_ENCRYPT. Not needed where all addresses are loopback ones.
        listen: address for the other hosts, ``tcp://IP:PORT``; None takes the interface towards the master, and a free port.
        verify: also compare every mapped file with its checksum (reads everything once).
        memory: how much of the host's memory its mapped partitions may take, in bytes or as text ("4GB"); None: half of what is
            available when they are opened. Rows of columns that do not fit are read from disk, those of a batch at a time.
        hot_memory: how much memory this process may take, beside that, for copies of those of their rows that are read most.
        cache: how much memory this process may take for rows of other hosts' nodes that it needs often; None: none.
        limits: of the transport: deadlines per call, sizes.
        deadline: seconds to wait for the other hosts at the start and at the end.
        master: ``"HOST:PORT"`` where the hosts meet, on the host of rank 0, which keeps a store of torch's there if no launcher
            or process group does; None takes MASTER_ADDR and MASTER_PORT.
        board: a store of torch's to meet at instead.
        advertise: ``HOST:PORT`` under which the other hosts reach this one, where that is not what it listens at; port 0 stands
            for the port that it listens at.
        stage: the folder of this host into which data sets of URLs are fetched; its processes share it.
        stage_bytes: what they may take there, in bytes or as text; what was used least recently is removed. None: no limit.
        tables: a folder of this host's for tables on disk (`halohop.DistTensor`); None: tables are in memory. Others save
            tables that this host owns only below this folder, or below the working directory if it is None.
        device: a GPU ("cuda", "cuda:1") on which batches are made; None: they are made on the CPU.
        mode: who draws neighbours: "cpu", the host (None); "zero_copy", the GPU, from page-locked memory of the host; "cuda", the
            GPU, from its own memory.
        feature_cache: how much of the GPU's memory is for the rows of nodes that are read most: in bytes, as text ("4GB"), or
            as a share of what is free (0.5); the others are read from page-locked memory of the host. None: none. It is filled
            now, with the rows of all columns; those of other hosts are fetched once.
        cache_devices: GPUs of this host that divide the cache, an equal share each, and can read each other's memory; None: the
            device has it alone. For one process; several that each open the graph have a cache each.

    Raises:
        DatasetError: the folder is no complete, healthy data set of this version; names the file.
        ClusterError: no host holds a partition, a host did not come in time or was given other columns, two processes have
            one rank, or ranks were started with different world sizes.
        SchemaError: a column for a node type or relation that is not there, or of a name that is stored already.
        PeerLostError, AuthenticationError: a host cannot be reached, or has another token.
        InputError: partitions that are not here, a `memory` or `cache` that is no size, rows that do not fit the nodes or edges,
            partitions in memory that do not fit together, or no token where several hosts meet; no such GPU, a mode or cache
            without one, or a cache that is larger than what the GPU has free.

    Example:
        >>> import tempfile, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = halohop.partition(synthetic("tiny"), f"{folder}/parts", num_parts=2, method="random")
        ...     with halohop.open(f"{folder}/parts") as graph:
        ...         graph.book.num_parts
        2
    """
    on_device = DeviceOptions.of(device, mode, feature_cache, cache_devices)
    told: dict[str, Any] = {"device": device, "mode": mode, "feature_cache": feature_cache, "cache_devices": cache_devices}
    world = world or World.from_env()
    folder = None if tables is None else Path(tables)
    found = None
    if isinstance(path, str | Path) and is_url(path):
        found = staged(path, Stage.of(stage, stage_bytes), partitions=partitions, world=world)
        path, partitions = found.folder, found.parts
    held: Holding | OwnParts
    if isinstance(path, str | Path):
        held = Holding.of(Path(path), partitions=partitions, verify=verify, memory=memory, hot_memory=hot_memory)
        held = held.with_columns(columns)
    else:
        held = OwnParts.of(path, partitions=partitions, verify=verify)
    rendezvous = None
    if world.num_hosts > 1 or (not world.hosts_known and (master or board or not _is_whole(held))):
        board = board or join_board(master_of(master), rank=world.rank, deadline=deadline)
        rendezvous = Rendezvous(board, world, deadline=deadline)
        world = world if world.hosts_known else rendezvous.find_hosts(tuple(held.parts))
    if world.num_hosts == 1:
        holding = held if isinstance(held, Holding) else held.holding().with_columns(columns)
        owners([tuple(holding.parts)], holding.book.num_parts)
        host = OneHost(
            holding=replace(holding, tables=folder),
            world=world,
            meets=partial(_meeting, rendezvous, board, master, world, deadline),
            token=token,
            limits=limits or Limits(),
            deadline=deadline,
        )
        graph = local_graph(
            holding.manifest.schema,
            holding.book,
            holding.parts,
            residency=holding.residency,
            owner=Owner(holding.book, holding.parts, folder=folder, anywhere=True) if world.size == 1 else None,
            table_owners=host.owners if world.size > 1 else None,
        )
        if isinstance(path, str | Path):
            again = partial(open_graph, Path(path).resolve(), partitions=partitions, columns=with_absolute_paths(columns))
            again = partial(again, memory=memory, hot_memory=hot_memory, cache=cache, **told)
            graph.opened_by = GraphReference(opens=partial(again, world=world))  # the other's environment may name no rank
        return _ready(graph, found, on_device)
    assert rendezvous is not None
    token = token or load_token()
    listen = _listens_at(listen, master, token)
    holding = held if isinstance(held, Holding) else _met(held, rendezvous, world, deadline).with_columns(columns)
    servers = Servers(finder=rendezvous.addresses, token=token, limits=limits or Limits(), label="host")
    meeting = Meeting(rendezvous=rendezvous, world=world, listen=listen, advertise=advertise, master=master_host(master))
    graph = joined(replace(holding, tables=folder), meeting, servers, deadline=deadline, cache=cache)
    again = partial(rejoin, rendezvous.addresses(), limits=servers.limits, deadline=deadline, cache=cache, on_device=on_device)
    if isinstance(path, str | Path):
        again = partial(again, Path(path).resolve(), tuple(holding.parts), columns=with_absolute_paths(columns))
        again = partial(again, memory=memory, hot_memory=hot_memory)
    graph.opened_by = GraphReference(opens=again)
    return _ready(graph, found, on_device)


def _ready(graph: Graph, found: Staged | None, on_device: DeviceOptions | None) -> Graph:
    """The graph, with its device, and with what was fetched for it kept as long as it is open."""
    return with_device(graph if found is None else found.kept_for(graph), on_device)


def rejoin(
    servers: Sequence[str],
    path: Path | None = None,
    partitions: Sequence[int] = (),
    *,
    columns: Given | None = None,
    memory: str | int | None = None,
    hot_memory: str | int = 0,
    cache: str | int | None = "auto",
    limits: Limits,
    deadline: float,
    on_device: DeviceOptions | None = None,
) -> Graph:
    """The graph of several hosts in one more process of one of them: a client of their servers, which maps what lies here."""
    here = None
    if path is not None:
        here = Holding.of(path, partitions=partitions, memory=memory, hot_memory=hot_memory).with_columns(columns)
    where = Servers(finder=finder_of(servers), token=load_token(), limits=limits)
    graph = connected(where, sampling="client", deadline=deadline, here=here, cache=cache)
    return _ready(graph, None, on_device)


def _is_whole(held: Holding | OwnParts) -> bool:
    """Whether all partitions are here."""
    return len(held.parts) == (held.book.num_parts if isinstance(held, Holding) else held.records[0].num_parts)


def _meeting(rendezvous: Rendezvous | None, board: Board | None, master: str | None, world: World, deadline: float) -> Rendezvous:
    """Where all ranks meet; found when they first need to."""
    if rendezvous is not None:
        return rendezvous
    return Rendezvous(board or join_board(master_of(master), rank=world.rank, deadline=deadline), world, deadline=deadline)


def _listens_at(listen: str | None, master: str | None, token: Token | None) -> str:
    """Where to wait for the other hosts.

    Raises:
        InputError: others reach it, and there is no token.
    """
    listen = listen or spelled((own_address(master_host(master)), 0))
    if token is None and not is_loopback(listen):
        raise InputError(f"several hosts need a shared token; {TOKEN_REMEDY}")
    return listen


def _met(own: OwnParts, rendezvous: Rendezvous, world: World, deadline: float) -> Holding:
    """The partitions of this process, after those of all have agreed."""
    announces = world.local_rank == 0
    return own.holding(all_records(rendezvous.board, rendezvous.prefix, own.records, deadline=deadline, announces=announces))
