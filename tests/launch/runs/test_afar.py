"""Commands that take URLs: what they fetch, where to, and what a run that goes on has of it."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner

from halohop.errors import InputError, WriteError
from halohop.files import UrlFolder, write_file
from halohop.launch.cli import app
from halohop.launch.options.spec import OPTIONS
from halohop.launch.runs import source
from halohop.recipes.config import TrainConfig
from halohop.recipes.copies import Copies
from halohop.recipes.names import METRICS
from halohop.store.afar.fetching import fetch
from halohop.store.disk import verify_parts
from halohop.store.names import MANIFEST
from halohop.world import World

SMALL = ["--fanout", "2", "--hidden", "8", "--device", "cpu", "--workers", "0"]


@pytest.fixture
def as_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the only rank of a launcher, so that nothing is started."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What ``memory://`` has: nothing at first."""
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    return MemoryFileSystem.store


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("compared", [False, pytest.param(True, marks=pytest.mark.full)])
def test_a_run_whose_data_and_results_are_at_urls(
    tiny_parts: Path, tmp_path: Path, as_rank: None, objects: dict[str, Any], compared: bool
) -> None:
    data, there, stage = f"file://{tiny_parts}", "memory://bucket/run", tmp_path / "stage"
    shown = run("train", data, "--stage", str(stage), "--out", there, *SMALL, "--epochs", "1")
    assert f"{there}/picture.html" in shown
    names = {METRICS, OPTIONS, "resume.pt", "checkpoint/model.pt", "picture.html"}
    assert {name.removeprefix("/bucket/run/") for name in objects} == names
    kept = json.loads(read(f"{there}/{OPTIONS}"))
    assert (kept["parts"], kept["stage"]) == (data, str(stage))
    shutil.rmtree(stage)  # another host goes on
    run("train", "--resume", there, "--epochs", "2")
    assert len(losses(read(f"{there}/{METRICS}"))) == 2
    results = "memory://bucket/found"
    line = ["infer", data, "--stage", str(stage), "--checkpoint", f"{there}/checkpoint", "--out", results, "--device", "cpu"]
    assert f"{results}/predictions.npy\n" in run(*line)
    found = {name.removeprefix("/bucket/found/") for name in objects if name.startswith("/bucket/found/")}
    assert found == {"raw_ids.npy", "predictions.npy", "confidence.npy"}
    again = CliRunner().invoke(app, line)
    assert again.exit_code == 2
    assert f"error: {results}/" in again.stderr
    assert "would be lost; choose another URL, or replace what is there (--overwrite)" in again.stderr
    refused = CliRunner().invoke(app, ["train", str(tiny_parts), "--stage", str(tmp_path / "other"), "--out", there, *SMALL])
    assert refused.exit_code == 2
    assert f"{there} holds a run, whose" in refused.stderr
    assert "go on with it (--resume), or start again there (--overwrite)" in refused.stderr
    assert not list(tmp_path.glob("**/memory:"))
    if compared:
        run("train", str(tiny_parts), "--out", str(tmp_path / "undisturbed"), *SMALL, "--epochs", "2")
        assert losses(read(f"{there}/{METRICS}")) == losses((tmp_path / "undisturbed" / METRICS).read_bytes())
        checkpoint = str(tmp_path / "undisturbed" / "checkpoint")
        run("infer", str(tiny_parts), "--checkpoint", checkpoint, "--out", str(tmp_path / "here"), "--device", "cpu")
        for name in found:
            assert read(f"{results}/{name}") == (tmp_path / "here" / name).read_bytes()


