"""Predictions of a trained model for all nodes or a split, in batches, by one trainer or by many.

Row i of every result belongs to the i-th node in ascending order of raw ids. Each rank writes the rows of its batches into the
files that rank 0 has laid out, so nobody holds more than a batch of results in memory.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
import torch.distributed as dist

import halohop
from halohop.errors import ClusterError, InputError
from halohop.recipes.checkpoint import load_checkpoint
from halohop.recipes.config import InferConfig, read_config
from halohop.recipes.evaluate import evaluation_fanout
from halohop.recipes.models import NodeClassifier
from halohop.recipes.ranks import choose_device, share_of, shared_graph
from halohop.recipes.spec import check_raw_ids
from halohop.world import World

RAW_IDS, PREDICTIONS, CONFIDENCE, EMBEDDINGS = "raw_ids", "predictions", "confidence", "embeddings"
PARQUET = "predictions.parquet"
_ROWS = 65_536

Rows = np.memmap[Any, Any]
Progress = Callable[[str, int, int], None]


def infer(config: InferConfig, *, world: World | None = None, on_progress: Progress | None = None) -> list[Path]:
    """Writes a model's predictions; called by every trainer of the world.

    ``raw_ids.npy`` (int64 ``[n]``), ``predictions.npy`` (int64 ``[n]``, classes), ``confidence.npy`` (float32 ``[n]``, the
    probability that the model gives to that class) and, on request, ``embeddings.npy`` (float32 ``[n, hidden]``); or a Parquet
    file with the same columns.

    Args:
        config: what to do.
        world: this trainer's place; None reads torchrun's environment.
        on_progress: called with ("predict", steps done, steps in all) of this rank, or ("write parquet", rows done, rows in all).

    Returns:
        The files, which are complete when this returns on any rank.

    Raises:
        InputError: Parquet without pyarrow, or a fanout that does not fit the model.
        DatasetError: the checkpoint or the graph cannot be read.
        SchemaError: the graph is not one that the model knows, or has no such split.
        TransportError, ClusterError: another host or trainer is gone; names it.
    """
    world, on_progress = world or World.from_env(), on_progress or _ignore
    if config.form == "parquet":
        _parquet()  # says now, rather than after hours, that it is not installed
    device = choose_device(config.device, world)
    with shared_graph(config.parts, world=world, device=device, deadline_s=config.deadline_s) as graph:
        model, info = load_checkpoint(config.checkpoint, graph.schema)
        check_raw_ids(graph, info.model)
        fanout = evaluation_fanout(config.fanout, graph.schema, info.train.fanout)
        if len(fanout) != info.model.layers:
            raise InputError(
                f"fanout={fanout} has {len(fanout)} hops, but the model has {info.model.layers} layers; give one each"
            )
        _, raw = graph.select(config.split, info.model.target)
        out = Path(config.out)
        if world.rank == 0:
            _lay_out(out, raw, info.model.hidden if config.embeddings else None)
        _meet(world, device)
        loader = share_of(
            graph,
            (info.model.target, config.split),
            fanout,
            batch_size=config.batch_size,
            seed=config.seed,
            workers=config.workers,
            world=world,
            device=device,
            deadline_s=config.deadline_s,
        )
        with _results(out, config.embeddings, world) as results:
            _predict(model.to(device), loader, results, device, on_progress)
        _meet(world, device)
        files = [out / f"{name}.npy" for name in _names(config.embeddings)]
        if config.form == "parquet":
            if world.rank == 0:
                _to_parquet(out / PARQUET, files, on_progress)
            _meet(world, device)
            files = [out / PARQUET]
        return files


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
        hidden = model.encode(batch)
        confidence, classes = model.head(hidden).softmax(dim=1).max(dim=1)
        rows = (batch[target] if model.spec.kind == "rgcn" else batch).input_id.numpy(force=True)
        found = {PREDICTIONS: classes, CONFIDENCE: confidence, EMBEDDINGS: hidden}
        for name, array in results.items():
            array[rows] = found[name].numpy(force=True)
        on_progress("predict", step, len(loader))


def _names(embeddings: bool) -> tuple[str, ...]:
    return (RAW_IDS, PREDICTIONS, CONFIDENCE, *((EMBEDDINGS,) if embeddings else ()))


def _lay_out(out: Path, raw: torch.Tensor, width: int | None) -> None:
    """Creates the result files in their full size; only the ids are filled in."""
    out.mkdir(parents=True, exist_ok=True)
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
    for name in _names(embeddings)[1:]:
        file = out / f"{name}.npy"
        if not file.is_file():
            raise ClusterError(f"rank {world.rank} does not see {file}, which rank 0 has made; all ranks must see the same `out`")
        results[name] = np.lib.format.open_memmap(file, mode="r+")
    yield results
    for array in results.values():
        array.flush()


def _meet(world: World, device: torch.device) -> None:
    """Waits until every rank is here."""
    if world.size > 1:
        dist.all_reduce(torch.zeros(1, device=device))
        if device.type == "cuda":
            torch.cuda.synchronize(device)


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InputError('writing Parquet needs pyarrow: pip install "halohop[tables]"; or use form="npy"') from error
    return parquet


def _to_parquet(target: Path, files: list[Path], on_progress: Progress) -> None:
    """One Parquet file from the arrays, a row group at a time; the arrays are removed."""
    import pyarrow as pa

    arrays = {file.stem: np.load(file, mmap_mode="r", allow_pickle=False) for file in files}
    columns = [
        (name, pa.list_(pa.float32(), array.shape[1]) if array.ndim == 2 else pa.from_numpy_dtype(array.dtype))
        for name, array in arrays.items()
    ]
    schema = pa.schema(columns)
    part = target.with_name(f"{target.name}.new")
    with _parquet().ParquetWriter(part, schema) as writer:
        total = len(arrays[RAW_IDS])
        for begin in range(0, total, _ROWS):
            rows = [_arrow_column(array[begin : begin + _ROWS]) for array in arrays.values()]
            writer.write_table(pa.Table.from_arrays(rows, schema=schema))
            on_progress("write parquet", min(begin + _ROWS, total), total)
    part.replace(target)
    for file in files:
        file.unlink()


def _arrow_column(rows: np.ndarray) -> Any:
    import pyarrow as pa

    values = np.ascontiguousarray(rows)
    return (
        pa.array(values) if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    )


def main(arguments: list[str]) -> int:
    """``python -m halohop.recipes.inference CONFIG.json``: one process of several, as `halohop.recipes.trainer` is."""
    if len(arguments) != 1:
        print("usage: python -m halohop.recipes.inference CONFIG.json", file=sys.stderr)
        return 2
    world = World.from_env()
    infer(read_config(InferConfig, arguments[0]), world=world, on_progress=_print_progress if world.rank == 0 else _ignore)
    return 0


def _print_progress(stage: str, done: int, total: int) -> None:
    print(msgspec.json.encode({"event": "progress", "stage": stage, "done": done, "total": total}).decode(), flush=True)


def _ignore(stage: str, done: int, total: int) -> None:
    pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
