from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from halohop.cluster.graph import in_memory
from halohop.datasets import synthetic, synthetic_hetero
from halohop.errors import CorruptDatasetError, IncompleteDatasetError, InputError, SchemaError, VersionMismatchError
from halohop.recipes.build import build_model
from halohop.recipes.checkpoint import FORMAT, CheckpointInfo, load_checkpoint, save_checkpoint
from halohop.recipes.config import TrainConfig
from halohop.recipes.spec import ModelSpec
from halohop.store.schema import Schema


def saved(folder: Path, schema: Schema, target: str) -> tuple[CheckpointInfo, dict[str, torch.Tensor]]:
    config = TrainConfig(parts="p", out="o", fanout=(3, 2), hidden=8)
    spec = ModelSpec.of(config, schema, target, 4)
    info = CheckpointInfo(format=FORMAT, model=spec, train=config, epoch=7, val_score=0.5)
    state = build_model(spec).state_dict()
    save_checkpoint(folder, info, state)
    return info, state


@pytest.mark.parametrize(("tables", "target"), [(synthetic("tiny"), "node"), (synthetic_hetero(50), "paper")])
def test_what_was_saved_is_loaded(tmp_path: Path, tables: Any, target: str) -> None:
    schema = in_memory(tables).schema
    info, state = saved(tmp_path / "checkpoint", schema, target)
    model, loaded = load_checkpoint(tmp_path / "checkpoint", schema)
    assert loaded == info
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert sorted(path.name for path in (tmp_path / "checkpoint").iterdir()) == ["config.json", "weights.pt"]


def test_a_graph_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, in_memory(synthetic("tiny")).schema, "node")
    with pytest.raises(SchemaError, match="32 features of 'node', the graph has 9 features"):
        load_checkpoint(tmp_path, in_memory(synthetic("tiny", num_features=9)).schema)


class Trap:
    """Would run code when it is unpickled."""

    def __reduce__(self) -> tuple[type[InputError], tuple[str]]:
        return InputError, ("ran",)


def test_damage_is_told_apart(tmp_path: Path) -> None:
    schema = in_memory(synthetic("tiny")).schema
    with pytest.raises(IncompleteDatasetError, match="no checkpoint"):
        load_checkpoint(tmp_path, schema)
    saved(tmp_path, schema, "node")
    text = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(text.replace('"format": 2', '"format": 99'))
    with pytest.raises(VersionMismatchError, match="99"):
        load_checkpoint(tmp_path, schema)
    for damaged in (text[:100], "[]", text.replace('"sage"', '"magic"')):
        (tmp_path / "config.json").write_text(damaged)
        with pytest.raises(CorruptDatasetError, match=r"config\.json"):
            load_checkpoint(tmp_path, schema)
    (tmp_path / "config.json").write_text(text.replace('"hidden": 8', '"hidden": 16'))
    with pytest.raises(CorruptDatasetError, match=r"no weights for"):
        load_checkpoint(tmp_path, schema)


def test_weights_are_never_code(tmp_path: Path) -> None:
    schema = in_memory(synthetic("tiny")).schema
    saved(tmp_path, schema, "node")
    torch.save({"head.weight": Trap()}, tmp_path / "weights.pt")
    with pytest.raises(CorruptDatasetError, match=r"weights\.pt"):
        load_checkpoint(tmp_path, schema)


def test_saving_again_replaces(tmp_path: Path) -> None:
    schema = in_memory(synthetic("tiny")).schema
    info, state = saved(tmp_path, schema, "node")
    save_checkpoint(tmp_path, replace(info, epoch=8), {name: value + 1 for name, value in state.items()})
    model, loaded = load_checkpoint(tmp_path, schema)
    assert loaded.epoch == 8
    assert torch.equal(model.head.bias, state["head.bias"] + 1)
