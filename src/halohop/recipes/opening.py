"""Opening the graph of a run, wherever it is: in a folder, on several hosts, or on servers."""

from pathlib import Path
from typing import Any

import torch

import halohop
from halohop import Graph, World
from halohop.errors import InputError
from halohop.hosts import Limits
from halohop.recipes.checks import servers_of
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.security import Token, load_token


def token_of(config: TrainConfig | InferConfig) -> Token | None:
    """The secret that a run shares with servers and other hosts.

    Raises:
        InputError: as of `halohop.security.load_token`.
    """
    return load_token(config.token_file, encrypt=config.encrypt)


def opened(parts: str | Path, config: TrainConfig | InferConfig, world: World, device: torch.device | None = None) -> Graph:
    """The graph in the folder `parts`, or on the servers that it names, with the deadlines and the token of a run, for batches
    that are used on a device (None: the CPU).

    Raises:
        DatasetError, InputError: as of `halohop.open`.
        ClusterError, TransportError: another host or a server is not there; names it.
        InputError: it has the out-edges of nodes, for which the recipes have no models.
    """
    options = connection_options(config)
    if isinstance(config, TrainConfig):
        options["cache"] = config.cache
    if servers := servers_of(str(parts)):
        if isinstance(config, TrainConfig) and (config.mode is not None or config.feature_cache is not None):
            raise InputError("mode and feature_cache are for graphs in a folder, and this one is on servers; leave them out")
        graph = halohop.connect(servers, sampling=config.sampling, **options)
    else:
        if isinstance(config, TrainConfig):
            options |= {"memory": config.memory, "hot_memory": config.hot_memory or 0}
            options["tables"] = config.out if Path(config.out).is_absolute() else None  # where rank 0 has other owners save
            if config.mode is not None or config.feature_cache is not None:
                gpu = None if device is None or device.type == "cpu" else str(device)
                options |= {"device": gpu, "mode": config.mode, "feature_cache": config.feature_cache}
        graph = halohop.open(parts, world=world, **options)
    try:
        graph.book.require_in_edges("a recipe")
    except BaseException:
        graph.shut(wait=False)
        raise
    return graph


def connection_options(config: TrainConfig | InferConfig) -> dict[str, Any]:
    """The token, the limits and the deadline of a run, as `halohop.open` and `halohop.connect` take them."""
    return {
        "token": token_of(config) if config.token_file is not None or config.encrypt else None,
        "limits": Limits(call_seconds=min(config.deadline_s, Limits().call_seconds)),
        "deadline": config.deadline_s,
    }
