"""Another library's partitions on the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from halohop.datasets.imports.named import is_import
from halohop.datasets.sources import load_source
from halohop.errors import InputError
from halohop.launch import cli
from halohop.launch.pages.summary import summarize
from tests.support.archives import unpack

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dgl")
    unpack(HERE / "dgl-2.1.0.tar.xz", folder)
    return folder / "typed" / "graph.json"


@pytest.mark.parametrize(
    ("options", "num_parts", "method"),
    [((), 3, "given"), (("--parts", "2"), 2, "random"), (("--method", "random"), 3, "random")],
)
def test_partitions_stay_as_they_are_unless_others_are_asked_for(
    config: Path, tmp_path: Path, options: tuple[str, ...], num_parts: int, method: str
) -> None:
    chosen = options if method != "random" or "--method" in options else (*options, "--method", "random")
    result = CliRunner().invoke(cli.app, ["partition", f"dgl:{config}", str(tmp_path / "parts"), *chosen])
    assert result.exit_code == 0, result.output
    summary = summarize(tmp_path / "parts")
    assert summary["num_parts"] == num_parts
    assert summary["partitioned"]["method"] == method
    if method == "given":
        assert [part["nodes"] for part in summary["parts"]] == [
            {"item": last_item - item, "shop": last_shop - shop, "user": last_user - user}
            for (item, last_item), (shop, last_shop), (user, last_user) in zip(*ranges(config), strict=True)
        ]


def ranges(config: Path) -> list[list[tuple[int, int]]]:
    maps = json.loads(config.read_text())["node_map"]
    return [maps[name] for name in ("item", "shop", "user")]


def test_other_sources_get_two_partitions(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["partition", "synthetic:tiny", str(tmp_path / "parts"), "--method", "random"])
    assert result.exit_code == 0, result.output
    assert summarize(tmp_path / "parts")["num_parts"] == 2


def test_a_source_of_no_such_kind_is_answered_with_those_that_are() -> None:
    assert not is_import("euler:parts")
    with pytest.raises(InputError, match=r"glt:FOLDER, dgl:FOLDER/part_config\.json"):
        load_source("euler:parts")
