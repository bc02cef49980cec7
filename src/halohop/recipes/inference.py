"""Predictions and embeddings of all nodes or a split, by one trainer or by many.

Row i of every result belongs to the i-th node in ascending order of raw ids. No process holds all results in
memory, only the ids.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from halohop import Graph, World
from halohop import inference as layerwise
from halohop.collectives import world_of
from halohop.errors import InputError
from halohop.inference import InferenceJob, check_results, finish_results, parquet
from halohop.recipes.checkpoint import CheckpointInfo, load_checkpoint
from halohop.recipes.config import InferConfig, read_config
from halohop.recipes.events import Event, print_event
from halohop.recipes.layered_models import trained_layers
from halohop.recipes.link_model import LinkPredictor
from halohop.recipes.models import NodeClassifier
from halohop.recipes.opening import connection_options
from halohop.recipes.predict_batches import predicted_batches
from halohop.recipes.sharing import choose_device, shared_graph
from halohop.typing import OnProgress


def infer(
    config: InferConfig,
    *,
    model: nn.Module | None = None,
    world: World | None = None,
    on_progress: OnProgress | None = None,
) -> list[Path]:
    """Writes what a model says of the nodes; called by every trainer of the world.

    ``raw_ids.npy`` (int64 ``[n]``), ``predictions.npy`` (int64 ``[n]``, classes), ``confidence.npy`` (float32 ``[n]``, the
    probability that the model gives to that class) and, on request, ``embeddings.npy`` (float32 ``[n, hidden]``). Where the
    user's ids or labels were strings, also ``ids.npy`` (``[n]``) and ``classes.npy`` (the name of each class). Or a Parquet file
    with the same columns, and a column "class" of names. With several classes per node, predictions are uint8 ``[n, classes]``
    (0 or 1), and confidence float32 ``[n, classes]``.

    Without ``config.fanout`` all neighbours count, and each layer is computed once for every node. Such a run keeps what it has
    done in ``<out>/unfinished``; the same call after it was stopped, even killed, goes on from there, to the same result. With a
    fanout every node's neighbourhood is drawn, and nothing is kept. A model that predicts links only writes ``embeddings.npy``
    beside the ids: what its decoder compares, for the nodes of ``config.target``.

    Args:
        config: what to do.
        model: your own, instead of a checkpoint's: see `halohop.inference.UserLayers` for what it must offer.
        world: this trainer's place; None takes that in the process group that exists, or else what the launcher describes.
        on_progress: called with (what is being done, how much is done, how much there is): about once a second, by all ranks
            alike; in batches with a fanout after each step of this rank.

    The files appear together, when all are complete; until then, and after a failure, older ones stay.

    Returns:
        The files, which are complete when this returns on any rank; rank 0 has written them.

    Raises:
        InputError: results are there already and ``config.overwrite`` is false, Parquet without pyarrow, a fanout or a model that
            does not fit, or a folder with an unfinished run of another model or graph.
        DatasetError: the checkpoint or the graph cannot be read.
        WriteError: a file cannot be written; names it.
        SchemaError: the graph is not one that the model knows, or has no such split.
        TransportError, ClusterError: another host or trainer is gone; names it.
    """
    world, on_progress = world_of(world), on_progress or _ignore
    if (model is None) == (config.checkpoint is None):
        raise InputError(f"checkpoint={config.checkpoint!r} and model={type(model).__name__}: give one of them")
    if model is not None and config.fanout is not None:
        raise InputError(f"fanout={config.fanout} is for the recipes' own models; leave it out to compute yours layer by layer")
    if config.form == "parquet":
        parquet()  # fails now, rather than after hours, where it is not installed
    if world.rank == 0:
        check_output(config)
    device = choose_device(config.device, world)
    job = _job(config, world, device, on_progress)
    with shared_graph(config, world=world, device=device) as graph:
        if model is not None:
            return layerwise.infer(model, graph, job, target=config.target, embeddings=config.embeddings)
        module, info = _trained(config, graph)
        if config.fanout is None:
            target = module.spec.target if config.target is None else graph.schema.node_type(config.target)
            layers = trained_layers(module, graph, target, embeddings=config.embeddings)
            return layerwise.infer(layers, graph, job, classes=module.spec.classes)
        with predicted_batches(module, info, graph, config, job) as results:
            return finish_results(results, graph, info.model.target, job, classes=module.spec.classes)


def check_output(config: InferConfig) -> None:
    """Refuses to lose results without having been asked to; raises as `halohop.inference.check_results`."""
    check_results(Path(config.out), overwrite=config.overwrite, by_layers=config.fanout is None)


def _job(config: InferConfig, world: World, device: torch.device, on_progress: OnProgress) -> InferenceJob:
    return InferenceJob(
        parts=Path(config.parts),
        out=Path(config.out),
        split=config.split,
        form=config.form,
        overwrite=config.overwrite,
        batch_size=config.batch_size,
        batch_edges=config.batch_edges,
        world=world,
        device=device,
        on_progress=on_progress,
        opening=connection_options(config),
    )


def _trained(config: InferConfig, graph: Graph) -> tuple[NodeClassifier, CheckpointInfo]:
    """What a checkpoint says of nodes: a classifier, or the part of a link model that makes their vectors."""
    assert config.checkpoint is not None
    model, info = load_checkpoint(config.checkpoint, graph.schema)
    if isinstance(model, LinkPredictor):
        if config.fanout is not None:
            raise InputError(
                f"fanout={config.fanout} is for models that classify nodes; leave it out to get a link model's vectors"
            )
        return model.encoder, info
    if config.target not in (None, info.model.target):
        raise InputError(f"target={config.target!r}, but the model classifies nodes of {info.model.target!r}; leave it out")
    return model, info


def main(arguments: list[str]) -> int:
    """``python -m halohop.recipes.inference CONFIG.json``: one process of several, as `halohop.recipes.trainer` is."""
    if len(arguments) != 1:
        print("usage: python -m halohop.recipes.inference CONFIG.json", file=sys.stderr)
        return 2
    world = World.detect()
    infer_with_events(read_config(InferConfig, arguments[0]), world, print_event if world.rank == 0 else _ignore)
    return 0


def infer_with_events(config: InferConfig, world: World, on_event: Callable[[Event], None]) -> None:
    """`infer`, which sends what it does as events: "progress", and "end" with the files."""

    def on_progress(stage: str, done: int, total: int) -> None:
        on_event({"event": "progress", "stage": stage, "done": done, "total": total})

    files = infer(config, world=world, on_progress=on_progress)
    on_event({"event": "end", "files": [str(file) for file in files]})


def _ignore(*_: object, **__: object) -> None:
    pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
