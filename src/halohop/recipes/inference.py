"""Predictions and embeddings of all nodes or a split, by one trainer or by many.

Row i of every result belongs to the i-th node in ascending order of raw ids. Nobody holds all results in memory, only the ids.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.recipes.checkpoint import CheckpointInfo, load_checkpoint
from halohop.recipes.config import InferConfig, read_config
from halohop.recipes.events import Event, print_event
from halohop.recipes.inference_batches import infer_batches
from halohop.recipes.inference_layers import LayerRun
from halohop.recipes.inference_models import LayeredModel
from halohop.recipes.inference_names import class_names, has_text_ids, id_dtype, text_ids
from halohop.recipes.inference_results import CLASSES, IDS, PARQUET, Results, check_results, laid_out, parquet
from halohop.recipes.inference_user import UserLayers, trained_layers
from halohop.recipes.link_model import LinkPredictor
from halohop.recipes.models import NodeClassifier
from halohop.recipes.ranks import Progress, choose_device, in_rounds, max_over_ranks, shared_graph
from halohop.recipes.spec import check_raw_ids
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import NodeType
from halohop.world import World


def infer(
    config: InferConfig,
    *,
    model: nn.Module | None = None,
    world: World | None = None,
    on_progress: Progress | None = None,
) -> list[Path]:
    """Writes what a model says of the nodes; called by every trainer of the world.

    ``raw_ids.npy`` (int64 ``[n]``), ``predictions.npy`` (int64 ``[n]``, classes), ``confidence.npy`` (float32 ``[n]``, the
    probability that the model gives to that class) and, on request, ``embeddings.npy`` (float32 ``[n, hidden]``). Where the
    user's ids or labels were strings, also ``ids.npy`` (``[n]``) and ``classes.npy`` (the name of each class). Or a Parquet file
    with the same columns, and a column "class" of names.

    Without ``config.fanout`` all neighbours count, and each layer is computed once for every node. Such a run keeps what it has
    done in ``<out>/unfinished``; the same call after it was stopped, even killed, goes on from there, to the same result. With a
    fanout every node's neighbourhood is drawn, and nothing is kept. A model that predicts links only writes ``embeddings.npy``
    beside the ids: what its decoder compares, for the nodes of ``config.target``.

    Args:
        config: what to do.
        model: your own, instead of a checkpoint's: see `halohop.recipes.inference_user` for what it must offer.
        world: this trainer's place; None reads torchrun's environment.
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
    world, on_progress = world or World.from_env(), on_progress or _ignore
    if (model is None) == (config.checkpoint is None):
        raise InputError(f"checkpoint={config.checkpoint!r} and model={type(model).__name__}: give one of them")
    if model is not None and config.fanout is not None:
        raise InputError(f"fanout={config.fanout} is for the recipes' own models; leave it out to compute yours layer by layer")
    if config.form == "parquet":
        parquet()  # says now, rather than after hours, that it is not installed
    if world.rank == 0:
        check_results(config)
    device = choose_device(config.device, world)
    with shared_graph(config, world=world, device=device) as graph:
        options: dict[str, Any] = {"world": world, "device": device, "on_progress": on_progress}
        if config.fanout is None:
            stages = _in_stages(model, graph, config)
            target, module = stages.target, stages.module
            work = _infer_layers(stages, graph, config, **options)
        else:
            module, info = _trained(config, graph)
            target = info.model.target
            work = infer_batches(module, info, graph, config, **options)
        with work as results:
            _name(results, graph, target, module, config, **options)
            if config.form == "parquet":
                total = results.count if world.rank == 0 else 0
                in_rounds("write parquet", results.write_parquet() if world.rank == 0 else _nothing(), total, **options)
            elif world.rank == 0:
                results.publish()
        max_over_ranks(0, device, world)  # the files have their names
        return results.files if config.form == "npy" else [Path(config.out) / PARQUET]


def _in_stages(model: nn.Module | None, graph: Graph, config: InferConfig) -> LayeredModel:
    if model is not None:
        return UserLayers(model, graph, embeddings=config.embeddings, target=config.target)
    encoder, _ = _trained(config, graph)
    target = encoder.spec.target if config.target is None else graph.schema.node_type(config.target)
    return trained_layers(encoder, graph, target, embeddings=config.embeddings)


def _trained(config: InferConfig, graph: Graph) -> tuple[NodeClassifier, CheckpointInfo]:
    """What a checkpoint says of nodes: a classifier, or the part of a link model that makes their vectors."""
    assert config.checkpoint is not None
    model, info = load_checkpoint(config.checkpoint, graph.schema)
    check_raw_ids(graph, info.model)
    if isinstance(model, LinkPredictor):
        if config.fanout is not None:
            raise InputError(
                f"fanout={config.fanout} is for models that classify nodes; leave it out to get a link model's vectors"
            )
        return model.encoder, info
    if config.target not in (None, info.model.target):
        raise InputError(f"target={config.target!r}, but the model classifies nodes of {info.model.target!r}; leave it out")
    return model, info


@contextmanager
def _infer_layers(
    model: LayeredModel, graph: Graph, config: InferConfig, *, world: World, device: torch.device, on_progress: Progress
) -> Iterator[Results]:
    """The results of all layers, on rank 0 with their files; what a later run would need is deleted when the block ends well."""
    options: dict[str, Any] = {"world": world, "device": device, "on_progress": on_progress}
    gid, raw = graph.select(config.split, model.target)  # before any work: there may be no such split
    run, out = LayerRun(model, graph, config, **options), Path(config.out)
    with run.results() as last, ExitStack() as stack:

        def read(begin: int, end: int) -> dict[str, Tensor]:
            query = RowQuery(table=model.target, columns=tuple(run.columns), gid=gid[begin:end])
            (rows,) = last.fetch(FetchRequest(queries=(query,)))
            return dict(zip(run.columns, rows, strict=True))

        results, work = Results(out, {}, run.columns, len(raw)), _nothing()
        if world.rank == 0:
            results = stack.enter_context(laid_out(out, raw, run.columns))
            work = results.fill(read)
        in_rounds("write results", work, len(raw) if world.rank == 0 else 0, **options)
        yield results


def _name(
    results: Results,
    graph: Graph,
    target: NodeType,
    module: nn.Module,
    config: InferConfig,
    *,
    world: World,
    device: torch.device,
    on_progress: Progress,
) -> None:
    """Adds ids and classes as strings, where the user's were."""
    options: dict[str, Any] = {"world": world, "device": device, "on_progress": on_progress}
    mine = world.rank == 0
    if has_text_ids(graph, target):
        gid, _ = graph.select(config.split, target)
        work = results.add(IDS, id_dtype(graph, target), len(gid), text_ids(graph, target, gid)) if mine else _nothing()
        in_rounds("write ids", work, len(gid) if mine else 0, **options)
        results.names.append(IDS)
    if isinstance(module, NodeClassifier) and module.spec.classes:
        names = class_names(module.spec.classes)
        work = results.add(CLASSES, names.dtype, len(names), iter([names])) if mine else _nothing()
        in_rounds("write classes", work, len(names) if mine else 0, **options)
        results.names.append(CLASSES)


def _nothing() -> Generator[int, None, None]:
    yield from ()


def main(arguments: list[str]) -> int:
    """``python -m halohop.recipes.inference CONFIG.json``: one process of several, as `halohop.recipes.trainer` is."""
    if len(arguments) != 1:
        print("usage: python -m halohop.recipes.inference CONFIG.json", file=sys.stderr)
        return 2
    world = World.from_env()
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
