"""Runs that are killed and go on: the curve and the weights are those of a run that nobody disturbed."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halohop
from halohop.datasets import synthetic
from halohop.datasets.sources import load_link_graph
from halohop.errors import CorruptDatasetError, InputError, VersionMismatchError
from halohop.files.whole import sealed_file
from halohop.recipes import resume
from halohop.recipes.checkpoint import load_tensors
from halohop.recipes.config import TrainConfig
from halohop.recipes.names import STATE
from halohop.recipes.train import train
from halohop.world import World

TIMES = ("seconds", "per_second", "train_seconds", "wait_seconds")


@pytest.fixture(scope="module")
def link_parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("links") / "parts"
    halohop.partition(load_link_graph("synthetic:tiny", seed=0), folder, num_parts=2, method="random")
    return str(folder)


def config_for(parts: str, out: Path, **values: Any) -> TrainConfig:
    defaults = {"fanout": (5, 5), "hidden": 16, "epochs": 4, "batch_size": 100, "workers": 2, "device": "cpu", "log_every": 1}
    return TrainConfig(parts=parts, out=str(out), **defaults | values)


class KilledError(Exception):
    """Stands for the end of the process, where a real one would take too long."""


def run(config: TrainConfig, *, until: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """The events of a run, which ends at a step (epoch, step) as if it were killed there."""
    events: list[dict[str, Any]] = []

    def on_event(event: dict[str, Any]) -> None:
        events.append(event)
        if until is not None and (event["event"], event.get("epoch"), event.get("step")) == ("step", *until):
            raise KilledError

    if until is None:
        train(config, world=World(), on_event=on_event)
    else:
        with pytest.raises(KilledError):
            train(config, world=World(), on_event=on_event)
    return events


def lasting(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what differs from run to run: seconds, and that it was resumed. Rows are counted when they are asked for, so those
    of an interrupted epoch are told roughly."""
    of_run = ("config", "local_rows", "remote_rows", "seeds", "remote_share", "held_up", "batch_bytes")
    return [
        {name: value for name, value in event.items() if not name.endswith(TIMES) and name not in of_run}
        for event in json.loads(json.dumps(events))
        if event["event"] != "resume"
    ]


