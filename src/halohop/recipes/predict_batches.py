"""Inference in batches of sampled neighbourhoods: each rank predicts its share of the nodes, and writes their rows itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import halohop
from halohop import Graph
from halohop.collectives import max_over_ranks
from halohop.errors import InputError
from halohop.inference import InferenceJob, Results, shared_results
from halohop.recipes.checkpoint import CheckpointInfo
from halohop.recipes.config import InferConfig
from halohop.recipes.layered_models import node_results
from halohop.recipes.models import NodeClassifier, part_of
from halohop.recipes.sharing import shared
from halohop.recipes.spec import columns_read
from halohop.typing import OnProgress


@contextmanager
def predicted_batches(
    model: NodeClassifier, info: CheckpointInfo, graph: Graph, config: InferConfig, job: InferenceJob
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
    world, device = job.world, job.device
    _, raw = graph.select(config.split, info.model.target)
    loader = halohop.NeighborLoader(
        graph,
        list(config.fanout),
        (info.model.target, config.split),
        batch_size=config.batch_size,
        **columns_read(info.model, graph.schema),
        **shared(config, world, device),
    )
    rows = node_results(model, torch.zeros(0, info.model.hidden), embeddings=config.embeddings)
    with shared_results(job.out, raw, rows, world=world, device=device) as results:
        with results.writable():
            _predict(model.to(device), loader, results, config.embeddings, device, job.on_progress)
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
    on_progress: OnProgress,
) -> None:
    model.eval()
    target = model.spec.target
    for step, batch in enumerate(loader, 1):
        batch = batch if device.type == "cpu" else batch.to(device, non_blocking=True)
        found = node_results(model, model.encode(batch), embeddings=embeddings)
        results.write(part_of(batch, target).input_id.cpu(), found)
        on_progress("predict", step, len(loader))
