"""Links that wait where a command writes or deletes lead nowhere: each is named, and what it leads to stays."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console

import halohop
from halohop.datasets import synthetic
from halohop.errors import InputError
from halohop.files import UrlFolder, refuse_links
from halohop.files.private import private_folder
from halohop.inference import check_results
from halohop.launch.jobs.host import copying
from halohop.launch.jobs.host.messages import Copied
from halohop.launch.processes import local
from halohop.launch.runs.afar import built_and_sent
from halohop.launch.runs.afar_results import checkpoint_here, results_here
from halohop.launch.runs.nodes import link_parts
from halohop.launch.runs.runs import train
from halohop.launch.runs.source import SourceOptions
from halohop.partitioning.steps.steps import Steps
from halohop.recipes.config import TrainConfig
from halohop.recipes.train import train as recipe
from halohop.store.afar.staging import Stage, staged
from halohop.world import World

REFUSED = r" is a symbolic link to .*, where nothing is written or deleted; remove it: rm "


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("links") / "parts"
    halohop.partition(synthetic("tiny"), folder, num_parts=2, method="random")
    return folder


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Someone's folder, which holds names that commands write and delete."""
    folder = tmp_path / "foreign"
    for name in ("thesis", "model.pt", "vectors.npy", "rank-0.log", "stage-01/thesis", "part-0000/thesis"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("years of work")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def link(path: Path, target: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def refused(attempt: Callable[[], object], waiting: Path, foreign: Path) -> None:
    """What is attempted names the link that waits, and leaves what it leads to."""
    before = contents(foreign)
    with pytest.raises(InputError, match=f"{waiting}{REFUSED}"):
        attempt()
    assert contents(foreign) == before


@pytest.mark.parametrize("name", ["fetching", "fetching/part-0000", "fetching/part-0001/nodes", "fetching/part-0000/stamp"])
def test_fetch(parts: Path, foreign: Path, tmp_path: Path, name: str) -> None:
    here = tmp_path / "here"
    waiting = link(here / name, foreign / "thesis" if name.endswith("stamp") else foreign)
    refused(lambda: halohop.fetch(parts, here), waiting, foreign)


@pytest.mark.parametrize("name", ["", "/fetching/part-0000"])
def test_a_stage(parts: Path, foreign: Path, tmp_path: Path, name: str) -> None:
    with staged(f"file://{parts}", Stage.of(tmp_path / "first")) as found:
        digest = found.folder.name
    waiting = link(tmp_path / "stage" / f"{digest}{name}", foreign)
    refused(lambda: halohop.open(f"file://{parts}", stage=tmp_path / "stage"), waiting, foreign)


def test_the_remedies_work(foreign: Path, tmp_path: Path) -> None:
    """Also where a name has spaces: the commands of the errors, as a shell runs them, and then the same call."""
    stage = tmp_path / "of all; users"
    stage.mkdir()
    stage.chmod(0o777)  # as a volume of Kubernetes is
    with pytest.raises(InputError, match="has mode 777") as found:
        private_folder(stage)
    private_folder(Path(shlex.split(str(found.value))[-3].rstrip(",")) / "below")
    subprocess.run(str(re.search("run (chmod .*?) if it is yours", str(found.value))[1]), shell=True, check=True)
    private_folder(stage)
    link(stage / "a link", foreign)
    with pytest.raises(InputError) as found:
        refuse_links(stage)
    subprocess.run(str(found.value).rpartition("remove it: ")[2], shell=True, check=True)
    refuse_links(stage)
    assert (foreign / "thesis").exists()


@pytest.mark.parametrize("where", ["", "builds", "digest"])
def test_a_stage_that_others_may_write(parts: Path, tmp_path: Path, where: str) -> None:
    with staged(f"file://{parts}", Stage.of(tmp_path)) as found:
        folder = found.folder if where == "digest" else tmp_path / where
    folder.mkdir(exist_ok=True)
    folder.chmod(0o775)
    attempts = {
        "": lambda: staged(f"file://{parts}", Stage.of(tmp_path)),
        "digest": lambda: staged(f"file://{parts}", Stage.of(tmp_path)),
        "builds": lambda: built_and_sent(
            "memory://x/parts", Stage.of(tmp_path), {"source": str(parts)}, lambda place: None, overwrite=True, console=Console()
        ),
    }
    with pytest.raises(
        InputError, match=rf"{folder} belongs to user \d+ and has mode 775: others may write there; run chmod go-w"
    ):
        attempts[where]()


def test_a_stage_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private_folder(tmp_path / "stage", "results")
    assert (tmp_path / "stage").stat().st_mode & 0o777 == 0o700
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(InputError, match=rf"belongs to user {owner} and has mode 700: others may write there; .* or give a new"):
        private_folder(tmp_path / "stage", "results")


def test_runs_and_results_at_urls(foreign: Path, tmp_path: Path) -> None:
    stage = Stage.of(tmp_path / "stage")
    with results_here("memory://links/found", stage, overwrite=True, rank=1) as folder:
        folder.rmdir()
    waiting = link(folder, foreign)
    refused(lambda: results_here("memory://links/found", stage, overwrite=True, rank=0).__enter__(), waiting, foreign)
    UrlFolder("memory://links/run").send(foreign / "model.pt", "model.pt")
    own = Path(checkpoint_here("memory://links/run", stage))
    (own / "model.pt").unlink()
    waiting = link(own / "model.pt", foreign / "model.pt")
    refused(lambda: checkpoint_here("memory://links/run", stage), waiting, foreign)


@pytest.mark.parametrize("name", ["part-0000", "part-0000/file", "part-0001/nodes/node"])
def test_a_folder_that_a_url_names(foreign: Path, tmp_path: Path, name: str) -> None:
    waiting = link(tmp_path / "there" / name, foreign / "thesis" if name.endswith("file") else foreign)
    target = UrlFolder(f"file://{tmp_path}/there")
    refused(lambda: target.send(foreign / "model.pt", name if name.endswith("file") else f"{name}/thesis"), waiting, foreign)
    link(tmp_path / "own", tmp_path / "there")
    UrlFolder(f"file://{tmp_path}/own").send(foreign / "model.pt", "sent/model.pt")  # the folder itself may be a link
    assert (tmp_path / "there/sent/model.pt").exists()


@pytest.mark.parametrize("name", ["part-0000", "part-0000/nodes/x.npy", "manifest.json"])
def test_a_folder_that_is_copied_to_a_host(foreign: Path, tmp_path: Path, name: str) -> None:
    waiting = link(tmp_path / "cache" / name, foreign if name == "part-0000" else foreign / "thesis")
    copied = Copied(folder=str(tmp_path / "cache"), manifest=b"{}", files={}, small={"part-0000/nodes/x.npy": b"new"})
    refused(lambda: copying.write(copied, (), lambda: None, lambda work: None), waiting, foreign)


@pytest.mark.parametrize("name", ["checkpoint", "checkpoint/model.pt", "tables", "resume.pt", "metrics.jsonl"])
def test_a_run(parts: Path, foreign: Path, tmp_path: Path, name: str) -> None:
    config = TrainConfig(parts=str(parts), out=str(tmp_path / "run"), device="cpu", epochs=1, overwrite=True)
    waiting = link(tmp_path / "run" / name, foreign if name in ("checkpoint", "tables") else foreign / "model.pt")
    refused(lambda: recipe(config, world=World()), waiting, foreign)


@pytest.mark.parametrize("name", ["options.json", "picture.html"])
def test_a_run_of_the_command(parts: Path, foreign: Path, tmp_path: Path, name: str) -> None:
    config = TrainConfig(parts=str(parts), out=str(tmp_path / "run"), device="cpu", epochs=1, overwrite=True)
    waiting = link(tmp_path / "run" / name, foreign / "thesis")
    options = {"nodes": 1, "trainers": 1, "console": Console(), "source": SourceOptions(num_parts=2, method="random")}
    refused(lambda: train(config, **options), waiting, foreign)


def test_logs_and_simulated_nodes(parts: Path, foreign: Path, tmp_path: Path) -> None:
    waiting = link(tmp_path / "logs", foreign)
    options = {"secret": {}, "logs": waiting, "on_event": lambda event: None, "linger": 1.0}
    refused(lambda: local.run_tasks(lambda env: [], 0, **options), waiting, foreign)
    waiting = link(tmp_path / "nodes" / "node-0", foreign)
    refused(lambda: link_parts(parts, waiting, [0]), waiting, foreign)
    waiting = link(tmp_path / "others", foreign)
    refused(lambda: link_parts(parts, waiting / "part-0000", [0]), waiting, foreign)


@pytest.mark.parametrize("name", ["unfinished", "unfinished/stage-01", "predictions.npy", "results.incomplete"])
def test_results(foreign: Path, tmp_path: Path, name: str) -> None:
    waiting = link(tmp_path / "out" / name, foreign if "unfinished" in name else foreign / "thesis")
    refused(lambda: check_results(tmp_path / "out", overwrite=True), waiting, foreign)


@pytest.mark.parametrize("name", ["part-0001", "part-0000/nodes/extra"])
def test_partitions_that_are_replaced(parts: Path, foreign: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    halohop.partition(synthetic("tiny"), out, num_parts=1)
    waiting = link(out / name, foreign)
    refused(lambda: halohop.partition(synthetic("tiny"), out, num_parts=1, overwrite=True), waiting, foreign)


@pytest.mark.parametrize("name", ["data", "data/part-0000", "steps/00-plan"])
def test_a_build_that_goes_on(foreign: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(KeyboardInterrupt), Steps(tmp_path / "out.build", {}):
        raise KeyboardInterrupt
    waiting = link(tmp_path / "out.build" / name, foreign)
    refused(lambda: Steps(tmp_path / "out.build", {}).__enter__(), waiting, foreign)


def test_partitions_that_are_changed(foreign: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    halohop.partition(synthetic("tiny"), out, num_parts=2, method="random")
    (out / "part-0001").rename(tmp_path / "another disk")
    link(out / "part-0001", tmp_path / "another disk")  # which is a user's own right
    waiting = link(tmp_path / "another disk" / "replicas", foreign)
    for change in (
        lambda: halohop.add_replicas(out, halohop.Replicas(fanouts=[2], batch_size=16, ratio=0.5)),
        lambda: halohop.add_weight_sums(out, ["w"]),
        lambda: halohop.add_columns(out, {"node": {"age": torch.zeros(1000)}}),
    ):
        refused(change, waiting, foreign)


def test_what_a_command_does_not_touch_may_be_a_link(foreign: Path, tmp_path: Path) -> None:
    link(tmp_path / "out" / "notes", foreign)
    check_results(tmp_path / "out", overwrite=True)
    refuse_links(tmp_path / "absent", link(tmp_path / "own", tmp_path / "out").resolve() / "predictions.npy")
