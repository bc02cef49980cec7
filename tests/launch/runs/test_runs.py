"""Real runs through the command line, each in processes of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from halohop.errors import DatasetError, InputError
from halohop.launch.runs.nodes import node_folders, run_recipe
from halohop.launch.runs.source import is_partitioned
from halohop.recipes.config import InferConfig
from halohop.recipes.inference import infer
from halohop.store.disk import held_parts, read_manifest
from halohop.world import World
from tests.support.deadlines import within
from tests.support.forked import Forked
from tests.support.ranks import ranks_of

pytestmark = pytest.mark.xdist_group("runs")  # one process makes the fixtures of the module

HALOHOP = [sys.executable, "-m", "halohop"]
PATIENCE_S = 250
SMALL = ["--hidden", "8", "--fanout", "4,3", "--batch-size", "128", "--model", "sage"]


def run(*arguments: str | Path, code: int = 0, command: list[str] = HALOHOP, **env: str) -> subprocess.CompletedProcess[str]:
    """A command that is forked forks its trainers, too: nobody imports anything."""
    given, env = [*map(str, arguments)], os.environ | {"COLUMNS": "200"} | env
    if command is HALOHOP:
        done = Forked("halohop.__main__", given, env).finish(PATIENCE_S)
    else:
        done = subprocess.run([*command, *given], capture_output=True, text=True, timeout=PATIENCE_S, env=env, check=False)
    assert done.returncode == code, done.stderr
    return done


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@contextmanager
def endless(parts: Path, out: Path) -> Iterator[tuple[Forked, dict[int, int]]]:
    """A run on two nodes that never ends by itself, in its second epoch."""
    command = ["train", str(parts), *SMALL, "--nodes", "2", "--epochs", "100000", "--patience", "0", "--out", str(out)]
    command += ["--deadline", "20"]
    with closing(Forked("halohop.__main__", command, os.environ)) as launcher:
        try:
            for line in launcher.stderr:
                if line.strip().startswith("1/100000"):
                    break
            yield launcher, ranks_of(launcher.pid)
        finally:
            launcher.kill()
            launcher.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def trained(tiny_parts: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and the output of a run of two nodes with a trainer each; three partitions lie on the two nodes."""
    out = tmp_path_factory.mktemp("run") / "first"
    done = run("train", tiny_parts, *SMALL, "--nodes", "2", "--epochs", "2", "--out", out)
    return out, done.stdout


def test_a_run_leaves_metrics_checkpoint_picture_and_says_where(trained: tuple[Path, str]) -> None:
    out, said = trained
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    start, end = events[0], events[-1]
    assert (start["ranks"], start["hosts"], start["partitions"]) == (2, 2, 3)
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [event["epoch"] for event in epochs] == [1, 2]
    assert all(event["remote_rows"] > 0 and event["local_rows"] > 0 for event in epochs)
    assert f"{end['test_accuracy']:.4f}" in said
    for name in ("metrics.jsonl", "checkpoint", "picture.html"):
        assert (out / name).exists()
        assert str(out / name) in said
    assert "2 nodes x 1 trainer" in (out / "picture.html").read_text()
    for node, own in enumerate([{"part-0000", "part-0001"}, {"part-0002"}]):
        assert {path.name for path in (out / "nodes" / f"node-{node}").iterdir()} == {"manifest.json", *own}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--nodes", "2", "--trainers", "2"], marks=pytest.mark.full),
        [],
        pytest.param(["--fanout", "-1,-1"], marks=pytest.mark.full),
    ],
    ids=" ".join,
)
def test_predictions_from_the_checkpoint(trained: tuple[Path, str], tiny_parts: Path, tmp_path: Path, options: list[str]) -> None:
    checkpoint = trained[0] / "checkpoint"
    given = ("infer", tiny_parts, "--checkpoint", checkpoint, "--batch-size", "60", "--batch-edges", "200")
    said = run(*given, *options, "--out", tmp_path / "out").stdout.splitlines()
    assert said == [str(tmp_path / "out" / f"{file}.npy") for file in ("raw_ids", "predictions", "confidence")]
    assert not (tmp_path / "out" / "unfinished").exists()
    alone = infer(InferConfig(parts=str(tiny_parts), checkpoint=str(checkpoint), out=str(tmp_path / "alone")), world=World())
    raw, classes, confidence = map(np.load, said)
    expected_raw, expected_classes, expected_confidence = map(np.load, alone)
    assert raw.tolist() == expected_raw.tolist() == list(range(1000))
    assert (classes == expected_classes).mean() > 0.99  # ties aside
    np.testing.assert_allclose(confidence, expected_confidence, rtol=1e-3)


@pytest.mark.full  # a run of training writes events below
def test_results_for_machines(trained: tuple[Path, str], tiny_parts: Path, tmp_path: Path) -> None:
    given = ("infer", tiny_parts, "--checkpoint", trained[0] / "checkpoint", "--out", tmp_path / "predictions", "--json")
    done = run(*given)
    events = list(map(json.loads, done.stdout.splitlines()))
    assert {event["event"] for event in events} == {"progress", "end"}
    assert events[-1]["files"] == [
        str(tmp_path / "predictions" / f"{file}.npy") for file in ("raw_ids", "predictions", "confidence")
    ]


