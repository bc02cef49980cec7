"""GLT's clients: trainers that hold no graph, and ask servers for batches, seeds and what servers know."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.errors import InputError
from halohop.glt.distributed.dist_context import DistContext, DistRole, process, required_context
from halohop.glt.distributed.dist_options import RemoteDistSamplingWorkerOptions, address_of
from halohop.glt.distributed.dist_server import QUESTIONS, DistServer
from halohop.glt.notes import note
from halohop.glt.sampler.base import NodeSamplerInput, RemoteNodePathSamplerInput, RemoteNodeSplitSamplerInput
from halohop.glt.typing import Split

SECONDS_TO_WAIT = 180.0
"""For servers, and for an answer: not less than servers wait for each other, so that errors name the one that is lost."""


def init_client(
    num_servers: int,
    num_clients: int,
    client_rank: int,
    master_addr: str,
    master_port: int,
    num_rpc_threads: int = 4,
    client_group_name: str | None = None,
    is_dynamic: bool = False,
) -> None:
    """Connects to all servers, which may start later, and takes a rank among the clients.

    Raises:
        InputError: a rank that is none, or another client's; or servers expect another number of clients.
        ClusterError: there is another number of servers, or two have one rank.
        TransportError: a server is not reached in time.
    """
    if num_rpc_threads != 4:
        note("num_rpc_threads")
    name, rank = client_group_name or "_default_client", halohop.World(rank=client_rank, size=num_clients).rank
    with ExitStack() as undo:
        limits, place = halohop.hosts.Limits(call_seconds=SECONDS_TO_WAIT), address_of(master_addr, master_port)
        graph = halohop.connect([place], num_servers=num_servers, deadline=SECONDS_TO_WAIT, limits=limits)
        undo.callback(graph.shut, wait=False)
        for card in graph.servers():
            if not is_dynamic and card.clients not in (0, num_clients):
                raise InputError(
                    f"num_clients={num_clients}, but server {card.number} waits for {card.clients}; give both the same"
                )
        graph.join(name, clients=num_clients, rank=rank)
        undo.pop_all()
    process.context = DistContext(DistRole.CLIENT, name, num_clients, rank, num_servers + num_clients, num_servers + rank)
    process.graph = graph


def shutdown_client() -> None:
    """Leaves the servers, which end once all clients have left. A second call changes nothing."""
    graph, process.graph = process.graph, None
    if graph is not None:
        graph.close()


def request_server(server_rank: int, func: Any, *args: Any, **kwargs: Any) -> Any:
    """Asks a server one of a fixed table of questions: methods of `DistServer`, and torch's about GPUs.

    Raises:
        InputError: another function, or a server that is not there.
    """
    card = (graph := connected("request_server")).server(server_rank)
    if func in (torch.cuda.device_count, torch.cuda.is_available):
        return card.gpus if func is torch.cuda.device_count else card.gpus > 0
    if func not in QUESTIONS.values():
        raise InputError(
            f"servers do not know {getattr(func, '__qualname__', func)}, and run no code from the network; ask them for "
            f"{', '.join(QUESTIONS)} (of DistServer), or torch.cuda.device_count"
        )
    return func(DistServer(None, graph, card.parts[0]), *args, **kwargs)


def async_request_server(server_rank: int, func: Any, *args: Any, **kwargs: Any) -> "torch.futures.Future[Any]":
    """The same as a future, which is done when this returns."""
    done: torch.futures.Future[Any] = torch.futures.Future()
    done.set_result(request_server(server_rank, func, *args, **kwargs))
    return done


def connected(what: str) -> halohop.Graph:
    """The graph on the servers.

    Raises:
        InputError: this process is no client.
    """
    if process.graph is None or not required_context(what).is_client():
        raise InputError(f"{what} needs servers; call init_client(...) before")
    return process.graph


def remote_world(options: RemoteDistSamplingWorkerOptions) -> tuple[halohop.World, bool]:
    """The clients that a loader is one of, and whether each of them goes through all seeds that it names.

    With a `worker_key` they divide them. Clients that name no server, or their own by `halohop.Graph.share_servers`, divide them
    with those that have the same servers; clients that name several others, with all clients.

    Raises:
        InputError: it is not known which clients these are.
    """
    graph, world = connected("a remote loader"), required_context("a remote loader").world
    named, (own, sharing) = _asked(options), graph.share_servers(world)
    if options.worker_key is None:
        return world, True
    if options.server_rank is None or sorted(named) in (sorted(own), own[:1]):
        return sharing, False
    if len({*named}) > 1:
        return world, False
    raise InputError(
        f"worker_key={options.worker_key!r} divides seeds among clients, but server_rank={options.server_rank} does not say "
        f"which; name several servers, or number {own[0]} (client_rank % num_servers), or leave worker_key out"
    )


def remote_nodes(nodes: Any, input_type: str | None, options: Any) -> Any:
    """Ids of seeds at servers: of a `Split`, or of files, a path for each server. Other seeds stay as they are.

    Raises:
        InputError: not a path for each server, or one that its server does not have or does not show; or an unknown server.
    """
    given = nodes if isinstance(nodes, list) else [nodes]
    if not given or not all(isinstance(one, Split | str | Path) for one in given):
        return nodes
    if not isinstance(options, RemoteDistSamplingWorkerOptions):
        raise InputError(f"input_nodes={nodes!r} lie at servers; give ids, or RemoteDistSamplingWorkerOptions")
    graph, servers = connected("RemoteDistSamplingWorkerOptions"), _asked(options)
    if isinstance(nodes, Split):
        given = [nodes] * len(servers)
    if len(given) != len(servers):
        raise InputError(f"input_nodes names {len(given)} files, but server_rank={servers}; give one path for each server")

    def read(one: Split | str | Path, server: int) -> Tensor:
        if isinstance(one, Split):
            return graph.seed_split(one.value, node_type=input_type, server=server)
        return graph.seed_file(str(one), server=server)

    return torch.cat(list(map(read, given, servers)))


def local_input(given: Any, options: Any) -> Any:
    """What a `DistLoader` is given, with the ids in it: of a `RemoteSamplerInput`, or of one for each server."""
    inputs = given if isinstance(given, list) else [given]
    if not all(isinstance(one, RemoteNodePathSamplerInput | RemoteNodeSplitSamplerInput) for one in inputs):
        return given
    kind = inputs[0].input_type
    names = [one.split if isinstance(one, RemoteNodeSplitSamplerInput) else one.node_path for one in inputs]
    return NodeSamplerInput(remote_nodes(names if isinstance(given, list) else names[0], kind, options), kind)


def _asked(options: RemoteDistSamplingWorkerOptions) -> list[int]:
    """The ranks of the servers that the options name. If they name none: this client's share of all servers."""
    graph, rank = connected("RemoteDistSamplingWorkerOptions"), options.server_rank
    if rank is None:
        return graph.share_servers(required_context("a client").world)[0]
    return [graph.server(each).number for each in ([rank] if isinstance(rank, int) else rank)]
