import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halohop
from halohop.datasets import synthetic
from halohop.errors import InputError, NotFiniteError, SchemaError, WriteError
from halohop.recipes.checkpoint import load_checkpoint
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.recipes.inference import infer
from halohop.recipes.train import train
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.world import World

IDS = torch.arange(1000).flip(0) * 7 + 100
"""Raw ids that are neither dense nor in the order of the table."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A graph whose raw ids are no positions, and the checkpoint of a model that has seen it."""
    folder = tmp_path_factory.mktemp("trained")
    tables = synthetic("tiny")
    tables = GraphTables(nodes={"node": replace(tables.nodes["node"], raw_id=IDS)}, edges=tables.edges)
    halohop.partition(tables, folder / "parts", num_parts=2, method="random")
    config = TrainConfig(
        parts=str(folder / "parts"),
        out=str(folder / "run"),
        epochs=6,
        batch_size=60,
        fanout=(5, 5),
        hidden=16,
        device="cpu",
        workers=1,
    )
    train(config, world=World())
    return str(folder / "parts"), str(folder / "run/checkpoint")


def config_for(trained: tuple[str, str | None], out: Path, **values: Any) -> InferConfig:
    parts, checkpoint = trained
    return InferConfig(
        parts=parts, checkpoint=checkpoint, out=str(out), **{"batch_size": 64, "workers": 1, "device": "cpu"} | values
    )


def load(file: Path) -> np.ndarray:
    return np.load(file, allow_pickle=False)


