"""Copies of hot nodes from the command line."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from halohop.launch import cli
from halohop.store.disk import read_manifest


def invoke(*command: Any) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in command])


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts") / "parts"
    options = ("--method", "random", "--replica-ratio", "0.2", "--fanout", "3,2", "--batch-size", "20")
    made = invoke("partition", "synthetic:tiny", folder, *options)
    assert made.exit_code == 0, made.output
    assert "partition 1: " in made.output
    return folder


def test_partition_makes_copies(parts: Path) -> None:
    made = read_manifest(parts).replicas.made
    assert (made["fanouts"], made["batch_size"], made["ratio"]) == ({"node__to__node": [3, 2]}, 20, 0.2)
    assert made["locality"] == "owner"


def test_replicate_makes_others_and_removes_them(parts: Path) -> None:
    options = ("--replica-memory", "20KB", "--fanout", "2", "--hotness", "presample", "--replica-lists", "--locality", "none")
    made = invoke("replicate", parts, *options)
    assert made.exit_code == 0, made.output
    assert read_manifest(parts).replicas.lists
    assert read_manifest(parts).replicas.made["memory"] == "20KB"
    assert invoke("replicate", parts, "--remove").exit_code == 0
    assert read_manifest(parts).replicas is None


def test_partition_by_frequency(tmp_path: Path) -> None:
    options = ("--method", "frequency", "--fanout", "3,2", "--batch-size", "20")
    made = invoke("partition", "synthetic:tiny", tmp_path / "parts", *options)
    assert made.exit_code == 0, made.output
    manifest = read_manifest(tmp_path / "parts")
    assert manifest.node_bounds["node"] == (0, 500, 1000)
    assert manifest.replicas is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give one of --replica-ratio and --replica-memory"),
        (("--replica-ratio", "0.1", "--fanout", "many"), "is not like 15,10,5"),
        (("--replica-ratio", "0.1", "--split", "tarin"), "no such split; its splits: node:train, node:val, node:test"),
        (("--replica-memory", "much"), "is no size"),
    ],
)
def test_what_cannot_be_is_refused(parts: Path, options: tuple[str, ...], message: str) -> None:
    refused = invoke("replicate", parts, *options)
    assert refused.exit_code == 2
    assert message in " ".join(refused.output.split())


def test_the_split_of_one_of_several_types_needs_no_type(tmp_path: Path) -> None:
    options = ("--method", "random", "--replica-ratio", "0.2", "--fanout", "3,2", "--batch-size", "20")
    made = invoke("partition", "synthetic-hetero:tiny", tmp_path / "parts", *options)
    assert made.exit_code == 0, made.output
    assert read_manifest(tmp_path / "parts").replicas is not None
