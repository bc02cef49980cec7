"""`halohop partition --plan`: what it will take, and nothing is written."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from halohop.launch import cli
from halohop.launch.commands import planning
from halohop.launch.commands.planning import rendered
from halohop.partitioning.planning.budget import Budget
from halohop.partitioning.planning.estimate import PartitionPlan, Rates, estimate
from halohop.partitioning.planning.sizes import GraphSizes, TableSizes
from tests.support.archives import unpack

RATES = dict.fromkeys(("read", "number", "count", "move", "sort", "finish"), 1e7)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods whose rates were asked for; measuring takes seconds."""
    methods: list[str] = []

    def rates(folder: Path, method: str) -> Rates:
        methods.append(method)
        return Rates(**RATES, assign={method: 1e6})

    monkeypatch.setattr(planning, "measured_rates", rates)
    return methods


def invoke(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "120", "TERM": "dumb"}).invoke(cli.app, [str(argument) for argument in arguments])


def test_it_says_what_it_will_take_and_writes_nothing(tmp_path: Path, measured: list[str]) -> None:
    source = "synthetic:powerlaw?nodes=1000000&edges=50000000&features=16"
    options = ("--parts", "8", "--method", "random", "--memory", "800MB")
    result = invoke("partition", source, tmp_path / "parts", *options, "--plan")
    assert result.exit_code == 0, result.output
    for words in (
        "1,000,000 nodes, 50,000,000 edges, 8 partitions",
        "of 763 MiB",
        "and meanwhile",
        "lists are sorted",
        "together",
    ):
        assert words in result.output
    assert measured == ["random"]
    assert list(tmp_path.iterdir()) == []


def test_partitions_of_others_stay_and_their_number_is_known(tmp_path: Path, measured: list[str]) -> None:
    unpack(Path(__file__).parents[2] / "datasets" / "imports" / "dgl-2.1.0.tar.xz", tmp_path)
    result = invoke("partition", f"dgl:{tmp_path}/typed/graph.json", tmp_path / "parts", "--plan")
    assert result.exit_code == 0, result.output
    assert "3 partitions" in result.output
    assert measured == ["range"]  # an assignment that is given costs as much
    assert not (tmp_path / "parts").exists()


def test_too_little_memory_is_refused_before_anything(tmp_path: Path, measured: list[str]) -> None:
    result = invoke("partition", "synthetic:tiny", tmp_path / "parts", "--memory", "100MB", "--method", "random", "--plan")
    assert result.exit_code != 0
    assert "is too little" in result.output


def test_a_disk_that_is_too_small_is_said() -> None:
    sizes = GraphSizes(nodes={"node": TableSizes(rows=10)}, edges={})
    found = estimate(
        sizes, PartitionPlan(num_parts=1, method="random"), Rates(**RATES, assign={"random": 1}), Budget.parse("1GB")
    )
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(rendered(sizes, 1, found, free=1))
    assert "of disk are missing" in console.export_text()
