from pathlib import Path
from typing import Any

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.job import Job, Servers, job_of, read_job

WHOLE: dict[str, Any] = {"data": "parts", "out": "run", "run": "train.py {graph}"}

FILE = """
engine = "ssh"
hosts = ["a", "b"]
trainers = 2
run = ["train.py", "{graph}", "--epochs", 3]
data = "parts"
out = "runs/first"
token-file = "~/secret"

[servers]
replicas = 2
cache = "1GB"
[servers.options]
grace = 5

[env]
OMP_NUM_THREADS = 1

[ssh]
user = "me"
[slurm]
partition = "gpu"
"""


def test_a_file_spells_a_job_and_options_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/me")
    Path("job.toml").write_text(FILE.replace('cache = "1GB"', ""))
    job = read_job(Path("job.toml"), {})
    assert job == Job(
        engine="ssh",
        hosts=("a", "b"),
        trainers=2,
        run=("train.py", "{graph}", "--epochs", "3"),
        data=str(tmp_path / "parts"),
        out=str(tmp_path / "runs/first"),
        token_file="/me/secret",
        servers=Servers(replicas=2, options={"grace": 5}),
        env={"OMP_NUM_THREADS": "1"},
        options={"user": "me"},
    )
    given = {"engine": "slurm", "hosts": "3", "servers": {"count": 2}, "env": {"A": "b"}, "train": {"epochs": 1}, "out": None}
    changed = read_job(Path("job.toml"), given)
    assert (changed.engine, changed.hosts, changed.options) == ("slurm", 3, {"partition": "gpu"})
    assert changed.servers == Servers(count=2, replicas=2, port=0, options={"grace": 5})  # the job chooses ports
    assert changed.env == {"OMP_NUM_THREADS": "1", "A": "b"}
    assert (changed.run, changed.train, changed.out) == ((), {"epochs": 1}, job.out)


def test_urls_stay_as_they_are() -> None:
    job = job_of(WHOLE | {"data": "s3://bucket/parts", "cache": "/cache"}, "job.toml")
    assert (job.data, job.cache) == ("s3://bucket/parts", "/cache")


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"host": 3}, r"job.yaml: unknown key 'host'; did you mean 'hosts'"),
        ({"servers": {"replica": 3}}, r"job.yaml: \[servers\]: unknown key 'replica'; did you mean 'replicas'"),
        ({"engine": "sssh"}, "unknown engine 'sssh'; use one of local, ssh, slurm, k8s, ray"),
        ({"hosts": ["a", "b", "a"]}, "host 'a' is named twice"),
        ({"hosts": "a,,b"}, "'' is not a name of a host"),
        ({"hosts": ["-oProxyCommand=x"]}, "'-oProxyCommand=x' is not a name of a host"),
        ({"hosts": 0}, "there is no host"),
        ({"hosts": []}, "there is no host"),
        ({"trainers": 0}, "trainers=0 must be at least 1"),
        ({"train": {}}, "give either a script to run .* not both"),
        ({"run": []}, "give either a script to run .* one of them is needed"),
        ({"data": ""}, "data is missing: the folder of the partitions, or a URL"),
        ({"data": "", "servers": 2, "run": ["train.py"]}, "data is missing"),
        ({"data": "", "run": ["train.py"], "env": {"GRAPH": "{graph}"}}, "data is missing"),
        ({"data": "s3://bucket/parts"}, "data='s3://bucket/parts' must be fetched before it is used; give a folder for it"),
        ({"name": "My Job"}, "name='My Job' must have at most 40 small letters"),
        ({"master-port": 0}, "master_port=0 is for the engines ssh, slurm, ray, which choose a port; give one from 1 to 65535"),
        ({"servers": {"port": 0}}, "port=0 is for the engines ssh, slurm, ray, which choose a port"),
        ({"engine": "ssh", "master-port": -1}, "master_port=-1 is not a port"),
        ({"servers": 0}, "count=0 of the servers must be at least 1"),
        ({"servers": {"replicas": 0}}, "replicas=0 of the servers must be at least 1"),
        ({"servers": {"port": 70000}}, "port=70000 is not a port"),
        ({"servers": {"shares": ["0/3", "1/3"]}}, "no server holds share 2/3"),
        ({"servers": {"shares": ["3/2"]}}, "there is no share 3/2"),
        ({"servers": {"shares": ["0/1"], "replicas": 2}}, "shares 0/1 say what each server holds"),
        ({"env": {"A-B": "c"}}, "'A-B' is not a name of an environment variable"),
        ({"env": {"HALOHOP_TOKEN": "c"}}, "the token is not given in env"),
        ({"stall": -1}, "stall=-1 must be seconds, at least 0"),
        ({"encrypt": "yes"}, "encrypt must be true or false, got text"),
        ({"start": "plane"}, "start must be one of torchrun, plain, got 'plane'"),
        ({"start": "plain", "engine": "ssh", "trainers": 2}, "start='plain' runs a script once on each host"),
    ],
)
def test_what_cannot_work_is_refused(table: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=complaint):
        from_table(WHOLE | table, tmp_path)


def from_table(table: dict[str, Any], folder: Path) -> Job:
    import json

    import yaml

    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(json.loads(json.dumps(table))))
    return read_job(file, {})


@pytest.mark.parametrize("name", ["data", "out"])
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"options: {name} is missing"):
        read_job(None, {key: value for key, value in WHOLE.items() if key != name})
