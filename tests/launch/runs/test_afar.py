"""Commands that take URLs: what they fetch, where to, and what a run that goes on has of it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from halohop.launch.cli import app
from halohop.launch.options.spec import OPTIONS
from halohop.store.manifest import MANIFEST

SMALL = ["--epochs", "1", "--fanout", "2", "--hidden", "8", "--device", "cpu", "--workers", "0"]


@pytest.fixture
def as_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the only rank of a launcher, so that nothing is started."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)


def test_a_run_on_a_url(tiny_parts: Path, tmp_path: Path, as_rank: None) -> None:
    url, stage, out = f"file://{tiny_parts}", tmp_path / "stage", tmp_path / "run"
    run = CliRunner().invoke(app, ["train", url, "--stage", str(stage), "--out", str(out), *SMALL])
    assert run.exit_code == 0, run.output
    (staged,) = (path for path in stage.iterdir() if path.is_dir())
    assert (staged / MANIFEST).read_bytes() == (tiny_parts / MANIFEST).read_bytes()
    kept = json.loads((out / OPTIONS).read_text())
    assert (kept["parts"], kept["stage"]) == (url, str(stage))
    more = CliRunner().invoke(app, ["train", "--resume", str(out), "--epochs", "2"])
    assert more.exit_code == 0, more.output
    found = ["infer", url, "--stage", str(stage), "--checkpoint", str(out / "checkpoint"), "--out", str(tmp_path / "found")]
    inferred = CliRunner().invoke(app, [*found, "--device", "cpu"])
    assert inferred.exit_code == 0, inferred.output
    assert (tmp_path / "found" / "predictions.npy").is_file()


@pytest.mark.parametrize("command", [["train"], ["serve"], ["infer", "--checkpoint", "run/checkpoint"]])
def test_a_url_needs_a_stage(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*command, "s3://ann:secret@bucket/parts"])
    assert done.exit_code == 2
    assert done.stderr == (
        "error: s3://ann:***@bucket/parts is fetched before it is read; say into which folder: --stage FOLDER\n"
    )
    assert list(tmp_path.iterdir()) == []