def test_a_run_is_not_lost_where_its_url_cannot_be_written(
    tiny_parts: Path, tmp_path: Path, as_rank: None, objects: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = CliRunner().invoke(app, ["train", str(tiny_parts), "--out", "memory://ann:secret@b/run", "--stage", str(tmp_path)])
    assert secret.exit_code == 2
    assert "holds a secret; leave it to the environment" in secret.stderr
    assert "secret@" not in secret.stderr
    with pytest.raises(InputError, match="copy_to='run' is no URL"):
        TrainConfig(parts="parts", out="run", copy_to="run")
    config = TrainConfig(parts="parts", out=str(tmp_path / "run"), copy_to="memory://bucket/run")
    write_file(tmp_path / "state", b"saved")
    (tmp_path / "run").mkdir()
    (tmp_path / "state").rename(tmp_path / "run" / "resume.pt")
    monkeypatch.setattr(MemoryFileSystem, "put_file", failing_after(0))
    Copies(config, World(rank=1, size=2)).send("resume.pt")  # only rank 0 sends
    with pytest.raises(WriteError, match=r"memory://bucket/run/resume.pt cannot be written \(OSError: no network\)"):
        Copies(config, World()).send("not there", "resume.pt")
    none = CliRunner().invoke(app, ["train", "--resume", "memory://bucket/no-run", "--stage", str(tmp_path), str(tiny_parts)])
    assert none.exit_code == 2
    assert "error: memory://bucket/no-run holds no run to go on with: it has no resume.pt; begin one with --out" in none.stderr


def read(url: str) -> bytes:
    folder, _, name = url.rpartition("/")
    return UrlFolder(folder).read(name)


def losses(log: bytes) -> list[float]:
    events = [json.loads(line) for line in log.splitlines()]
    return [event["loss"] for event in events if event["event"] == "epoch"]


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


def test_a_build_needs_room(objects: dict[str, Any], tmp_path: Path) -> None:
    huge = "synthetic:powerlaw?nodes=100000000&edges=90000000000&features=1000"
    line = ["partition", huge, "memory://bucket/parts", "--stage", str(tmp_path), "--memory", "20GB"]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 1
    assert re.search(r"builds/\w+ needs .* more, and its disk has .* left; make room there, or choose another", done.stderr)


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


def test_auto_goes_on_at_a_url_and_in_a_folder(tiny_parts: Path, tmp_path: Path, as_rank: None, objects: dict[str, Any]) -> None:
    line = ["train", str(tiny_parts), *SMALL, "--resume", "auto"]
    for out in ("memory://bucket/auto", str(tmp_path / "auto")):
        given = [*line, "--out", out, *(["--stage", str(tmp_path / "stage")] if "://" in out else [])]
        run(*given, "--epochs", "1")
        shutil.rmtree(tmp_path / "stage", ignore_errors=True)  # another host goes on
        run(*given, "--epochs", "2")
        kept = Path(out, OPTIONS).read_bytes() if "://" not in out else read(f"{out}/{OPTIONS}")
        assert json.loads(kept)["epochs"] == 2
        refused = CliRunner().invoke(app, [*given, "--hidden", "4"])
        assert refused.exit_code == 2
        assert "--hidden 4, but the run in" in refused.stderr
        assert "has --hidden 8, so it is another run; use its settings, choose another folder, or" in refused.stderr
        assert kept == (Path(out, OPTIONS).read_bytes() if "://" not in out else read(f"{out}/{OPTIONS}"))
    without = CliRunner().invoke(app, line)
    assert (without.exit_code, "--resume auto needs the folder of the run; give --out" in without.stderr) == (2, True)


@pytest.mark.full  # it starts trainers
def test_auto_takes_the_partitions_that_the_run_has_made_of_its_source(tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    line = ["train", "synthetic:tiny", *SMALL, "--method", "random", "--epochs", "1", "--out", out, "--resume", "auto"]
    run(*line)
    made = Path(out, "parts", MANIFEST).stat().st_ino
    run(*line)
    assert Path(out, "parts", MANIFEST).stat().st_ino == made
    run("train", "--resume", out)
    run(*line)  # the source is still known
    refused = CliRunner().invoke(app, [word.replace("synthetic:tiny", "synthetic:small") for word in line])
    assert refused.exit_code == 2
    assert "source synthetic:small, but the run in" in refused.stderr
    assert Path(out, "parts", MANIFEST).stat().st_ino == made
