"""Inference in batches of sampled neighbourhoods: each rank predicts its share of the nodes, and writes their rows itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import halohop
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.recipes.checkpoint import CheckpointInfo
from halohop.recipes.config import InferConfig
from halohop.recipes.inference_models import CONFIDENCE, EMBEDDINGS, PREDICTIONS, told
from halohop.recipes.inference_results import Results, shared_results
from halohop.recipes.models import NodeClassifier, part_of
from halohop.recipes.ranks import Progress, max_over_ranks, share_of
from halohop.store.schema import ColumnSpec
from halohop.world import World


@contextmanager
def infer_batches(
    model: NodeClassifier,
    info: CheckpointInfo,
    graph: Graph,
    config: InferConfig,
    *,
    world: World,
    device: torch.device,
    on_progress: Progress,
) -> Iterator[Results]:
    """Predicts the nodes with ``config.fanout`` drawn neighbours per hop; gives the files, which rank 0 then publishes.

    Raises:
        InputError: a fanout that does not fit the model.
        ClusterError: a rank does not see the folder of the results.
    """
    assert config.fanout is not None
    if len(config.fanout) != info.model.layers:
        raise InputError(
            f"fanout={config.fanout} has {len(config.fanout)} hops, but the model has {info.model.layers} layers; give one each"
        )
    _, raw = graph.select(config.split, info.model.target)
    loader = share_of(
        graph,
        (info.model.target, config.split),
        config.fanout,
        batch_size=config.batch_size,
        seed=config.seed,
        workers=config.workers,
        world=world,
        device=device,
        deadline_s=config.deadline_s,
    )
    several, shape = info.model.several, (info.model.num_classes,) if info.model.several else ()
    columns = {
        PREDICTIONS: ColumnSpec(dtype="uint8" if several else "int64", shape=shape),
        CONFIDENCE: ColumnSpec(dtype="float32", shape=shape),
    }
    if config.embeddings:
        columns[EMBEDDINGS] = ColumnSpec(dtype="float32", shape=(info.model.hidden,))
    with shared_results(Path(config.out), raw, columns, world=world, device=device) as results:
        with results.writable():
            _predict(model.to(device), loader, results, EMBEDDINGS in columns, device, on_progress)
        max_over_ranks(0, device, world)  # they are complete
        yield results
    max_over_ranks(0, device, world)  # they have their names


@torch.no_grad()
def _predict(
    model: NodeClassifier,
    loader: halohop.NeighborLoader,
    results: Results,
    embeddings: bool,
    device: torch.device,
    on_progress: Progress,
) -> None:
    model.eval()
    target = model.spec.target
    for step, batch in enumerate(loader, 1):
        batch = batch if device.type == "cpu" else batch.to(device, non_blocking=True)
        found = told(model, model.encode(batch), embeddings=embeddings)
        results.write(part_of(batch, target).input_id.cpu(), found)
        on_progress("predict", step, len(loader))
