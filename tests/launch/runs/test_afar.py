"""Commands that take URLs: what they fetch, where to, and what a run that goes on has of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner

from halohop.launch.cli import app
from halohop.launch.options.spec import OPTIONS
from halohop.launch.runs import source
from halohop.store.afar.fetching import fetch
from halohop.store.disk import verify_parts
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


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What ``memory://`` has: nothing at first."""
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    return MemoryFileSystem.store


def test_partitions_are_built_here_and_sent(objects: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, stage = "memory://bucket/parts", tmp_path / "stage"
    line = ["partition", "synthetic:tiny", url, "--parts", "2", "--method", "random", "--stage", str(stage)]
    line += ["--replica-ratio", "0.1"]
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "put_file", failing_after(5))
        failed = CliRunner().invoke(app, line)
    assert failed.exit_code == 1
    assert "cannot be written (OSError: no network)" in failed.stderr
    assert f"/bucket/parts/{MANIFEST}" not in objects
    with monkeypatch.context() as patch:
        patch.setattr(source, "partition_source", None)  # it is not called
        done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"the partitions are at {url}\n"
    assert list((stage / "builds").iterdir()) == []
    fetch(url, tmp_path / "here")
    verify_parts(tmp_path / "here")
    again = CliRunner().invoke(app, line)
    assert again.exit_code == 2
    assert again.stderr == f"error: {url} holds a data set; choose another URL, or pass --overwrite to replace it\n"
    assert list((stage / "builds").glob("*/*")) == []


def failing_after(count: int) -> Callable[..., None]:
    plain, left = MemoryFileSystem.put_file, iter(range(count))

    def put_file(self: MemoryFileSystem, lpath: str, rpath: str, **options: object) -> None:
        if next(left, None) is None:
            raise OSError("no network")
        plain(self, lpath, rpath, **options)

    return put_file


def test_several_hosts_do_not_build_for_a_url(tmp_path: Path) -> None:
    line = ["partition", "synthetic:tiny", "memory://bucket/parts", "--worker", "--stage", str(tmp_path / "stage")]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 2
    assert "--worker shares a folder that all hosts see; build in one, and send it: `halohop upload FOLDER URL`" in done.stderr
    none = CliRunner().invoke(app, line[:3])
    assert "is written after the partitions were built here; say in which folder: --stage FOLDER" in none.stderr


@pytest.mark.parametrize("command", [["train"], ["serve"], ["infer", "--checkpoint", "run/checkpoint"]])
def test_a_url_needs_a_stage(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*command, "s3://ann:secret@bucket/parts"])
    assert done.exit_code == 2
    assert done.stderr == (
        "error: s3://ann:***@bucket/parts is fetched before it is read; say into which folder: --stage FOLDER\n"
    )
    assert list(tmp_path.iterdir()) == []
