import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from halohop import load_source
from halohop.datasets.estimate import source_bytes
from halohop.errors import InputError
from halohop.launch.runs import reading
from halohop.launch.runs.reading import Reading, tables_of
from halohop.partitioning.planning.budget import Budget
from halohop.typing import EDGE, NODE

SOURCE = "synthetic:powerlaw?nodes=300&edges=2000&features=5"


def nothing(stage: str, done: int, total: int) -> None: ...


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every source is too large for memory."""
    monkeypatch.setattr(reading, "source_bytes", lambda source: 2**60)


def test_a_source_that_fits_leaves_nothing_beside_the_result(tmp_path: Path) -> None:
    with tables_of(Reading(source=SOURCE), tmp_path / "parts", memory="100MB", worker=False, progress=nothing) as tables:
        assert tables.edges[EDGE].num_edges == 2000
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("undirected", [False, True])
def test_a_source_that_does_not_fit_is_in_files_for_as_long_as_it_is_needed(
    tmp_path: Path, large: None, undirected: bool
) -> None:
    shown: list[tuple[str, int, int]] = []
    asked = Reading(source=SOURCE, undirected=undirected)
    with tables_of(asked, tmp_path / "a", memory=None, worker=False, progress=lambda *stage: shown.append(stage)) as tables:
        folder = tmp_path / "a.source"
        assert str(folder / "columns") in Path("/proc/self/maps").read_text()
        whole = load_source(SOURCE, undirected=undirected)
        assert torch.equal(tables.edges[EDGE].src, whole.edges[EDGE].src)
        assert torch.equal(tables.nodes[NODE].columns["x"], whole.nodes[NODE].columns["x"])
    assert not list(tmp_path.iterdir())
    assert {stage for stage, _, _ in shown} == {"read"}


def test_a_memory_that_is_too_little_is_refused_before_anything_is_read(tmp_path: Path, large: None) -> None:
    small = tables_of(Reading(source=SOURCE), tmp_path / "a", memory="64MiB", worker=False, progress=nothing)
    with pytest.raises(InputError, match=r"memory=64.*MiB is too little.*give at least \d+MiB"), small:
        pass
    assert not list(tmp_path.iterdir())


def test_a_reading_that_was_stopped_goes_on(tmp_path: Path, large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, folder = Reading(source=SOURCE), tmp_path / "a.source" / "columns"
    with pytest.raises(KeyboardInterrupt), tables_of(asked, tmp_path / "a", memory=None, worker=False, progress=nothing):
        raise KeyboardInterrupt
    files = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert files
    with tables_of(asked, tmp_path / "a", memory=None, worker=True, progress=nothing) as tables:
        assert files == {path: path.stat().st_mtime_ns for path in folder.iterdir()}
        assert tables.edges[EDGE].num_edges == 2000
    assert not folder.exists()


def test_another_source_is_not_mixed_with_what_is_there(tmp_path: Path, large: None) -> None:
    table = tmp_path / "e.csv"
    (tmp_path / "graph.toml").write_text('[edges.a__to__a]\nfile = "e.csv"\nsrc = "s"\ndst = "d"\n')
    table.write_text("s,d\n0,1\n")
    asked = Reading(source=str(tmp_path))
    with pytest.raises(KeyError), tables_of(asked, tmp_path / "a", memory=None, worker=False, progress=nothing):
        raise KeyError
    table.write_text("s,d\n0,1\n1,2\n")
    again = tables_of(asked, tmp_path / "a", memory=None, worker=False, progress=nothing)
    with pytest.raises(InputError, match=r"a\.source holds an unfinished build of something else \(files .*delete the folder"):
        again.__enter__()


def test_sizes_are_estimated_from_files(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_bytes(b"s,d\n" + b"0,1\n" * 99)
    (tmp_path / "graph.toml").write_text('[edges.a__to__a]\nfile = "e.*"\nsrc = "s"\ndst = "d"\n')
    assert source_bytes(str(tmp_path)) == source_bytes(str(tmp_path / "graph.toml")) == 600
    (tmp_path / "graph.toml").write_text("[edges")
    assert source_bytes(str(tmp_path)) == source_bytes("pyg:Planetoid/Cora") == 0
    (tmp_path / "graph.toml").unlink()
    assert source_bytes(str(tmp_path)) == 600
    assert source_bytes("synthetic:tiny") == 1000 * (32 * 4 + 11 + 12 * 8)


def test_the_command_takes_a_size_and_refuses_what_is_there_before_it_reads(
    tmp_path: Path, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from halohop.launch.cli import app

    parts = [tmp_path / name for name in ("limited", "whole")]
    for folder, given in zip(parts, (["--memory", "1GB"], ["--worker"]), strict=True):
        assert CliRunner().invoke(app, ["partition", SOURCE, str(folder), "--method", "random", *given]).exit_code == 0
    files = [{path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()} for folder in parts]
    assert files[0] == files[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["limited", "whole"]
    monkeypatch.setattr("halohop.launch.runs.source.tables_of", None)
    result = CliRunner().invoke(app, ["partition", SOURCE, str(parts[0])])
    assert result.exit_code != 0
    assert "limited exists" in result.output


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_process_that_is_killed_while_it_reads_ends_with_the_same_bytes(tmp_path: Path) -> None:
    source = "synthetic:powerlaw?nodes=360000&edges=3000000&features=128"
    words = [sys.executable, "-m", "halohop", "partition", source, "--method", "random", "--memory", "400MB"]
    columns, moments = tmp_path / "killed.source" / "columns", random.Random(0)
    for wanted in (1, 3):  # files that are finished or being written
        with subprocess.Popen(
            [*words, str(tmp_path / "killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            while process.poll() is None and len(list(columns.glob("*"))) < wanted:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.02)
            with suppress(subprocess.TimeoutExpired):
                process.wait(moments.uniform(0, 0.5))
            process.kill()
        assert columns.is_dir()
        assert not (tmp_path / "killed").exists()
    for name in ("killed", "whole"):
        subprocess.run([*words, str(tmp_path / name)], check=True, stdout=subprocess.DEVNULL)
    files = [
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("killed", "whole")
    ]
    assert files[0] == files[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "whole"]


def test_a_budget_that_was_asked_for_is_not_spent_on_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "source_bytes", lambda source: 100 << 20)
    monkeypatch.setattr(reading.Budget, "parse", lambda memory: Budget(bytes=1 << 30))
    for memory in (None, "1GiB"):
        with tables_of(Reading(source=SOURCE), tmp_path / "parts", memory=memory, worker=False, progress=nothing):
            assert (tmp_path / "parts.source").exists() == (memory is not None)
