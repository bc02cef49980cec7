"""The configuration file of GLT's launcher as a job. tests/launch/jobs/ssh/test_glt_nodes.py runs it on hosts."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from halohop.glt import launch
from halohop.launch.jobs.job import Job, read_job
from halohop.launch.jobs.plan import plan
from tests.support.forked import Forked

EXAMPLES = Path(__file__).parents[2] / "examples" / "glt"
CONFIG = EXAMPLES / "dist_train_sage_sup_config.yml"

WHOLE: dict[str, Any] = {
    "nodes": ["10.0.0.7", "10.0.0.8"],
    "ports": [22, 2222],
    "usernames": ["ann", "bob"],
    "python_bins": ["/a/python", "/b/python"],
    "dataset": "ogbn-products",
    "in_channel": 100,
    "out_channel": 47,
    "dst_paths": ["/a/halohop", "/b/halohop"],
    "visible_devices": ["0,1", "2,3"],
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", lambda *_: None)


def read(*words: str, **changed: Any) -> Job:
    """The job of a file with some values changed; None: left out."""
    table = {name: value for name, value in (WHOLE | changed).items() if value is not None}
    Path("config.yml").write_text(yaml.safe_dump(table))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["launch.py", "--config=config.yml", "--out=run", *words])
        launch.main()
    return read_job(Path("run/job.toml"), {})


def test_a_file_becomes_a_job_over_ssh() -> None:
    job = read("--master-port=11234", "--epochs=3")
    assert (job.engine, job.start, job.hosts, job.trainers) == ("ssh", "plain", ("10.0.0.7", "10.0.0.8"), 1)
    assert job.options["hosts"]["10.0.0.8"] == {
        "user": "bob",
        "port": 2222,
        "python": "/b/python",
        "folder": "/b/halohop/examples/glt",
        "data": "/b/halohop/examples/glt/../../../data/ogbn-products/ogbn-products-partitions",
        "env": {"CUDA_VISIBLE_DEVICES": "2,3"},
    }
    assert job.options["same"] == ["../../../data/ogbn-products/ogbn-products-label/label.pt"]
    assert plan(job, ["10.0.0.7", "10.0.0.8"]).trainers[1].argv == (
        "dist_train_sage_supervised.py",
        *("--dataset=ogbn-products", "--dataset_root_dir=../../../data/ogbn-products", "--in_channel=100", "--out_channel=47"),
        *("--num_dataset_partitions=2", "--num_nodes=2", "--node_rank=1", "--num_training_procs=2", "--master_addr=10.0.0.7"),
        *("--training_pg_master_port=11234", "--train_loader_master_port=11235", "--test_loader_master_port=11236"),
        *("--epochs=3", "--batch_size=2048"),
    )


def test_ranks_of_nodes_are_those_that_the_file_gives() -> None:
    job = read("--master_addr=192.168.0.8", "--script=examples/other/mine.py", node_ranks=[1, 0], visible_devices=[3, ""])
    assert job.hosts == ("10.0.0.8", "10.0.0.7")
    second, first = job.options["hosts"]["10.0.0.7"], job.options["hosts"]["10.0.0.8"]
    assert (first["address"], "address" in second) == ("192.168.0.8", False)
    assert [host["env"]["CUDA_VISIBLE_DEVICES"] for host in (first, second)] == ["", "3"]
    assert job.run[0] == "mine.py"
    assert "--num_training_procs=1" in job.run
    assert second["folder"] == "/a/halohop/examples/other"


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"ports": [22]}, "ports has 1 values, but there are 2 nodes; give one for each node, named once"),
        ({"visible_devices": ["0"]}, "visible_devices has 1 values"),
        ({"node_ranks": [1, 2]}, "node_ranks=[1, 2] must have each of 0 to 1 once"),
        ({"nodes": []}, "nodes has 0 values"),
        ({"nodes": ["10.0.0.7", "10.0.0.7"]}, "nodes has 2 values, but there are 1 nodes"),
        ({"visible_devices": ["0,1", "0"]}, "visible_devices=['0,1', '0'] must name as many devices on each node"),
        ({"in_channel": "many"}, "config.yml: in_channel must be a whole number, got text"),
        ({"ports": ["22", 22]}, "ports[0] must be a whole number, got text"),
        ({"username": ["a", "b"]}, "config.yml: unknown key 'username'"),
        ({"dst_paths": None}, "config.yml: dst_paths is missing"),
    ],
)
def test_what_cannot_work_is_refused(changed: dict[str, Any], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        read(**changed)
    assert complaint in " ".join(capsys.readouterr().err.split())


def test_the_example_has_the_keys_of_the_documents() -> None:
    """As it stands it names no hosts: its values are to be changed."""
    table = yaml.safe_load(CONFIG.read_text())
    assert {*table} == {*WHOLE}
    assert read(**table).run == read(visible_devices=["0,1,2,3"] * 2).run


@pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed")
def test_the_documents_command_prints_the_plan(tmp_path: Path) -> None:
    one_node = {name: value[:1] if isinstance(value, list) else value for name, value in WHOLE.items()}
    (tmp_path / "config.yml").write_text(yaml.safe_dump(one_node))
    words = ["--config=config.yml", "--master_addr=0.0.0.0", "--master_port=11234", "--epochs=10", "--batch_size=512"]
    env = os.environ | {"PYTHONPATH": str(EXAMPLES)}
    done = Forked("launch", [*words, "--dry-run", "--out=run"], env, cwd=tmp_path).finish()
    assert done.returncode == 0, done.stderr
    (process,) = json.loads(done.stdout)["processes"]
    assert (process["host"], process["ranks"], process["python"]) == ("10.0.0.7", 1, "/a/python")
    assert process["argv"][:2] == ["dist_train_sage_supervised.py", "--dataset=ogbn-products"]
    assert "--training_pg_master_port=11234" in process["argv"]
    assert process["env"] == {"CUDA_VISIBLE_DEVICES": "0,1"}
