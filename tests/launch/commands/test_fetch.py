"""`halohop fetch` on the command line."""

from pathlib import Path

from typer.testing import CliRunner

from halohop.launch.cli import app


def test_a_share_is_fetched_and_named(tiny_parts: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["fetch", f"file://{tiny_parts}", str(tmp_path / "here"), "--share", "1/2"])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'here'} has the partitions 1\n"


def test_what_cannot_work_is_one_line(tiny_parts: Path, tmp_path: Path) -> None:
    both = CliRunner().invoke(app, ["fetch", str(tiny_parts), str(tmp_path / "here"), "--share", "1/2", "--partitions", "0"])
    assert both.exit_code == 2
    assert both.stderr == "error: --partitions 0 and --share 1/2 both say what to fetch; leave one out\n"
    lacks = CliRunner().invoke(app, ["fetch", "memory://nothing", str(tmp_path / "here")])
    assert lacks.exit_code == 1
    assert lacks.stderr.startswith("error: memory://nothing has no manifest.json: it is no halohop data set")
    assert not (tmp_path / "here").exists()
