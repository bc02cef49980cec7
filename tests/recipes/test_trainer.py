"""Trainers as real processes: what several of them compute, and what they say when one is gone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import halohop
from halohop.datasets import synthetic
from halohop.recipes.config import TrainConfig
from halohop.recipes.train import train
from halohop.recipes.trainer import main
from halohop.world import World
from tests.support.blocks import clustered, write_in_blocks


def config_for(parts: str, out: Path, **values: Any) -> TrainConfig:
    defaults = {"fanout": (5, 5), "hidden": 16, "epochs": 2, "batch_size": 100, "workers": 1, "device": "cpu", "deadline_s": 60.0}
    return TrainConfig(parts=parts, out=str(out), **defaults | values)


def losses(events: list[dict[str, Any]]) -> list[float]:
    return [event["loss"] for event in events if event["event"] == "epoch"]


def test_two_trainers_take_the_steps_of_one_with_their_seeds_together(
    tiny_parts: str, tmp_path: Path, run_trainers: Callable[..., list[dict[str, Any]]], own_folders: Callable[[str], list[str]]
) -> None:
    """600 seeds in steps of 2 x 70 leave an uneven last step: a wrong weight of a rank's gradient bends the curve."""
    exact = {"dropout": 0.0, "fanout": (-1, -1), "epochs": 3, "lr": 0.02}
    alone: list[dict[str, Any]] = []
    train(config_for(tiny_parts, tmp_path / "alone", batch_size=140, **exact), world=World(), on_event=alone.append)
    together = config_for(tiny_parts, tmp_path / "together", batch_size=70, **exact)
    one_host = run_trainers([together], 2)
    apart = replace(together, out=str(tmp_path / "apart"))
    two_hosts = run_trainers([replace(apart, parts=folder) for folder in own_folders(tiny_parts)], 1)
    assert losses(one_host) == pytest.approx(losses(alone), rel=1e-3)
    assert losses(two_hosts) == pytest.approx(losses(one_host), rel=1e-6)
    last = {name: events[-1] for name, events in (("alone", alone), ("one", one_host), ("two", two_hosts))}
    assert last["one"]["test_accuracy"] == pytest.approx(last["alone"]["test_accuracy"], abs=0.011)
    assert last["two"]["test_accuracy"] == last["one"]["test_accuracy"]
    (epoch, *_) = (event for event in two_hosts if event["event"] == "epoch")
    assert epoch["seeds"] == 600
    assert epoch["remote_rows"] > 0
    assert 0 < epoch["remote_share"] < 1


@pytest.mark.full
def test_trainers_with_seeds_from_their_own_blocks_learn_alike_wherever_the_partitions_lie(
    tmp_path: Path, run_trainers: Callable[..., list[dict[str, Any]]], own_folders: Callable[[str], list[str]]
) -> None:
    tables, block = clustered(8, 60)
    parts = str(write_in_blocks(tmp_path / "parts", tables, {"node": block}, num_blocks=8, num_parts=2))
    config = config_for(parts, tmp_path / "together", batch_size=15, locality="blocks")
    one_host = run_trainers([config], 2)
    apart = replace(config, out=str(tmp_path / "apart"))
    two_hosts = run_trainers([replace(apart, parts=folder) for folder in own_folders(parts)], 1)
    assert losses(two_hosts) == pytest.approx(losses(one_host), rel=1e-6)
    (epoch, *_) = (event for event in two_hosts if event["event"] == "epoch")
    assert epoch["seeds"] == 240
    assert 0 < epoch["remote_share"] < 0.2  # of whole-graph seeds it would be half


def test_fewer_seeds_than_trainers(tmp_path: Path, run_trainers: Callable[..., list[dict[str, Any]]]) -> None:
    """A trainer without a seed must neither hang nor make the others wait."""
    tables = synthetic("tiny")
    node = tables.nodes["node"]
    single = torch.zeros(1000, dtype=torch.bool)
    single[3] = True
    tables = replace(tables, nodes={"node": replace(node, columns=node.columns | {"train_mask": single, "val_mask": single})})
    halohop.partition(tables, tmp_path / "parts", num_parts=1, method="random")
    events = run_trainers([config_for(str(tmp_path / "parts"), tmp_path / "run")], 2)
    assert events[-1]["event"] == "end"
    assert losses(events)[1] < losses(events)[0]


def test_a_killed_host_is_named_by_the_others(
    tiny_parts: str, tmp_path: Path, start_trainers: Callable[..., Any], own_folders: Callable[[str], list[str]]
) -> None:
    config = config_for(tiny_parts, tmp_path / "run", epochs=100_000, patience=0, deadline_s=10.0)
    with start_trainers([replace(config, parts=folder) for folder in own_folders(tiny_parts)], 1) as (first, second):
        first.wait_for("epoch")
        second.process.kill()
        assert first.wait() == 1
        last = first.error.strip().splitlines()[-1]
        assert "PeerLostError" in last, first.error
        assert "host 1" in last


def test_a_killed_trainer_of_the_same_host_is_noticed(
    tiny_parts: str, tmp_path: Path, start_trainers: Callable[..., Any]
) -> None:
    config = config_for(tiny_parts, tmp_path / "run", epochs=100_000, patience=0, deadline_s=10.0)
    with start_trainers([config], 2) as (first, second):
        first.wait_for("epoch")
        second.process.kill()
        assert first.wait() == 1
        assert "ClusterError: rank 0 waited for the other trainers in vain" in first.error, first.error


def test_a_failure_is_a_traceback_and_exit_code_1(tmp_path: Path, start_trainers: Callable[..., Any]) -> None:
    with start_trainers([config_for(str(tmp_path / "absent"), tmp_path / "run")], 1) as (trainer,):
        assert trainer.wait() == 1
        assert "DatasetError: there is no folder" in trainer.error
        assert "Traceback" in trainer.error


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "CONFIG.json" in err