@torch.no_grad()
def test_rows_belong_to_their_raw_ids(trained: tuple[str, str], tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    config = config_for(trained, tmp_path, embeddings=True)
    files = infer(config, world=World(), on_progress=lambda *call: calls.append(call))
    assert [file.name for file in files] == ["raw_ids.npy", "predictions.npy", "confidence.npy", "embeddings.npy"]
    raw, classes, confidence, hidden = map(load, files)
    assert raw.tolist() == sorted(IDS.tolist())
    assert [call for call in calls if call[0].startswith("layer")][-1] == ("layer 2 of 2", 1000, 1000)
    assert calls[-1] == ("write results", 1000, 1000)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(file.name for file in files)
    some = torch.tensor([7093, 100, 3600])
    with halohop.open(trained[0], world=World()) as graph:
        model, _ = load_checkpoint(trained[1], graph.schema)
        model.eval()
        batch = next(iter(halohop.NeighborLoader(graph, [-1, -1], some, batch_size=3, num_workers=0)))
        expected, encoded = model(batch).softmax(dim=1), model.encode(batch)
    rows = np.searchsorted(raw, some.numpy())
    assert classes[rows].tolist() == expected.argmax(dim=1).tolist()
    np.testing.assert_allclose(confidence[rows], expected.max(dim=1).values, rtol=1e-4)
    np.testing.assert_allclose(hidden[rows], encoded, rtol=1e-3, atol=1e-5)
    y = synthetic("tiny").nodes["node"].columns["y"].flip(0).numpy()
    assert (classes == y).mean() > 0.7


def test_a_split_only(trained: tuple[str, str], tmp_path: Path) -> None:
    raw, classes, _ = map(load, infer(config_for(trained, tmp_path, split="test"), world=World()))
    mask = synthetic("tiny").nodes["node"].columns["test_mask"]
    assert raw.tolist() == sorted(IDS[mask].tolist())
    assert len(classes) == 200


def test_parquet_holds_the_same(trained: tuple[str, str], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    arrays = {file.stem: load(file) for file in infer(config_for(trained, tmp_path / "npy", embeddings=True), world=World())}
    steps: list[tuple[str, int, int]] = []
    config = config_for(trained, tmp_path / "parquet", embeddings=True, form="parquet")
    (file,) = infer(config, world=World(), on_progress=lambda *step: steps.append(step))
    assert steps[-1] == ("write parquet", 1000, 1000)
    assert [path.name for path in (tmp_path / "parquet").iterdir()] == ["predictions.parquet"]
    table = parquet.read_table(file)
    assert table.column_names == list(arrays)
    for name, array in arrays.items():
        assert np.array_equal(np.array(table[name].to_pylist(), dtype=array.dtype), array)


def test_what_does_not_fit_is_refused(trained: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3 hops, but the model has 2 layers"):
        infer(config_for(trained, tmp_path, fanout=(2, 2, 2)), world=World())
    with pytest.raises(SchemaError, match="no split 'dev'"):
        infer(config_for(trained, tmp_path, split="dev"), world=World())
    halohop.partition(synthetic("tiny", num_features=5), tmp_path / "other", num_parts=1, method="random")
    with pytest.raises(SchemaError, match="32 features"):
        infer(config_for((str(tmp_path / "other"), trained[1]), tmp_path / "out"), world=World())


@pytest.mark.parametrize("fanout", [None, (-1, -1)])
def test_ranks_and_batches_agree_with_one_rank_and_layers(
    trained: tuple[str, str], tmp_path: Path, start_trainers: Callable[..., Any], fanout: tuple[int, ...] | None
) -> None:
    alone = [load(file) for file in infer(config_for(trained, tmp_path / "alone"), world=World())]
    config = config_for(trained, tmp_path / "together", batch_size=90, fanout=fanout)
    with start_trainers([config], 2, "halohop.recipes.inference") as ranks:
        assert [rank.wait() for rank in ranks] == [0, 0], ranks[0].error
        assert ranks[0].wait_for("progress")["total"] == (1000 if fanout is None else 6)
        assert ranks[0].wait_for("end")["files"][0] == str(tmp_path / "together/raw_ids.npy")
    for array, name in zip(alone, ("raw_ids", "predictions", "confidence"), strict=True):
        np.testing.assert_allclose(load(tmp_path / "together" / f"{name}.npy"), array, rtol=1e-3)


def test_either_a_checkpoint_or_a_model(trained: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give one of them"):
        infer(config_for(trained, tmp_path), model=torch.nn.Linear(2, 2), world=World())
    with pytest.raises(InputError, match="give one of them"):
        infer(config_for((trained[0], None), tmp_path), world=World())
    with pytest.raises(InputError, match="leave it out"):
        infer(config_for((trained[0], None), tmp_path, fanout=(1,)), model=torch.nn.Linear(2, 2), world=World())


@pytest.mark.parametrize("fanout", [None, (2, 2)])
def test_results_are_not_lost_by_accident(
    trained: tuple[str, str], tmp_path: Path, no_more_than: Any, fanout: tuple[int, ...] | None
) -> None:
    """Neither without being asked, nor by a run that is stopped half-way, nor by one on a full disk."""
    config = config_for(trained, tmp_path, split="test", fanout=fanout, batch_size=50)
    before = {file.name: file.read_bytes() for file in infer(replace(config, embeddings=True), world=World())}
    for other in (config, replace(config, form="parquet")):
        with pytest.raises(InputError, match=r"predictions/raw_ids\.npy would be lost|raw_ids\.npy would be lost; .*overwrite"):
            infer(other, world=World())

    def stopped(stage: str, done: int, total: int) -> None:
        if stage in ("predict", "write results") and done >= total // 2:
            raise KeyboardInterrupt

    again = replace(config, overwrite=True)
    with pytest.raises(KeyboardInterrupt):
        infer(again, world=World(), on_progress=stopped)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.npy*")} == before
    with no_more_than(1000), pytest.raises(WriteError, match=r"cannot write .*: File too large; make room"):
        infer(again, world=World())
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.npy*")} == before
    infer(again, world=World())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["confidence.npy", "predictions.npy", "raw_ids.npy"]


class Killed(BaseException):
    """What no handler of errors catches."""


@pytest.mark.parametrize("fanout", [None, (2, 2)])
@pytest.mark.parametrize(("form", "again"), [("npy", False), ("npy", True), ("parquet", True)])
def test_a_kill_while_results_get_their_names_does_not_stop_the_next_run(
    trained: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fanout: tuple[int, ...] | None,
    form: str,
    again: bool,
) -> None:
    """Of a first run, and of one that was allowed to replace what is there; the next run need not be allowed to."""
    config = config_for(trained, tmp_path, split="test", fanout=fanout, batch_size=50, form=form)
    if again:
        infer(replace(config, form="npy", embeddings=True), world=World())
    steps = 0

    def dying(call: Callable[..., None], path: Any, *others: Any, **options: Any) -> None:
        nonlocal steps
        call(path, *others, **options)
        name = Path(others[0] if others else path)
        if name.parent == tmp_path and name.suffix == ".npy":
            steps += 1
            if steps == 2:
                raise Killed

    with monkeypatch.context() as patch:
        for call in (os.unlink, os.replace):
            patch.setattr(os, call.__name__, partial(dying, call))
        with pytest.raises(Killed):
            infer(replace(config, overwrite=again), world=World())
    assert len(list(tmp_path.glob("*.npy"))) == 2  # of three, or of the four that were there before
    files = infer(config, world=World())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(file.name for file in files)
    with pytest.raises(InputError, match="would be lost"):
        infer(config, world=World())


@pytest.mark.parametrize("fanout", [None, (-1, -1)])
def test_predictions_that_are_not_numbers_are_not_written(
    trained: tuple[str, str], tmp_path: Path, fanout: tuple[int, ...] | None
) -> None:
    tables = synthetic("tiny")
    node = tables.nodes["node"]
    x = node.columns["x"].clone()
    x[123] = 3e38  # a number, but not its products
    large = GraphTables(nodes={"node": replace(node, columns=node.columns | {"x": x})}, edges=tables.edges)
    halohop.partition(large, tmp_path / "parts", num_parts=2, method="random")
    config = config_for((str(tmp_path / "parts"), trained[1]), tmp_path / "out", fanout=fanout)
    with pytest.raises(NotFiniteError, match="the confidence of a prediction is nan"):
        infer(config, world=World())
    assert not (tmp_path / "out/confidence.npy").exists()


@pytest.mark.parametrize(
    ("raw_id", "model"),
    [
        pytest.param([], "rgcn", marks=pytest.mark.full),
        ([], "hgt"),
        ([100, 7, 50], "rgcn"),
        pytest.param([100, 7, 50], "hgt", marks=pytest.mark.full),
    ],
    ids=["no nodes-rgcn", "no nodes-hgt", "no node 0-rgcn", "no node 0-hgt"],
)
def test_types_without_features_that_lack_node_0(tmp_path: Path, model: str, raw_id: list[int]) -> None:
    """Layer by layer a node of id 0 was asked for to learn the width of the rows."""
    tables, ids = synthetic("tiny", num_nodes=200), torch.tensor(raw_id, dtype=torch.int64)
    nodes = tables.nodes | {"tag": NodeTable(num_nodes=len(ids), columns={}, raw_id=ids)}
    some = torch.arange(len(ids))
    edges = tables.edges | {
        ("tag", "of", "node"): EdgeTable(src=some, dst=some + 20),
        ("node", "has", "tag"): EdgeTable(src=some, dst=some),
    }
    halohop.partition(GraphTables(nodes=nodes, edges=edges), tmp_path / "parts", num_parts=2, method="random")
    config = TrainConfig(
        parts=str(tmp_path / "parts"),
        out=str(tmp_path / "run"),
        model=model,
        epochs=1,
        fanout=(2, 2),
        hidden=8,
        device="cpu",
        workers=1,
    )
    train(config, world=World())
    found = []
    for fanout in (None, (-1, -1)):
        out = config_for((config.parts, f"{config.out}/checkpoint"), tmp_path / f"out-{fanout}", fanout=fanout)
        found.append({file.stem: load(file) for file in infer(out, world=World())})
    np.testing.assert_allclose(found[0]["confidence"], found[1]["confidence"], rtol=1e-4)
    assert len(found[0]["predictions"]) == 200