@pytest.mark.full
def test_events_for_machines_of_a_source_that_is_partitioned_into_the_run_folder(tmp_path: Path) -> None:
    source = ("synthetic:tiny", "--method", "random")
    done = run("-q", "train", *source, *SMALL, "--epochs", "1", "--json", "--out", tmp_path / "run")
    assert read_manifest(tmp_path / "run" / "parts").num_parts == 1
    assert done.stdout.splitlines() == (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert done.stderr == ""
    log = (tmp_path / "run" / "logs" / "rank-0.log").read_text()
    assert re.search(r"^\S+ \S+ INFO rank 0 halohop\.recipes\.events: event epoch, epoch 1, loss ", log, re.MULTILINE)


@pytest.mark.full
def test_torchrun_starts_inference_too(trained: tuple[Path, str], tiny_parts: Path, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", *HALOHOP[2:]]
    given = ("infer", tiny_parts, "--checkpoint", trained[0] / "checkpoint", "--out", tmp_path, "--form", "parquet")
    done = run(*given, command=torchrun, OMP_NUM_THREADS="1")
    assert done.stdout.splitlines() == [str(tmp_path / "predictions.parquet")]


@pytest.mark.full  # tests/system/test_train_servers.py kills one, too
def test_a_trainer_that_is_killed_is_named_and_ends_the_run(tiny_parts: Path, tmp_path: Path) -> None:
    with endless(tiny_parts, tmp_path) as (launcher, ranks):
        os.kill(ranks[1], signal.SIGKILL)
        said = launcher.stderr.read()
        assert launcher.wait(PATIENCE_S) == 1
        assert re.search(rf"error: rank 1 \(node 1, process {ranks[1]}\) was killed by SIGKILL", said), said
    assert sorted(ranks) == [0, 1]
    assert not any(map(lives, ranks.values()))


def test_ctrl_c_ends_everything_with_130(tiny_parts: Path, tmp_path: Path) -> None:
    with endless(tiny_parts, tmp_path) as (launcher, ranks):
        launcher.send_signal(signal.SIGINT)
        sent = time.monotonic()
        said = launcher.stderr.read()
        assert time.monotonic() - sent < within(5)
        assert launcher.wait(within(5)) == 130
        assert "Traceback" not in said
    assert sorted(ranks) == [0, 1]
    assert not any(map(lives, ranks.values()))


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_nodes_hold_every_partition_once(tiny_parts: Path, tmp_path: Path, nodes: int) -> None:
    manifest = read_manifest(tiny_parts)
    for _ in range(2):  # the second time over the first
        folders = node_folders(tiny_parts, tmp_path, nodes)
        held = [held_parts(folder, manifest) for folder in folders]
        assert [part for parts in held for part in parts] == [0, 1, 2]
        assert all(read_manifest(folder) == manifest for folder in folders)
    node_folders(tiny_parts, tmp_path, 2)  # fewer nodes take over what is theirs now
    assert held_parts(tmp_path / "node-0", manifest) == (0, 1)


def test_no_node_or_no_data_set(tiny_parts: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nodes=0"):
        node_folders(tiny_parts, tmp_path, 0)
    with pytest.raises(DatasetError):
        node_folders(tmp_path, tmp_path, 2)


def test_more_trainers_than_gpus_are_refused_before_anything_starts(
    tiny_parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    config = InferConfig(parts=str(tiny_parts), checkpoint="none", out=str(tmp_path / "out"), device="cuda")
    how: dict[str, Any] = {"console": Console(), "on_event": print, "start": None}
    with pytest.raises(InputError, match="4 trainers on this machine, and torch sees 3 GPUs; start as many, or use device='cpu'"):
        run_recipe("halohop.recipes.inference", config, nodes=2, trainers=2, **how)
    assert not (tmp_path / "out").exists()


def test_what_counts_as_partitioned(tiny_parts: Path, tmp_path: Path) -> None:
    assert is_partitioned(tiny_parts)
    assert not is_partitioned("synthetic:tiny")
    assert not is_partitioned(tmp_path)
    (tmp_path / "part-0000").mkdir()
    assert is_partitioned(tmp_path)  # a half-written one: to be refused by name, not taken for a source


@pytest.mark.soak  # tests/system/test_train_servers.py resumes by command, too
def test_a_run_is_resumed_with_its_own_options(tiny_parts: Path, tmp_path: Path) -> None:
    """Two nodes, so that the trainers' folders of partitions are made again; nothing but the number of epochs is told."""
    out = tmp_path / "run"
    run("train", tiny_parts, *SMALL, "--nodes", "2", "--epochs", "1", "--seed", "5", "--out", out, "--dropout", "0.25")
    done = run("train", "--resume", out, "--epochs", "2")
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [event["epoch"] for event in events if event["event"] == "epoch"] == [1, 2]
    assert [(event["epoch"], event["step"]) for event in events if event["event"] == "resume"] == [(2, 0)]
    assert events[0]["config"]["seed"] == 5
    assert re.search(r"best epoch +[12] of 2", done.stdout)
    refused = run("train", "--resume", out, "--batch-size", "64", code=2)
    assert "--batch-size 64, but the run in" in " ".join(refused.stderr.split())
    absent = run("train", tiny_parts, "--resume", tmp_path / "absent", code=2)
    assert "resume.pt to go on from" in " ".join(absent.stderr.split())
