"""Vectors of nodes without features: learned in tables, kept with the best model, read by inference; by one process or more."""

import json
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halohop
from halohop.datasets import synthetic
from halohop.errors import InputError, RemoteError
from halohop.recipes.checkpoint import MODEL, load_checkpoint
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.recipes.inference import infer
from halohop.recipes.train import train
from halohop.recipes.vectors import learned_vectors
from halohop.store.tables import GraphTables, NodeTable
from halohop.world import World

NODES = 300


def tables() -> GraphTables:
    """A graph without features, whose ids have gaps and no order."""
    made = synthetic(None, num_nodes=NODES, avg_degree=8, num_classes=3, num_features=4)
    columns = {name: column for name, column in made.nodes["node"].columns.items() if name != "x"}
    raw = torch.randperm(NODES, generator=torch.Generator().manual_seed(1)) * 7 - 5
    return replace(made, nodes={"node": NodeTable(num_nodes=NODES, columns=columns, raw_id=raw)})


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("learned") / "parts"
    halohop.partition(tables(), folder, num_parts=2, method="random")
    return str(folder)


def config_for(parts: str, out: Path, **values: Any) -> TrainConfig:
    defaults = {"fanout": (5, 5), "hidden": 16, "epochs": 3, "batch_size": 60, "workers": 1, "device": "cpu", "deadline_s": 60.0}
    return TrainConfig(parts=parts, out=str(out), **defaults | values)


def run(config: TrainConfig) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    train(config, world=World(), on_event=events.append)
    return events


def losses(events: list[dict[str, Any]]) -> list[float]:
    return [event["loss"] for event in events if event["event"] == "epoch"]


@pytest.mark.parametrize("fanout", [None, (-1, -1)], ids=["by layers", "by batches"])
def test_inference_reads_the_vectors_of_the_best_epoch(parts: str, tmp_path: Path, fanout: Any) -> None:
    """A high learning rate makes the last epoch a worse one, and the test of the run has put the best vectors back."""
    end = run(config_for(parts, tmp_path / "run", epochs=6, lr=0.3, seed=2))[-1]
    assert 0 < end["best_epoch"] < 6
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "run/checkpoint"), "split": "test", "workers": 1, "device": "cpu"}
    infer(InferConfig(parts=parts, out=str(tmp_path / "found"), fanout=fanout, **options), world=World())
    raw, found = (np.load(tmp_path / f"found/{name}.npy") for name in ("raw_ids", "predictions"))
    with halohop.open(parts) as graph:
        y = graph.rows("y", torch.from_numpy(raw)).numpy()
    assert float((found == y).mean()) == pytest.approx(end["test_accuracy"])
    names = {path.name for path in (tmp_path / "run/checkpoint").iterdir()}
    stem = f"epoch-{end['best_epoch']}.0"
    assert names == {MODEL, f"{stem}.ids.npy", f"{stem}.rows.npy"}


