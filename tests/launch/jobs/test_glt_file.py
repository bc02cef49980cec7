"""The configuration file of GLT's launcher, read as a job. tests/launch/jobs/ssh/test_glt_nodes.py runs it on hosts."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from halohop.errors import InputError
from halohop.launch.cli import app
from halohop.launch.jobs.job import Job, read_job
from halohop.launch.jobs.plan import plan

EXAMPLES = Path(__file__).parents[3] / "examples" / "glt"
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


def read(folder: Path, given: dict[str, Any] | None = None, of_glt: dict[str, Any] | None = None, **changed: Any) -> Job:
    """The job of a file with some values changed; None: left out."""
    table = {name: value for name, value in (WHOLE | changed).items() if value is not None}
    (folder / "config.yml").write_text(yaml.safe_dump(table))
    return read_job(folder / "config.yml", given or {}, out="runs/1", of_glt=of_glt)


def test_a_file_becomes_a_job_over_ssh(tmp_path: Path) -> None:
    job = read(tmp_path, {"master_port": 11234}, {"epochs": 3, "batch_size": None})
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
    second = plan(job, ["10.0.0.7", "10.0.0.8"]).trainers[1]
    assert second.argv == (
        "dist_train_sage_supervised.py",
        *("--dataset=ogbn-products", "--dataset_root_dir=../../../data/ogbn-products", "--in_channel=100", "--out_channel=47"),
        *("--num_dataset_partitions=2", "--num_nodes=2", "--node_rank=1", "--num_training_procs=2", "--master_addr=10.0.0.7"),
        *("--training_pg_master_port=11234", "--train_loader_master_port=11235", "--test_loader_master_port=11236"),
        *("--epochs=3", "--batch_size=2048"),
    )


def test_ranks_of_nodes_are_those_that_the_file_gives(tmp_path: Path) -> None:
    job = read(tmp_path, of_glt={"master_addr": "192.168.0.8"}, node_ranks=[1, 0])
    assert job.hosts == ("10.0.0.8", "10.0.0.7")
    assert job.options["hosts"]["10.0.0.8"]["address"] == "192.168.0.8"
    assert job.options["hosts"]["10.0.0.7"]["env"] == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert "address" not in job.options["hosts"]["10.0.0.7"]


def test_one_device_without_quotes_is_a_number_and_none_is_one_trainer(tmp_path: Path) -> None:
    job = read(tmp_path, visible_devices=[3, ""])
    assert [host["env"]["CUDA_VISIBLE_DEVICES"] for host in job.options["hosts"].values()] == ["3", ""]
    assert "--num_training_procs=1" in job.run


def test_the_script_may_be_elsewhere(tmp_path: Path) -> None:
    job = read(tmp_path, of_glt={"script": "examples/distributed/graphlearn_for_pytorch/mine.py"})
    assert job.run[0] == "mine.py"
    assert job.options["hosts"]["10.0.0.7"]["folder"] == "/a/halohop/examples/distributed/graphlearn_for_pytorch"


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"ports": [22]}, "ports has 1 values, but there are 2 nodes; give one for each node"),
        ({"usernames": ["a", "b", "c"]}, "usernames has 3 values"),
        ({"python_bins": []}, "python_bins has 0 values"),
        ({"dst_paths": ["/a"]}, "dst_paths has 1 values"),
        ({"visible_devices": ["0"]}, "visible_devices has 1 values"),
        ({"node_ranks": [0]}, "node_ranks has 1 values"),
        ({"node_ranks": [1, 2]}, r"node_ranks=\[1, 2\] must have each of 0 to 1 once"),
        ({"nodes": []}, "nodes is empty"),
        ({"nodes": ["10.0.0.7", "10.0.0.7"]}, "node 10.0.0.7 is named twice; name each once, with a visible device for each"),
        ({"nodes": ["ann@10.0.0.7", "b"]}, "nodes: 'ann@10.0.0.7' is no name or address; users of ssh are given in usernames"),
        ({"nodes": ["10.0.0.7:22", "b"]}, "nodes: '10.0.0.7:22' is no name or address"),
        ({"nodes": ["-oProxyCommand=x", "b"]}, "nodes: '-oProxyCommand=x' is no name or address"),
        ({"visible_devices": ["0,1", "0"]}, r"visible_devices=\['0,1', '0'\] are not as many on each node"),
        ({"visible_devices": ["0, 1", "0,1"]}, "visible_devices: '0, 1' are no devices; write them like 0,1"),
        ({"dataset": "../x"}, "dataset='../x' is no name of a data set"),
        ({"in_channel": 0}, "in_channel=0 must be at least 1"),
        ({"in_channel": "many"}, "config.yml: in_channel must be a whole number, got text"),
        ({"ports": ["22", 22]}, r"ports\[0\] must be a whole number, got text"),
        ({"nodes": "10.0.0.7"}, "nodes must be a list, got text"),
        ({"username": ["a", "b"]}, "config.yml: unknown key 'username'; did you mean 'usernames'"),
        ({"dst_paths": None}, "dst_paths is missing"),
        ({"dataset": None, "nodes": None}, "nodes is missing"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read(tmp_path, **changed)


@pytest.mark.parametrize(
    ("given", "of_glt", "complaint"),
    [
        ({}, {"master_addr": "0.0.0.0"}, "master_addr='0.0.0.0' is reached by no other node"),
        ({}, {"master_addr": "localhost"}, "master_addr='localhost' is reached by no other node"),
        ({}, {"master_addr": "127.0.0.1"}, "is reached by no other node"),
        ({"master_port": 65534}, {}, "master_port=65534 is no port with two more after it"),
    ],
)
def test_a_master_that_others_do_not_reach(tmp_path: Path, given: dict[str, Any], of_glt: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read(tmp_path, given, of_glt)


def test_options_for_such_files_need_one(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text('data = "parts"\nrun = "train.py"\n')
    with pytest.raises(InputError, match="epochs=3 is for configuration files of GLT's launcher; name one with --config"):
        read_job(tmp_path / "job.toml", {}, out="runs/1", of_glt={"epochs": 3, "script": None})


def test_the_example_has_the_keys_of_the_documents(tmp_path: Path) -> None:
    """As it stands it names no hosts: its values are to be changed."""
    table = yaml.safe_load(CONFIG.read_text())
    assert {*table} == {*WHOLE}
    assert read(tmp_path, **table).run == read(tmp_path, visible_devices=["0,1,2,3"] * 2).run


@pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed")
def test_the_documents_command_is_halohop_launch(tmp_path: Path) -> None:
    """`launch.py` with the options of the documents prints the plan that `halohop launch` prints."""
    one_node = {name: value[:1] if isinstance(value, list) else value for name, value in WHOLE.items()}
    (tmp_path / "config.yml").write_text(yaml.safe_dump(one_node))
    words = ["--config=config.yml", "--master_addr=0.0.0.0", "--master_port=11234", "--epochs=10", "--batch_size=512"]
    process = [sys.executable, EXAMPLES / "launch.py", *words, "--dry-run", "--out=run"]
    done = subprocess.run(process, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        other = [word.replace("master_", "master-").replace("batch_", "batch-") for word in words]
        assert CliRunner().invoke(app, ["launch", *other, "--dry-run", "--out=run"]).output == done.stdout
    (process,) = json.loads(done.stdout)["processes"]
    assert (process["host"], process["ranks"], process["python"]) == ("10.0.0.7", 1, "/a/python")
    assert process["argv"][:2] == ["dist_train_sage_supervised.py", "--dataset=ogbn-products"]
    assert "--training_pg_master_port=11234" in process["argv"]
    assert process["env"] == {"CUDA_VISIBLE_DEVICES": "0,1"}