def written(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def weights(out: Path) -> dict[str, torch.Tensor]:
    """The best model's, the last one's, and the optimizer's state."""
    best = load_tensors(out / "checkpoint/model.pt")["weights"]
    state = load_tensors(out / STATE)
    moments = {f"{n} {name}": value for n, of in state["optimizer"]["state"].items() for name, value in of.items()}
    vectors = {file.name: torch.from_numpy(np.load(file)) for file in (out / "checkpoint").glob("*.npy")}
    return {f"best {name}": value for name, value in best.items()} | state["model"] | moments | vectors


def assert_same_weights(first: Path, second: Path) -> None:
    mine, other = weights(first), weights(second)
    assert mine.keys() == other.keys()
    assert [name for name in mine if not torch.equal(mine[name], other[name])] == []


@pytest.mark.parametrize(
    ("task", "save_every"),
    [("node", 2), *(pytest.param(*case, marks=pytest.mark.full) for case in (("node", 0), ("link", 3), ("vectors", 1)))],
)
def test_interrupted_twice_it_is_the_unbroken_run(
    tiny_parts: str, link_parts: str, hetero_parts: str, tmp_path: Path, task: str, save_every: int
) -> None:
    parts = {"node": tiny_parts, "link": link_parts, "vectors": hetero_parts}[task]
    links: dict[str, Any] = {"task": "link", "batch_size": 800, "eval_negatives": 5}
    sizes: dict[str, Any] = {"link": links, "vectors": {"batch_size": 60}}.get(task, {})
    config = config_for(parts, tmp_path / "whole", save_every=save_every, dropout=0.3, **sizes)
    whole = run(config)
    steps = next(event["steps"] for event in whole if event["event"] == "step")
    draw = random.Random(f"{task} {save_every}")
    broken = replace(config, out=str(tmp_path / "broken"))
    run(broken, until=(draw.randint(1, 2), draw.randint(1, steps)))
    again = replace(broken, resume=True, workers=0)
    run(again, until=(draw.randint(3, 4), draw.randint(1, steps)))
    events = run(again)
    assert lasting(events) == lasting(whole)
    assert [event["event"] for event in events].count("resume") == 2
    assert written(tmp_path / "broken") == json.loads(json.dumps(events))
    assert_same_weights(tmp_path / "whole", tmp_path / "broken")
    counted = [[event["seeds"] for event in told if event["event"] == "epoch"] for told in (events, whole)]
    assert counted[0] == counted[1]


@pytest.mark.parametrize("trainers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_killed_trainers_go_on(tiny_parts: str, tmp_path: Path, start_trainers: Any, run_trainers: Any, trainers: int) -> None:
    """Real processes, killed wherever they are after a seeded step; of two, each has dropout of its own."""
    config = config_for(tiny_parts, tmp_path / "whole", epochs=3, batch_size=50, save_every=2, dropout=0.5)
    whole = run_trainers([config], trainers)
    broken = replace(config, out=str(tmp_path / "broken"))
    at = random.Random(trainers).randint(8, 14)
    with start_trainers([broken], trainers) as started:
        for _ in range(at):
            started[0].wait_for("step")
        for trainer in started:
            trainer.process.kill()
    events = run_trainers([replace(broken, resume=True)], trainers)
    assert lasting(events) == lasting(whole)
    assert_same_weights(tmp_path / "whole", tmp_path / "broken")


def test_a_kill_while_the_state_is_written_leaves_the_one_before(
    tiny_parts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_for(tiny_parts, tmp_path / "run", epochs=3)
    whole = run(replace(config, out=str(tmp_path / "whole")))
    saved: list[int] = []
    write = resume.write_state

    def save(state: Any, stream: Any) -> None:
        saved.append(1)
        if len(saved) == 3:
            stream.write(b"half of it")
            raise KilledError
        write(state, stream)

    monkeypatch.setattr(resume, "write_state", save)
    with pytest.raises(KilledError):
        train(config, world=World())
    monkeypatch.undo()
    assert lasting(run(replace(config, resume=True))) == lasting(whole)


def test_more_epochs_and_a_finished_run(tiny_parts: str, tmp_path: Path) -> None:
    whole = run(config_for(tiny_parts, tmp_path / "whole", epochs=4))
    config = config_for(tiny_parts, tmp_path / "run", epochs=2)
    run(config)
    longer = replace(config, epochs=4, resume=True)
    assert lasting(run(longer)) == lasting(whole)
    assert lasting(run(longer)) == lasting(whole)  # nothing is left but the test


def test_the_same_command_starts_and_resumes(tiny_parts: str, tmp_path: Path) -> None:
    whole = run(config_for(tiny_parts, tmp_path / "whole", epochs=3))
    auto = config_for(tiny_parts, tmp_path / "run", epochs=3, resume="auto")
    run(auto, until=(2, 3))
    assert lasting(run(auto)) == lasting(whole)
    finished = (tmp_path / "run/resume.pt").read_bytes()
    assert lasting(run(auto)) == lasting(whole)
    assert (tmp_path / "run/resume.pt").read_bytes() == finished
    assert_same_weights(tmp_path / "whole", tmp_path / "run")
    halohop.partition(synthetic("small"), tmp_path / "parts", num_parts=1, method="random")
    with pytest.raises((InputError, CorruptDatasetError), match="not the graph of"):
        run(replace(auto, parts=str(tmp_path / "parts")))
    assert written(tmp_path / "run")[-1]["event"] == "end"


def test_patience_goes_on_counting(tiny_parts: str, tmp_path: Path) -> None:
    config = config_for(tiny_parts, tmp_path / "whole", epochs=50, lr=1e-12, patience=3, batch_size=600)
    whole = run(config)
    last = whole[-1]["epochs"]
    broken = replace(config, out=str(tmp_path / "broken"))
    run(broken, until=(last - 1, 1))
    assert run(replace(broken, resume=True))[-1]["epochs"] == last


@pytest.fixture(scope="module")
def begun(tiny_parts: str, tmp_path_factory: pytest.TempPathFactory) -> TrainConfig:
    config = config_for(tiny_parts, tmp_path_factory.mktemp("begun") / "run", epochs=1)
    run(config)
    return replace(config, resume=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 60}, "batch_size=60, but the run in .* has batch_size=100, .*leave it out"),
        ({"seed": 1}, "seed=1, but"),
        ({"lr": 0.5}, "lr=0.5, but"),
        ({"fanout": (5, 4)}, "fanout=.*5, 4.* but"),
        ({"out": "absent"}, "no absent/resume.pt to go on from; begin the run without"),
    ],
)
def test_another_run_is_not_resumed(begun: TrainConfig, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(replace(begun, **change))


def test_another_graph_is_not_taken(begun: TrainConfig, tmp_path: Path) -> None:
    halohop.partition(synthetic("small"), tmp_path / "parts", num_parts=1, method="random")
    with pytest.raises((InputError, CorruptDatasetError), match="not the graph of"):
        run(replace(begun, parts=str(tmp_path / "parts")))


def test_another_number_of_trainers_is_refused(tiny_parts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = resume.write_state
    monkeypatch.setattr(resume, "write_state", lambda state, stream: write(state | {"ranks": 3}, stream))
    config = config_for(tiny_parts, tmp_path, epochs=1)
    run(config)
    with pytest.raises(InputError, match="saved by 3 trainers, here are 1"):
        run(replace(config, resume=True))


def flipped(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"no torch", flipped])
def test_a_damaged_state_is_refused_by_name(begun: TrainConfig, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    shutil.copytree(begun.out, tmp_path / "run")
    file = tmp_path / "run" / STATE
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(CorruptDatasetError, match=r"resume\.pt"):
        run(replace(begun, out=str(tmp_path / "run")))


def test_another_format_is_refused(begun: TrainConfig, tmp_path: Path) -> None:
    shutil.copytree(begun.out, tmp_path / "run")
    with sealed_file(tmp_path / "run" / STATE) as stream:
        torch.save({"format": 99}, stream)
    with pytest.raises(VersionMismatchError, match="format 3"):
        run(replace(begun, out=str(tmp_path / "run")))


def test_a_log_that_lost_its_end_goes_on_after_whole_lines(begun: TrainConfig, tmp_path: Path) -> None:
    shutil.copytree(begun.out, tmp_path / "run")
    log = tmp_path / "run/metrics.jsonl"
    log.write_bytes(log.read_bytes()[:700])
    events = run(replace(begun, out=str(tmp_path / "run"), epochs=2))
    assert written(tmp_path / "run") == json.loads(json.dumps(events))
    assert events[-1]["event"] == "end"
