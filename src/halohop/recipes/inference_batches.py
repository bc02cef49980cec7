"""Inference in batches of sampled neighbourhoods: each rank predicts its share of the nodes, and writes their rows itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import halohop
from halohop.cluster.graph import Graph
from halohop.errors import ClusterError, InputError
from halohop.recipes.checkpoint import CheckpointInfo
from halohop.recipes.config import InferConfig
from halohop.recipes.inference_models import CONFIDENCE, EMBEDDINGS, PREDICTIONS, classified
from halohop.recipes.inference_results import RAW_IDS, npy_files
from halohop.recipes.models import NodeClassifier, part_of
from halohop.recipes.ranks import Progress, max_over_ranks, share_of
from halohop.world import World

Rows = np.memmap[Any, Any]


def infer_batches(
    model: NodeClassifier,
    info: CheckpointInfo,
    graph: Graph,
    config: InferConfig,
    *,
    world: World,
    device: torch.device,
    on_progress: Progress,
) -> list[Path]:
    """Predicts the nodes with ``config.fanout`` drawn neighbours per hop; returns the ``.npy`` files.

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
    out = Path(config.out)
    if world.rank == 0:
        _lay_out(out, raw, info.model.hidden if config.embeddings else None)
    max_over_ranks(0, device, world)  # the files are there
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
    with _results(out, config.embeddings, world) as results:
        _predict(model.to(device), loader, results, device, on_progress)
    max_over_ranks(0, device, world)  # they are complete
    return npy_files(out, _names(config.embeddings))


@torch.no_grad()
def _predict(
    model: NodeClassifier,
    loader: halohop.NeighborLoader,
    results: dict[str, Rows],
    device: torch.device,
    on_progress: Progress,
) -> None:
    model.eval()
    target = model.spec.target
    for step, batch in enumerate(loader, 1):
        batch = batch if device.type == "cpu" else batch.to(device, non_blocking=True)
        found = classified(model.head, model.encode(batch), embeddings=EMBEDDINGS in results)
        rows = part_of(batch, target).input_id.numpy(force=True)
        for name, array in results.items():
            array[rows] = found[name].numpy(force=True)
        on_progress("predict", step, len(loader))


def _names(embeddings: bool) -> list[str]:
    return [PREDICTIONS, CONFIDENCE, *([EMBEDDINGS] if embeddings else [])]


def _lay_out(out: Path, raw: Tensor, width: int | None) -> None:
    """Creates the result files in their full size; only the ids are filled in."""
    np.save(out / f"{RAW_IDS}.npy", raw.numpy())
    shapes: dict[str, tuple[Any, tuple[int, ...]]] = {PREDICTIONS: (np.int64, (len(raw),)), CONFIDENCE: (np.float32, (len(raw),))}
    if width is not None:
        shapes[EMBEDDINGS] = (np.float32, (len(raw), width))
    for name, (dtype, shape) in shapes.items():
        np.lib.format.open_memmap(out / f"{name}.npy", mode="w+", dtype=dtype, shape=shape).flush()


@contextmanager
def _results(out: Path, embeddings: bool, world: World) -> Iterator[dict[str, Rows]]:
    """The result files as arrays, written through at the end."""
    results: dict[str, Rows] = {}
    for name in _names(embeddings):
        file = out / f"{name}.npy"
        if not file.is_file():
            raise ClusterError(f"rank {world.rank} does not see {file}, which rank 0 has made; all ranks must see the same `out`")
        results[name] = np.lib.format.open_memmap(file, mode="r+")
    yield results
    for array in results.values():
        array.flush()
