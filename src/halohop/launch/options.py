"""The options of the commands: their help, their groups, and defaults that are the library's own."""

from dataclasses import MISSING, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from halohop.errors import InputError
from halohop.launch import spec
from halohop.recipes.config import InferConfig, TrainConfig

MODEL, TRAINING, EVALUATION, PLACE = "Model", "Training", "Evaluation and inference", "Where it runs"


class Method(StrEnum):
    """How to partition."""

    metis = "metis"
    random = "random"


class Model(StrEnum):
    """The models of `halohop train`."""

    auto = "auto"
    sage = "sage"
    gcn = "gcn"
    gat = "gat"
    rgcn = "rgcn"


class Form(StrEnum):
    """The files of `halohop infer`."""

    npy = "npy"
    parquet = "parquet"


def defaults(kind: type[TrainConfig] | type[InferConfig]) -> dict[str, Any]:
    """What a config takes where nothing is said, by name; sequences as the command line spells them.

    Example:
        >>> defaults(TrainConfig)["fanout"]
        '15,10'
    """
    values = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    return {name: ",".join(map(str, value)) if isinstance(value, tuple) else value for name, value in values.items()}


def numbers(text: str | None) -> tuple[int, ...] | None:
    """The fanout that an option spells.

    Example:
        >>> numbers("15,10,5")
        (15, 10, 5)
    """
    return None if text is None else tuple(int(number) for number in text.split(","))


def _check_numbers(text: str | None) -> str | None:
    try:
        numbers(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not like 15,10,5: one whole number per hop, -1 for all neighbours") from None
    return text


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    try:
        return spec.from_file(context, path)
    except InputError as error:
        raise typer.BadParameter(str(error)) from error


def _group(panel: str, help_text: str, **settings: Any) -> Any:
    return typer.Option(rich_help_panel=panel, help=help_text, **settings)


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        callback=_read_config,
        is_eager=True,
        show_default=False,
        help="TOML or YAML file with any of these options by their names; the command line wins.",
    ),
]
PartsFolder = Annotated[Path, typer.Argument(metavar="PARTS", help="Folder of a partitioned graph.")]
PartsOrSource = Annotated[
    str, typer.Argument(metavar="PARTS_OR_SOURCE", help="Folder of a partitioned graph; or a source, which is partitioned first.")
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="synthetic:SIZE, synthetic-hetero:SIZE, a .npz or .pt file, a graph.toml, a data set's folder."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a partitioned graph in OUT.")]
PartitionMethod = Annotated[Method, typer.Option(help="metis cuts few edges; random is quick and even.")]
Halo = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...",
        show_default=False,
        help="Columns of nodes, or raw_id, to store along the edges, too: for times of nodes, or labor, on several hosts.",
    ),
]
Normalize = Annotated[
    bool | None,
    typer.Option(
        "--normalize/--no-normalize", show_default="as the source does", help="Divide each row of features by its sum (.npz)."
    ),
]

ModelName = Annotated[Model, _group(MODEL, "auto: sage, or rgcn where there are several relations.")]
Target = Annotated[str | None, _group(MODEL, "Node type to classify.", metavar="TYPE", show_default="the labelled one")]
Fanout = Annotated[
    str,
    _group(MODEL, "Neighbours per hop and relation, -1 for all; a layer per hop.", metavar="N,N,...", callback=_check_numbers),
]
Hidden = Annotated[int, _group(MODEL, "Width of the layers.")]
Heads = Annotated[int, _group(MODEL, "Attention heads of gat.")]
Bases = Annotated[int, _group(MODEL, "Matrices that the relations of rgcn share.")]
Dropout = Annotated[float, _group(MODEL, "Share of the activations that is dropped in training.")]

Epochs = Annotated[int, _group(TRAINING, "Passes over the training nodes, at most.")]
BatchSize = Annotated[int, _group(TRAINING, "Seed nodes per step and trainer.")]
LearningRate = Annotated[float, _group(TRAINING, "Learning rate of Adam.")]
WeightDecay = Annotated[float, _group(TRAINING, "Weight decay of Adam.")]
Seed = Annotated[int, _group(TRAINING, "Of weights, order and draws: same seed, same batches on any number of nodes.")]

EvalEvery = Annotated[int, _group(EVALUATION, "Epochs from one validation to the next.")]
EvalFanout = Annotated[
    str | None,
    _group(
        EVALUATION,
        "Neighbours per hop.",
        metavar="N,N,...",
        callback=_check_numbers,
        show_default="all; as in training on graphs of over 10 M edges",
    ),
]
InferFanout = Annotated[
    str | None,
    _group(
        EVALUATION,
        "Draw so many neighbours per hop for each batch of nodes, -1 for all.",
        metavar="N,N,...",
        callback=_check_numbers,
        show_default="all, a layer at a time",
    ),
]
BatchEdges = Annotated[int, _group(EVALUATION, "In-edges per step and trainer, without --fanout.")]
EvalBatchSize = Annotated[int, _group(EVALUATION, "Nodes per step and trainer.")]
Patience = Annotated[int, _group(EVALUATION, "Validations without a better result before training stops; 0 never stops early.")]

Nodes = Annotated[
    int, _group(PLACE, "Hosts to simulate here, each with its own share of the partitions; 1 needs no network.", min=1)
]
Trainers = Annotated[int, _group(PLACE, "Processes per node.", min=1)]
Workers = Annotated[int | None, _group(PLACE, "Threads per trainer that make batches.", show_default="its share of the cores")]
Device = Annotated[str, _group(PLACE, "auto (a GPU if there is one), cpu, cuda or cuda:N.")]
Deadline = Annotated[float, _group(PLACE, "Seconds to wait for other trainers before giving up.", metavar="SECONDS")]
RunFolder = Annotated[Path | None, _group(PLACE, "Folder of the run.", metavar="FOLDER", show_default="runs/DATE-TIME")]

Checkpoint = Annotated[Path, typer.Option(metavar="FOLDER", help="What training wrote: RUN/checkpoint.")]
ResultFolder = Annotated[Path, typer.Option(metavar="FOLDER", help="Where the results go.")]
ResultForm = Annotated[Form, typer.Option(help="NumPy arrays, or one Parquet table.")]
Split = Annotated[str | None, typer.Option(metavar="NAME", show_default="every node", help="Only the nodes of this split.")]
Embeddings = Annotated[bool, typer.Option("--embeddings", help="Write the last hidden layer, too.")]
