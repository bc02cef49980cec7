"""DGL's `copy_files` as a job for `halohop launch copy`. tests/launch/jobs/ssh/test_copying.py has what that sends."""

import os
import sys
from pathlib import Path

import pytest

import halohop
from halohop.datasets import writing_part_config
from halohop.dgl import copy_files
from halohop.launch.jobs.job import Job, read_job
from halohop.testing.graphs import ring


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three partitions and scripts."""
    monkeypatch.chdir(tmp_path)
    with writing_part_config("data", "graph", "random"):
        halohop.partition(ring(40), "data", num_parts=3, method="random")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "ip_config.txt").write_text("a\nfd00::8 30050\n")
    return tmp_path


def copied(monkeypatch: pytest.MonkeyPatch, **changed: str) -> tuple[list[str], Job]:
    """What follows `halohop launch`, and the job that it reads."""
    own = {"ip_config": "ip_config.txt", "workspace": "/ws", "rel_data_path": "d/e", "part_config": "data/graph.json"}
    values = {**own, "script_folder": "scripts", "out": "run", **changed}
    found: list[str] = []
    monkeypatch.setattr(sys, "argv", ["copy_files.py", *(f"--{name}={value}" for name, value in values.items())])
    monkeypatch.setattr(os, "execv", lambda _, argv: found.extend(argv[4:]))
    copy_files.main()
    return found, read_job(Path("run/job.toml"), {})


def test_hosts_get_partitions_where_the_launcher_looks_for_them(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, job = copied(monkeypatch, ssh_username="ann", ssh_port="2222", python="/p")
    assert words == ["copy", "--source", "data", "--python=/p", "--config", "run/job.toml"]
    assert (job.engine, job.hosts, job.folder, job.data) == ("ssh", ("a", "fd00::8"), "/ws", "/ws/d/e")
    own = {"user": "ann", "port": 2222}
    assert job.options == {
        "hosts": {"a": own, "fd00::8": {**own, "server_port": 30050}},
        "send": {".": ["scripts", "ip_config.txt"], "d/e": ["data/graph.json"]},
    }


def test_a_folder_is_named_itself_or_is_the_workspace(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, job = copied(monkeypatch, part_config="data", workspace=str(here / "scripts"))
    assert words[:3] == ["copy", "--source", "data"]
    assert job.options["send"] == {".": ["scripts/.", "ip_config.txt"], "d/e": []}


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"ip_config": "none.txt"}, "No such file or directory: 'none.txt'"),
        ({"part_config": "none.json"}, "there is no file none.json; give the NAME.json that partition_graph wrote"),
        ({"part_config": "dgl/graph.json"}, "dgl/graph.json is of DGL's own partitions; convert them: halohop partition"),
    ],
)
def test_what_cannot_work_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], changed: dict[str, str], complaint: str
) -> None:
    (here / "dgl").mkdir()
    (here / "dgl" / "graph.json").write_text('{"num_parts": 2}')
    with pytest.raises(SystemExit, match="2"):
        copied(monkeypatch, **changed)
    assert complaint in " ".join(capsys.readouterr().err.split())
