"""How a source is divided from the command line: methods, tolerance, blocks, and files that assign."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from halohop.errors import InputError
from halohop.launch import cli
from halohop.launch.runs.source import assigned_by
from halohop.store.disk import map_part, read_manifest


def partition(folder: Path, *options: Any) -> Result:
    return CliRunner().invoke(cli.app, ["partition", "synthetic:tiny", str(folder), *map(str, options)])


def test_blocks_and_tolerance(tmp_path: Path) -> None:
    made = partition(tmp_path / "parts", "--parts", 4, "--method", "metis", "--blocks", 32, "--tolerance", 0.2, "--balance-types")
    assert made.exit_code == 0, made.output
    manifest = read_manifest(tmp_path / "parts")
    assert (manifest.num_blocks, manifest.partitioned["method"]) == (32, "metis")
    blocks = [map_part(tmp_path / "parts", manifest, part).nodes["node"].block for part in range(4)]
    assert all(part == int(block.min()) // 8 == int(block.max()) // 8 for part, block in enumerate(blocks))
    assert manifest.report["node_balance"] <= 1.2


def test_an_assignment_from_a_file(tmp_path: Path) -> None:
    owner = np.arange(1000) % 3 % 2
    np.save(tmp_path / "a=b.npy", owner)
    made = partition(tmp_path / "parts", "--parts", 2, "--assignment", tmp_path / "a=b.npy")
    assert made.exit_code == 0, made.output
    manifest = read_manifest(tmp_path / "parts")
    assert manifest.node_bounds["node"] == (0, int((owner == 0).sum()), 1000)
    assert (manifest.num_blocks, manifest.partitioned["method"]) == (0, "given")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--blocks", 48, "--method", "metis"), "--blocks 48; give a power of two"),
        (("--blocks", 16, "--parts", 3, "--method", "metis"), "3 partitions cannot be runs of 16 blocks"),
        (("--assignment", "none.npy"), "there is no file none.npy"),
        (("--assignment", "none.txt", "--method", "ldg"), "--assignment and --method ldg"),
        (("--tolerance", -1), "tolerance"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: tuple[Any, ...], message: str) -> None:
    made = partition(tmp_path / "parts", *options)
    assert made.exit_code != 0
    said = made.output + str(made.exception)
    assert message in " ".join(said.split())
    assert not (tmp_path / "parts").exists()


def test_files_by_node_type() -> None:
    assert assigned_by("metis", ()) == "metis"
    assert assigned_by("auto", ["parts.npy"]) == Path("parts.npy")
    with pytest.raises(InputError, match=r"'user=b\.npy' is not one of several like user=users\.npy"):
        assigned_by("auto", ["user=a.npy", "user=b.npy"])
    with pytest.raises(InputError, match=r"'b\.npy' is not one of several"):
        assigned_by("auto", ["user=a.npy", "b.npy"])
