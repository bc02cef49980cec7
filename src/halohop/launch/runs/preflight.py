"""What can be known before trainers start: whether the device, the extras, the graph or its servers, and the model are there."""

from pathlib import Path

from halohop.errors import HalohopError, InputError
from halohop.inference import parquet
from halohop.launch.terminal.refusal import RefusedError
from halohop.launch.terminal.wording import counted
from halohop.loading.metrics import prometheus
from halohop.recipes.checkpoint import load_checkpoint
from halohop.recipes.checks import servers_of
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.recipes.fit import check_fit
from halohop.recipes.opening import opened, token_of
from halohop.recipes.sharing import choose_device
from halohop.store.disk import read_manifest
from halohop.store.schema import Schema
from halohop.transport.tls import seal_of
from halohop.world import World


def check_machine(config: TrainConfig | InferConfig) -> None:
    """Looks for the device and the extras that a run needs.

    Raises:
        RefusedError: something is missing; names it.
    """
    try:
        choose_device(config.device, World())
        if servers_of(config.parts):
            seal_of(token_of(config), server=False)
        if isinstance(config, TrainConfig):
            if config.metrics is not None:
                prometheus()
        elif config.form == "parquet":
            parquet()
    except HalohopError as error:
        raise RefusedError(str(error)) from error


def check_graph(config: TrainConfig | InferConfig, nodes: int) -> None:
    """Looks at the graph, which may be on servers, and whether the model and the number of simulated nodes fit it.

    Raises:
        RefusedError: it is not there, or one of them does not fit; says why.
    """
    try:
        schema = _schema(config, nodes)
        if isinstance(config, TrainConfig):
            check_fit(config, schema)
        elif config.checkpoint is not None:
            load_checkpoint(config.checkpoint, schema)
    except HalohopError as error:
        raise RefusedError(str(error)) from error


def _schema(config: TrainConfig | InferConfig, nodes: int) -> Schema:
    if servers_of(config.parts):
        with opened(config.parts, config, World()) as graph:
            return graph.schema
    manifest = read_manifest(Path(config.parts))
    if nodes > manifest.num_parts:
        raise InputError(
            f"--nodes {nodes}, but {config.parts} has {counted(manifest.num_parts, 'partition')}, and each node needs one; use "
            f"--nodes {manifest.num_parts}, or divide the graph again: halohop partition SOURCE PARTS --parts {nodes}"
        )
    return manifest.schema
