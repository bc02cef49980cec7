"""Opening the graph of a run, wherever it is: in a folder, on several hosts, or on servers."""

from pathlib import Path

import halohop
from halohop.cluster.graph import Graph
from halohop.recipes.config import InferConfig, TrainConfig, servers_of
from halohop.transport import Limits, Token, load_token
from halohop.world import World


def token_of(config: TrainConfig | InferConfig) -> Token | None:
    """The secret that a run shares with servers and other hosts.

    Raises:
        InputError: as of `halohop.transport.load_token`.
    """
    return load_token(config.token_file, encrypt=config.encrypt)


def opened(parts: str | Path, config: TrainConfig | InferConfig, world: World) -> Graph:
    """The graph in the folder `parts`, or on the servers that it names, with the deadlines and the token of a run.

    Raises:
        DatasetError, InputError: as of `halohop.open`.
        ClusterError, TransportError: another host or a server is not there; names it.
    """
    token = token_of(config) if config.token_file is not None or config.encrypt else None
    limits = Limits(call_seconds=min(config.deadline_s, Limits().call_seconds))
    if servers := servers_of(str(parts)):
        return halohop.connect(servers, sampling=config.sampling, token=token, limits=limits, deadline=config.deadline_s)
    return halohop.open(parts, world=world, token=token, limits=limits, deadline=config.deadline_s)
