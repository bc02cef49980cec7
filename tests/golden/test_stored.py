"""Files that earlier code wrote are read, continued, and written the same again."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halohop
from halohop.recipes.config import InferConfig
from halohop.recipes.inference import infer
from halohop.recipes.train import train
from tests.golden import kept
from tests.golden.parts import stored, stored_files

FILES = kept.FILES / "stored_files"
OLD = Path(__file__).parent / "of_e6bdb347"
"""Runs of the code of commit e6bdb347, and their graphs."""


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kept files, as the working directory: a reader might write beside them."""
    shutil.copytree(FILES, tmp_path / "kept")
    monkeypatch.chdir(tmp_path / "kept")
    return Path()


def test_kept_files_say_what_is_kept(copies: Path) -> None:
    kept.check("stored", stored.described(copies))


def test_files_are_written_as_they_were() -> None:
    kept.check("stored", kept.now("stored"))


@pytest.mark.parametrize("name", ["one", "two", "float16", "replicas", "sums"])
def test_kept_partitions_hold_the_graph(copies: Path, name: str) -> None:
    source = stored_files.graph()
    with halohop.open(name) as graph:
        everything = torch.arange(stored_files.NODES)
        (batch,) = halohop.NeighborLoader(
            graph, [-1], everything, batch_size=len(everything), edge_columns=["weight", "edge_time"]
        )
        order = batch.n_id
        assert torch.equal(batch.x.float(), source.x[order])
        assert torch.equal(batch.y, source.y[order])
        ids = torch.argsort(batch.e_id)
        assert torch.equal(order[batch.edge_index][:, ids], source.edge_index)
        assert torch.equal(batch.weight[ids], source.weight)
        assert torch.equal(batch.edge_time[ids], source.edge_time)


def events(run: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]


def continued(run: str, **changed: Any) -> None:
    """One more epoch of a run: what was, stays, and the epochs go on."""
    before = [event for event in events(run) if event["event"] == "epoch"]
    assert [event["epoch"] for event in before] == [before[0]["epoch"]]
    train(stored_files.config_of(run, epochs=2, resume=True, **changed))
    after = [event for event in events(run) if event["event"] == "epoch"]
    assert after[:1] == before
    assert [event["epoch"] - before[0]["epoch"] for event in after] == [0, 1]
    assert [event["event"] for event in events(run)].count("resume") == 1


@pytest.mark.parametrize("run", [*stored_files.RUNS, "launched"])
def test_a_kept_run_is_continued(copies: Path, run: str) -> None:
    continued(run)


@pytest.mark.parametrize("run", stored_files.RUNS)
def test_a_kept_checkpoint_predicts_what_it_did(copies: Path, run: str) -> None:
    infer(InferConfig(parts=stored_files.RUNS[run], checkpoint=f"{run}/checkpoint", out="again", embeddings=True, workers=1))
    assert sorted(path.name for path in Path("again").iterdir()) == sorted(
        path.name for path in Path(f"{run}_predictions").iterdir()
    )
    for path in Path(f"{run}_predictions").iterdir():
        then, now = np.load(path), np.load(Path("again") / path.name)
        np.testing.assert_allclose(now, then, rtol=1e-3, atol=1e-4, err_msg=path.name)


@pytest.mark.parametrize("run", [*stored_files.RUNS, "launched"])
def test_a_run_of_earlier_code_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str) -> None:
    shutil.copytree(OLD, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    continued(run)
    infer(InferConfig(parts=stored_files.RUNS.get(run, "one"), checkpoint=f"{run}/checkpoint", out="again", workers=1))
    assert np.load("again/raw_ids.npy").tolist() == list(range(stored_files.NODES))


@pytest.mark.parametrize("name", ["one", "typed"])
def test_partitions_of_earlier_code_have_the_same_values(name: str) -> None:
    then = {
        case.removeprefix(f"values {name} "): value
        for case, value in kept.load("stored").items()
        if case.startswith(f"values {name} ")
    }
    assert stored.values_of(OLD / name) == then
