import os
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from halohop.cluster.graph import in_memory
from halohop.datasets import synthetic, synthetic_hetero
from halohop.errors import CorruptDatasetError, IncompleteDatasetError, InputError, SchemaError, VersionMismatchError
from halohop.files.whole import sealed_file
from halohop.recipes.build import build_model
from halohop.recipes.checkpoint import FORMAT, MODEL, CheckpointInfo, load_checkpoint, load_tensors, save_checkpoint
from halohop.recipes.config import TrainConfig
from halohop.recipes.spec import ModelSpec
from halohop.recipes.vectors import learned_vectors
from halohop.store.schema import Schema
from tests.support.learned import random_vectors


def saved(folder: Path, schema: Schema, target: str) -> tuple[CheckpointInfo, dict[str, torch.Tensor]]:
    config = TrainConfig(parts="p", out="o", fanout=(3, 2), hidden=8)
    spec = ModelSpec.of(config, schema, target, 4)
    vectors = random_vectors(folder, spec, dict.fromkeys(schema.nodes, torch.arange(10)))
    info = CheckpointInfo(format=FORMAT, model=spec, train=config, epoch=7, val_score=0.5, vectors=vectors)
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
    beside = {name for files in info.vectors for name in (files.ids, files.rows)}
    assert {path.name for path in (tmp_path / "checkpoint").iterdir()} == {"model.pt"} | beside
    for vectors in learned_vectors(model).values():
        assert vectors(torch.tensor([9, 0])).shape == (2, 8)


def test_an_older_checkpoint_is_read_unless_it_has_vectors_of_nodes(tmp_path: Path) -> None:
    plain, typed = in_memory(synthetic("tiny")).schema, in_memory(synthetic_hetero(50)).schema
    _, state = saved(tmp_path / "plain", plain, "node")
    resealed(tmp_path / "plain", format=3)
    assert torch.equal(load_checkpoint(tmp_path / "plain", plain)[0].state_dict()["head.bias"], state["head.bias"])
    saved(tmp_path / "typed", typed, "paper")
    resealed(tmp_path / "typed", format=3)
    with pytest.raises(VersionMismatchError, match=r"format 3, which kept vectors .*; train again"):
        load_checkpoint(tmp_path / "typed", typed)


def test_a_graph_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, in_memory(synthetic("tiny")).schema, "node")
    with pytest.raises(SchemaError, match="32 features of 'node', the graph has 9 features"):
        load_checkpoint(tmp_path, in_memory(synthetic("tiny", num_features=9)).schema)


class Trap:
    """Would run code when it is unpickled."""

    def __reduce__(self) -> tuple[type[InputError], tuple[str]]:
        return InputError, ("ran",)


def resealed(folder: Path, **changes: Any) -> None:
    """Writes a checkpoint with other contents and a right checksum: what another version would write."""
    state = load_tensors(folder / MODEL) | changes
    with sealed_file(folder / MODEL) as stream:
        torch.save(state, stream)


def test_what_is_no_checkpoint_is_told_apart(tmp_path: Path) -> None:
    schema = in_memory(synthetic("tiny")).schema
    with pytest.raises(IncompleteDatasetError, match="no checkpoint"):
        load_checkpoint(tmp_path, schema)
    (tmp_path / "config.json").write_text('{"format": 2}')
    with pytest.raises(VersionMismatchError, match=r"format 2 or older.*train again"):
        load_checkpoint(tmp_path, schema)
    info, _ = saved(tmp_path, schema, "node")
    text = msgspec.json.encode(info).decode()
    for damaged in (text[:100], "[]", text.replace('"sage"', '"magic"'), "[" * 100_000):
        resealed(tmp_path, info=damaged)
        with pytest.raises(CorruptDatasetError, match=r"model\.pt cannot be read as JSON"):
            load_checkpoint(tmp_path, schema)
    resealed(tmp_path, info=text.replace('"hidden":8', '"hidden":16'))
    with pytest.raises(CorruptDatasetError, match="no weights for"):
        load_checkpoint(tmp_path, schema)
    resealed(tmp_path, format=99)
    with pytest.raises(VersionMismatchError, match="99"):
        load_checkpoint(tmp_path, schema)


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    schema = in_memory(synthetic("tiny")).schema
    saved(tmp_path, schema, "node")
    file = tmp_path / MODEL
    whole, draw = file.read_bytes(), random.Random(0)
    for _ in range(200):
        position, bit = draw.randrange(len(whole)), 1 << draw.randrange(8)
        file.write_bytes(whole[:position] + bytes([whole[position] ^ bit]) + whole[position + 1 :])
        with pytest.raises(CorruptDatasetError, match=r"model\.pt"):
            load_checkpoint(tmp_path, schema)
    for size in (0, 10, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(CorruptDatasetError, match=r"model\.pt"):
            load_checkpoint(tmp_path, schema)


def test_weights_and_what_they_are_of_change_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped at each step of the file system in turn, the checkpoint is the old one or the new one, and readable."""
    schema = in_memory(synthetic("tiny")).schema
    info, state = saved(tmp_path, schema, "node")
    new = {name: value + 1 for name, value in state.items()}
    epochs = []
    for step in range(6):
        calls: list[str] = []

        def stopped(name: str, original: Any, step: int = step, calls: list[str] = calls) -> Any:
            def call(*args: Any, **options: Any) -> Any:
                calls.append(name)
                if len(calls) == step + 1:
                    raise KeyboardInterrupt
                return original(*args, **options)

            return call

        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            for owner, name in ((os, "fsync"), (os, "replace"), (Path, "replace"), (Path, "rename"), (os, "rename")):
                patch.setattr(owner, name, stopped(name, getattr(owner, name)))
            save_checkpoint(tmp_path, replace(info, epoch=8), new)
        model, loaded = load_checkpoint(tmp_path, schema)
        expected = new if loaded.epoch == 8 else state
        assert all(torch.equal(expected[name], value) for name, value in model.state_dict().items())
        epochs.append(loaded.epoch)
        save_checkpoint(tmp_path, info, state)
    assert epochs[0] == 7
    assert epochs[-1] == 8


def test_weights_are_never_code(tmp_path: Path) -> None:
    schema = in_memory(synthetic("tiny")).schema
    saved(tmp_path, schema, "node")
    resealed(tmp_path, weights={"head.weight": Trap()})
    with pytest.raises(CorruptDatasetError, match=r"model\.pt cannot be read"):
        load_checkpoint(tmp_path, schema)


def test_saving_again_replaces(tmp_path: Path) -> None:
    schema = in_memory(synthetic("tiny")).schema
    info, state = saved(tmp_path, schema, "node")
    save_checkpoint(tmp_path, replace(info, epoch=8), {name: value + 1 for name, value in state.items()})
    model, loaded = load_checkpoint(tmp_path, schema)
    assert loaded.epoch == 8
    assert torch.equal(model.head.bias, state["head.bias"] + 1)
