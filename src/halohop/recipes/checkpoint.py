"""A trained model on disk, one file with a checksum: plain tensors, no pickled code, and what they are the weights of.

Vectors that nodes have learned lie in files beside it, which it names (`halohop.recipes.vector_files`).

Two files, for weights and configuration, would need two renames, and a kill between them would pair new weights with the old
configuration. `torch.load(..., weights_only=True)` reads the file without halohop, because zip readers ignore the checksum at
the end.
"""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from halohop.errors import CorruptDatasetError, IncompleteDatasetError, VersionMismatchError
from halohop.files import decode_json, read_sealed, sealed_file, writing
from halohop.recipes.build import build_model
from halohop.recipes.config import TrainConfig
from halohop.recipes.link_model import LinkPredictor
from halohop.recipes.models import NodeClassifier
from halohop.recipes.spec import ModelSpec, check_fits
from halohop.recipes.vector_files import VectorFiles, attach
from halohop.records import Schema

FORMAT = 4
_OLDER = 3
"""Held learned vectors among the weights."""
MODEL = "model.pt"
_CONFIG_OF_OLD = "config.json"
"""Formats 1 and 2 were two files, this one and ``weights.pt``, without checksums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInfo:
    """What a checkpoint says of its weights: the model, the run that made it, the epoch, its validation score (None: no).

    The score is the accuracy of a node model, the mean reciprocal rank of a link model. `vectors` are those that nodes learned.
    """

    format: int
    model: ModelSpec
    train: TrainConfig
    epoch: int
    val_score: float | None
    vectors: tuple[VectorFiles, ...] = ()


def save_checkpoint(folder: str | Path, info: CheckpointInfo, state: dict[str, Tensor]) -> None:
    """Writes the file; a crash at any moment leaves the one of before, or the new one.

    Raises:
        WriteError: it cannot be written; names it.
    """
    folder = Path(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with sealed_file(folder / MODEL) as stream:
        torch.save({"format": FORMAT, "info": msgspec.json.encode(info).decode(), "weights": state}, stream)


def load_checkpoint(folder: str | Path, schema: Schema) -> tuple[NodeClassifier | LinkPredictor, CheckpointInfo]:
    """The model of a checkpoint, ready to use on a graph of this schema.

    Raises:
        IncompleteDatasetError: the folder holds no checkpoint.
        VersionMismatchError: written by another version of the format.
        CorruptDatasetError: the file was changed, or is not what its name says.
        SchemaError: the graph has other node types, relations or features than the model knows.
    """
    file = Path(folder) / MODEL
    if not file.exists():
        if (file.parent / _CONFIG_OF_OLD).is_file():
            raise VersionMismatchError(f"{folder} is a checkpoint of format 2 or older, this halohop reads {FORMAT}; train again")
        raise IncompleteDatasetError(f"{folder} is no checkpoint: it has no {MODEL}; give the folder <run>/checkpoint")
    data = load_tensors(file)
    if data.get("format") not in (FORMAT, _OLDER):
        raise VersionMismatchError(f"{file} has format {data.get('format')!r}, this halohop reads {FORMAT}; train again")
    info: CheckpointInfo = decode_json(str(data.get("info")).encode(), file, CheckpointInfo)
    check_fits(info.model, schema)
    if data["format"] == _OLDER and info.model.learns_vectors:
        raise VersionMismatchError(
            f"{file} has format {_OLDER}, which kept vectors that nodes have learned in another way; train again"
        )
    model = build_model(info.model)
    try:
        model.load_state_dict(data["weights"])
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise CorruptDatasetError(f"{file} holds no weights for the model that it describes: {error}") from error
    attach(model, file.parent, info.vectors)
    return model, info


def load_tensors(file: Path) -> dict[str, Any]:
    """The dictionary that torch saved to a sealed file: plain values and tensors, no code; on the CPU.

    Raises:
        IncompleteDatasetError: there is no such file.
        CorruptDatasetError: it was changed, or holds something else.
    """
    return tensors_of(read_sealed(file), file)


def tensors_of(data: bytes, file: Path) -> dict[str, Any]:
    """The dictionary that torch wrote as these bytes; raises as `load_tensors`."""
    try:
        found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the reader makes of it
        raise CorruptDatasetError(f"{file} cannot be read: {error}; train again") from error
    if not isinstance(found, dict):
        raise CorruptDatasetError(f"{file} holds a {type(found).__name__}, and no state; train again")
    return found
