"""Ids and classes that are strings: stored with the data set, kept out of batches, given back by inference."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import halohop
from halohop.datasets import synthetic
from halohop.datasets.text import text_column
from halohop.inference.results import FILES, PARQUET
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.recipes.inference import infer
from halohop.recipes.train import train
from halohop.store.tables import GraphTables
from halohop.typing import RAW_TEXT
from halohop.world import World
from tests.support.result_files import check_described, described

NAMES = tuple(f"class {letter}" for letter in "abcdef")  # one more than there are labels of
TEXTS = [f"node-{number}-ä" for number in range(1000)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("named")
    tables = synthetic("tiny")
    nodes = tables.nodes["node"]
    named = replace(nodes, columns=nodes.columns | {RAW_TEXT: text_column(TEXTS)}, names={"y": NAMES})
    halohop.partition(GraphTables(nodes={"node": named}, edges=tables.edges), folder / "parts", num_parts=2, method="random")
    options = {"epochs": 1, "batch_size": 200, "fanout": (5, 5), "hidden": 16, "device": "cpu", "workers": 1}
    train(TrainConfig(parts=str(folder / "parts"), out=str(folder / "run"), **options), world=World())
    return str(folder / "parts"), str(folder / "run/checkpoint")


def config_for(trained: tuple[str, str], out: Path, **values: object) -> InferConfig:
    return InferConfig(parts=trained[0], checkpoint=trained[1], out=str(out), workers=1, device="cpu", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("fanout", [None, (5, 5)])
def test_ids_and_classes_come_back_as_they_were(trained: tuple[str, str], tmp_path: Path, fanout: tuple[int, ...] | None) -> None:
    files = infer(config_for(trained, tmp_path, split="test", fanout=fanout, embeddings=True), world=World())
    found = {file.stem: np.load(file, allow_pickle=False) for file in files}
    assert sorted(found) == ["classes", "confidence", "embeddings", "ids", "predictions", "raw_ids"]
    check_described(found, {"n": 200, "k": len(NAMES), "width": 16})
    assert found["ids"].tolist() == [TEXTS[raw] for raw in found["raw_ids"]]
    assert len(found["ids"]) == 200
    assert found["classes"].tolist() == list(NAMES)
    assert set(found["classes"][found["predictions"]]) <= set(NAMES)


def test_parquet_has_both_as_columns(trained: tuple[str, str], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (file,) = infer(config_for(trained, tmp_path, form="parquet"), world=World())
    table = parquet.read_table(file)
    assert table.column_names == ["raw_ids", "predictions", "confidence", "ids", "class"]
    assert table.column("ids").to_pylist() == TEXTS
    assert table.column("class").to_pylist() == [NAMES[number] for number in table.column("predictions").to_pylist()]
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.parquet"]


def test_batches_do_not_carry_ids_that_are_strings(trained: tuple[str, str]) -> None:
    with halohop.open(trained[0]) as graph:
        assert graph.schema.nodes["node"].columns["y"].names == NAMES
        assert graph.rows(RAW_TEXT, torch.tensor([3]))[0, :6].tolist() == list(b"node-3")
        batch = next(iter(halohop.NeighborLoader(graph, [2], "train", batch_size=4, num_workers=0)))
        assert RAW_TEXT not in batch
        assert "y" in batch


def test_the_page_has_every_file() -> None:
    assert [f"{name}.npy" for name in described(several=False)] == [name for name in FILES if name != PARQUET]
