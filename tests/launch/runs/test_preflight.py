"""What cannot work is refused before a trainer starts: one line, exit code 2."""

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

import halohop
from halohop.datasets import synthetic_hetero
from halohop.launch import cli
from halohop.launch.processes import local


@pytest.fixture(scope="module")
def hetero_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = tmp_path_factory.mktemp("hetero") / "parts"
    halohop.partition(synthetic_hetero(300), parts, num_parts=1, method="random")
    return parts


@pytest.fixture(scope="module")
def bare_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Neither features nor labels."""
    parts = tmp_path_factory.mktemp("bare") / "parts"
    data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
    halohop.partition(data, parts, num_parts=1, method="random")
    return parts


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs a command that must be refused before anything is started, and returns the line that it says."""
    monkeypatch.setattr(local, "run", lambda *_, **__: pytest.fail("trainers were started"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> str:
        result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(cli.app, [*map(str, arguments)])
        assert result.exit_code == 2, result.output
        assert result.output.startswith("error: ")
        assert result.output.count("\n") == 1, result.output
        assert not Path("runs").exists()
        return result.output

    return run


@pytest.mark.parametrize("command", ["train", "infer"])
@pytest.mark.parametrize(("nodes", "parts"), [(2, 1), (5, 1)])
def test_more_nodes_than_partitions(refused: Any, hetero_parts: Path, command: str, nodes: int, parts: int) -> None:
    options = ("--checkpoint", "none") if command == "infer" else ()
    said = refused(command, hetero_parts, "--nodes", nodes, "--trainers", 2, *options)
    assert f"--nodes {nodes}, but {hetero_parts} has {parts} partition, and each node needs one; use --nodes {parts}" in said
    assert f"halohop partition SOURCE PARTS --parts {nodes}" in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:3"])
def test_a_gpu_that_is_not_there(refused: Any, tiny_parts: Path, device: str) -> None:
    said = refused("train", "synthetic:tiny", "--device", device)  # before the source is partitioned
    assert f"--device {device} is not here: torch sees 0 GPUs; use --device cpu" in said


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--model", "rgcn"), "--model rgcn is for graphs of several relations, this one has one"),
        (("--target", "paper"), "'paper'"),
        (("--task", "link"), "no bool column 'train_mask'"),
        (("--task", "link", "--time-attr", "when"), "have no column 'when'"),
        (("--task", "link", "--relation", "a,b,c"), "unknown relation a,b,c"),
    ],
)
def test_a_model_or_task_for_another_graph(refused: Any, tiny_parts: Path, options: tuple[str, ...], complaint: str) -> None:
    assert complaint in refused("train", tiny_parts, *options)


def test_a_model_of_one_relation_on_several(refused: Any, hetero_parts: Path) -> None:
    assert "--model sage is for graphs of one node type and one relation" in refused("train", hetero_parts, "--model", "sage")


def test_a_graph_without_labels(refused: Any, bare_parts: Path) -> None:
    assert "cannot choose the node type to classify" in refused("train", bare_parts)


def test_no_data_set(refused: Any) -> None:
    Path("part-0000").mkdir()  # half of one
    assert "manifest.json" in refused("train", ".")


@pytest.mark.parametrize(
    ("library", "arguments", "extra"),
    [
        ("prometheus_client", ("train", "synthetic:tiny", "--metrics", ":9464"), "halohop[metrics]"),
        ("pyarrow", ("infer", "PARTS", "--checkpoint", "x", "--form", "parquet"), "halohop[io]"),
        ("cryptography", ("train", "127.0.0.1:9", "--encrypt"), "halohop[tls]"),
    ],
)
def test_an_extra_that_is_not_installed(
    refused: Any, tiny_parts: Path, monkeypatch: pytest.MonkeyPatch, library: str, arguments: tuple[str, ...], extra: str
) -> None:
    import importlib.util

    find = importlib.util.find_spec
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == library else find(name, *more))
    monkeypatch.setenv("HALOHOP_TOKEN", "0123456789abcdef" * 2)
    assert extra in refused(*(str(tiny_parts) if argument == "PARTS" else argument for argument in arguments))


def test_servers_that_are_not_there(refused: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    assert address in refused("train", address, "--deadline", "0.3")


def test_a_checkpoint_that_is_not_there(refused: Any, tiny_parts: Path) -> None:
    assert "nothing" in refused("infer", tiny_parts, "--checkpoint", "nothing", "--nodes", "2")
