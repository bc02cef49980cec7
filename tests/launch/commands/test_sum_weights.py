"""Running sums of weights from the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from halohop.launch import cli


def invoke(*command: Any) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in command])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A graph as arrays, with a weight for each edge; node 1 has an edge, whose weight is 0."""
    folder = tmp_path / "graph"
    folder.mkdir()
    np.save(folder / "edge_index.npy", np.array([[1, 2, 3, 0], [0, 0, 0, 1]]))
    np.save(folder / "edge_weight.npy", np.array([0.5, 0, 2, 0], np.float32))
    np.save(folder / "x.npy", np.eye(4, dtype=np.float32))
    return folder


def sums_of(parts: Path) -> Any:
    return json.loads(invoke("inspect", parts, "--json").output)["edges"]["node__to__node"]["weight_sums"]


def test_sums_are_made_shown_and_removed(source: Path, tmp_path: Path) -> None:
    options = ("--method", "range", "--weight-sums", "edge_weight")
    planned = invoke("partition", source, tmp_path / "parts", *options, "--plan")
    assert planned.exit_code == 0, planned.output
    made = invoke("partition", source, tmp_path / "parts", *options)
    assert made.exit_code == 0, made.output
    assert "sums of edge_weight (1 lists without weight)" in " ".join(made.output.split())
    assert sums_of(tmp_path / "parts") == {"edge_weight": 1}
    assert invoke("inspect", tmp_path / "parts", "--verify").exit_code == 0
    assert invoke("sum-weights", tmp_path / "parts", "--remove").exit_code == 0
    assert sums_of(tmp_path / "parts") == {}
    added = invoke("sum-weights", tmp_path / "parts", "edge_weight")
    assert "node__to__node: sums of 'edge_weight'; 1 nodes have edges, but none with a weight above 0" in added.output


def test_what_is_wrong_is_said(source: Path, tmp_path: Path) -> None:
    np.save(source / "edge_weight.npy", np.array([0.5, 0, -2, 0], np.float32))
    made = invoke("partition", source, tmp_path / "parts", "--method", "range", "--weight-sums", "edge_weight")
    assert made.exit_code == 2
    assert "edge 2 of node,to,node has the weight -2 in 'edge_weight'" in " ".join(made.output.split())
    for words in ((), ("edge_weight", "--remove")):
        assert "name columns of weights, or give --remove" in invoke("sum-weights", source, *words).output