@pytest.fixture(scope="module")
def still(parts: str, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Losses where vectors stay as they began."""
    out = tmp_path_factory.mktemp("still") / "run"
    return losses(run(config_for(parts, out, embed_optimizer="sgd", embed_lr=1e-30, embed_dim=12)))


@pytest.mark.parametrize(("optimizer", "lr"), [("adam", None), ("adagrad", 0.1), ("rowwise-adagrad", 0.1), ("sgd", 5.0)])
def test_every_optimizer_learns_and_only_the_vectors_by_it(
    parts: str, still: list[float], tmp_path: Path, optimizer: Any, lr: float | None
) -> None:
    """A model whose vectors stay as they began knows nothing of a node but its neighbours' random rows."""
    learned = losses(run(config_for(parts, tmp_path / "run", embed_optimizer=optimizer, embed_lr=lr, embed_dim=12)))
    assert learned[0] != still[0]
    assert learned[-1] < still[-1]


def test_vectors_of_another_width_than_the_layers_are_projected(hetero_parts: str, tmp_path: Path) -> None:
    events = run(config_for(hetero_parts, tmp_path / "run", embed_dim=6, model="hgt", hidden=16, heads=2, epochs=2))
    assert losses(events)[-1] < losses(events)[0]
    with halohop.open(hetero_parts) as graph:
        model, info = load_checkpoint(tmp_path / "run/checkpoint", graph.schema)
    learned = [of.learned for of in info.model.inputs if of.width is None]
    assert learned == [6, 6]
    assert [tuple(of.project.weight.shape) for of in learned_vectors(model).values()] == [(16, 6), (16, 6)]


def test_tables_are_gone_when_the_run_is_over_and_runs_do_not_meet(parts: str, tmp_path: Path) -> None:
    """Two runs on the same servers at once; afterwards the servers hold nothing of them."""
    with halohop.serve(parts) as server:
        configs = [config_for(server.address, tmp_path / name, epochs=2) for name in ("first", "second")]
        first = losses(run(configs[0]))
        assert losses(run(configs[1])) == pytest.approx(first, rel=1e-5)
        with halohop.connect([server.address]) as graph:
            assert graph.tables.list() == ()


def test_servers_without_a_folder_for_tables_cannot_resume_and_say_so(parts: str, tmp_path: Path) -> None:
    with halohop.serve(parts) as server:
        config = config_for(server.address, tmp_path / "run", epochs=1)
        with pytest.raises((InputError, RemoteError), match="this server names no folder for tables"):
            run(replace(config, save_every=2))
        run(replace(config, overwrite=True))
        with pytest.raises(InputError, match=r"holds no vectors to go on with.*--tables FOLDER"):
            run(replace(config, epochs=2, resume=True))


@pytest.mark.full
def test_a_run_on_servers_goes_on_on_others_and_on_the_partitions(parts: str, tmp_path: Path) -> None:
    """The folder of the run lies in the one that the servers name; the second server has never had its tables."""
    whole = losses(run(config_for(parts, tmp_path / "whole", epochs=4)))
    config = config_for(parts, tmp_path / "run", epochs=4)
    for epochs in (1, 2):
        with halohop.serve(parts, tables=tmp_path) as server:
            run(replace(config, parts=server.address, epochs=epochs, resume=epochs > 1))
    assert losses(run(replace(config, resume=True))) == pytest.approx(whole, rel=1e-5)


def test_trainers_of_two_hosts_learn_what_one_does(
    parts: str, tmp_path: Path, run_trainers: Callable[..., list[dict[str, Any]]], own_folders: Callable[[str], list[str]]
) -> None:
    """180 seeds in steps of 2 x 35 leave an uneven last step: a wrong weight of a rank's gradient bends the curve."""
    exact = {"dropout": 0.0, "fanout": (-1, -1), "lr": 0.02}
    alone = run(config_for(parts, tmp_path / "alone", batch_size=70, **exact))
    config = config_for(parts, tmp_path / "apart", batch_size=35, **exact)
    apart = run_trainers([replace(config, parts=folder) for folder in own_folders(parts)], 1)
    assert losses(apart) == pytest.approx(losses(alone), rel=1e-3)
    assert apart[-1]["test_accuracy"] == pytest.approx(alone[-1]["test_accuracy"], abs=0.02)
    assert json.loads(json.dumps(apart[0]))["ranks"] == 2


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(4))
def test_a_trainer_that_is_killed_goes_on_with_the_same_vectors(
    parts: str, tmp_path: Path, start_trainers: Any, run_trainers: Any, seed: int
) -> None:
    """Rank 0 owns the rows: without it they are gone, and come back from the checkpoint."""
    chance = random.Random(seed)
    whole = config_for(parts, tmp_path / "whole", batch_size=20, save_every=1, log_every=1)
    undisturbed = run_trainers([whole], 2)
    broken = replace(whole, out=str(tmp_path / "broken"))
    with start_trainers([broken], 2) as trainers:
        for _ in range(chance.randint(1, 8)):
            trainers[0].wait_for("step")
        victim = chance.randrange(2)
        trainers[victim].process.kill()
        codes = [trainer.wait() for trainer in trainers]
    assert codes[victim] == -signal.SIGKILL
    assert codes[1 - victim] == 1
    events = run_trainers([replace(broken, resume=True)], 2)
    assert losses(events) == losses(undisturbed)
    assert events[-1]["test_accuracy"] == undisturbed[-1]["test_accuracy"]
