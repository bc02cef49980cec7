"""A trained model on disk: ``weights.pt`` (plain tensors, no pickled code) and ``config.json`` (what they are the weights of)."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from halohop.errors import CorruptDatasetError, IncompleteDatasetError, VersionMismatchError
from halohop.recipes.build import build_model
from halohop.recipes.config import TrainConfig
from halohop.recipes.link_model import LinkPredictor
from halohop.recipes.models import NodeClassifier
from halohop.recipes.spec import ModelSpec, check_fits
from halohop.store.schema import Schema

FORMAT = 2
WEIGHTS = "weights.pt"
CONFIG = "config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInfo:
    """What ``config.json`` holds: the model, the run that made it, the epoch and its validation score (None: not measured).

    The score is the accuracy of a node model, the mean reciprocal rank of a link model.
    """

    format: int
    model: ModelSpec
    train: TrainConfig
    epoch: int
    val_score: float | None


def save_checkpoint(folder: str | Path, info: CheckpointInfo, state: dict[str, Tensor]) -> None:
    """Writes both files; a crash in between leaves the files of before, or the new ones, never half of one."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(state, folder / f"{WEIGHTS}.new")
    (folder / f"{CONFIG}.new").write_bytes(msgspec.json.format(msgspec.json.encode(info), indent=2))
    for name in (WEIGHTS, CONFIG):
        (folder / f"{name}.new").replace(folder / name)


def load_checkpoint(folder: str | Path, schema: Schema) -> tuple[NodeClassifier | LinkPredictor, CheckpointInfo]:
    """The model of a checkpoint, ready to use on a graph of this schema.

    Raises:
        IncompleteDatasetError: a file is missing.
        VersionMismatchError: written by another version of the format.
        CorruptDatasetError: a file is not what its name says, or the two do not belong together.
        SchemaError: the graph has other node types, relations or features than the model knows.
    """
    folder = Path(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise IncompleteDatasetError(f"{folder} is no checkpoint: it has no {name}; give the folder <run>/checkpoint")
    try:
        text = (folder / CONFIG).read_bytes()
        version = msgspec.json.decode(text, type=dict[str, object]).get("format")
        if version != FORMAT:
            raise VersionMismatchError(f"{folder} has checkpoint format {version!r}, this halohop reads {FORMAT}; train again")
        info = msgspec.json.decode(text, type=CheckpointInfo)
    except msgspec.DecodeError as error:
        raise CorruptDatasetError(f"{folder / CONFIG} does not describe a checkpoint: {error}") from error
    check_fits(info.model, schema)
    model = build_model(info.model)
    try:
        model.load_state_dict(torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True))
    except Exception as error:  # whatever the reader makes of a damaged file
        raise CorruptDatasetError(f"{folder / WEIGHTS} are no weights for {folder / CONFIG}: {error}") from error
    return model, info
