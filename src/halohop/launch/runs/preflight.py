"""What can be known before trainers start: whether the device, the extras, the graph or its servers, and the model are there."""

from pathlib import Path

from halohop.errors import HalohopError
from halohop.inference import parquet
from halohop.launch.terminal.refusal import RefusedError
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


def check_graph(config: TrainConfig | InferConfig) -> None:
    """Looks at the graph, which may be on servers, and whether the model fits it.

    Raises:
        RefusedError: it is not there, or the model does not fit; says why.
    """
    try:
        schema = _schema(config)
        if isinstance(config, TrainConfig):
            check_fit(config, schema)
        elif config.checkpoint is not None:
            load_checkpoint(config.checkpoint, schema)
    except HalohopError as error:
        raise RefusedError(str(error)) from error


def _schema(config: TrainConfig | InferConfig) -> Schema:
    if servers_of(config.parts):
        with opened(config.parts, config, World()) as graph:
            return graph.schema
    return read_manifest(Path(config.parts)).schema
