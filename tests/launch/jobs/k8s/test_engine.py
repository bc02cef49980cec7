from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from halohop.errors import InputError
from halohop.launch.cli import app
from halohop.launch.jobs.engine import engine_of
from halohop.launch.jobs.job import Job, Servers

OPTIONS = {"image": "halohop", "secret": "halohop-token", "claim": "shared"}


def job(**given: Any) -> Job:
    places = {"data": "/shared/parts", "out": "/shared/run"}
    return Job(**{"engine": "k8s", "name": "papers", "hosts": 2, "run": ("t.py",), "options": OPTIONS} | places | given)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"hosts": ("a", "b")}, r"hosts=a, b: Kubernetes chooses the hosts; give the number of pods \(hosts = 2\)"),
        ({"name": "1st"}, "name='1st' begins with a digit"),
        ({"data": "/data/parts"}, "data='/data/parts' is not below /shared, where pods mount the claim 'shared'"),
        ({"out": "/sharedrun"}, "out='/sharedrun' is not below /shared"),
        ({"options": OPTIONS | {"claim": ""}}, r"out='/shared/run' is on no volume; name the PersistentVolumeClaim"),
        ({"options": {"secret": "token", "claim": "shared"}}, r"\[k8s\]: .*image"),
        ({"cache": "/cache/{host}"}, "each pod has a cache of its own; leave {host} out"),
        ({"env": {"JOB_COMPLETION_INDEX": "0"}}, "JOB_COMPLETION_INDEX in env is set for each pod; leave it out"),
        ({"master_port": 9400}, "master_port=9400 is used by the launcher; choose another port"),
        ({"env": {"A": "b" * 100_000}}, "the job has 10.* bytes as text, but at most 100000 fit into an argument of a pod"),
        ({"env": {"A": "b\0"}}, "the value of A in env holds a zero byte"),
        ({"servers": Servers(shares=("0/2", "0/2,1/2"))}, "pods of one kind differ by their number only"),
        ({"servers": Servers(count=2, replicas=3)}, "replicas=3 of each partition need as many servers"),
        ({"servers": Servers(options={"metrics": ":9464"})}, "':9464' is not an address"),
        (
            {"servers": Servers(options={"metrics": "127.0.0.1:9464"})},
            "metrics='127.0.0.1:9464' of the servers is where no",
        ),
        ({"servers": Servers(options={"grace": "long"})}, "grace='long' of the servers is no number of seconds"),
    ],
)
def test_what_pods_cannot_have_is_refused_by_name(given, complaint):
    for act in (engine_of("k8s").show, lambda asked: engine_of("k8s").run(asked, Console())):
        with pytest.raises(InputError, match=complaint):
            act(job(**given))


@pytest.mark.parametrize("name", ["Papers", "a.b", "a" * 64, "-a"])
def test_names_that_kubernetes_has_not_are_refused(name):
    with pytest.raises(InputError, match="name="):
        engine_of("k8s").show(job(name=name))


def test_the_command_prints_manifests_and_makes_no_folder(tmp_path):
    options = ["--engine", "k8s", "--hosts", "2", "--data", f"{tmp_path}/parts", "--out", f"{tmp_path}/run"]
    file = tmp_path / "job.toml"
    file.write_text(f"[k8s]\nimage = 'halohop'\nsecret = 'token'\nclaim = 'shared'\nmount = '{tmp_path}'\n")
    words = ["launch", "--config", str(file), *options]
    printed = CliRunner().invoke(app, [*words, "--print", "--", "train.py", "{graph}"])
    assert printed.exit_code == 0, printed.output
    assert [each["kind"] for each in yaml.safe_load_all(printed.stdout)] == ["Service", "Job"]
    assert [path.name for path in tmp_path.iterdir()] == ["job.toml"]


def test_a_working_directory_is_the_images_unless_one_is_named():
    def folders(**given: Any) -> set[str | None]:
        objects = [*yaml.safe_load_all(engine_of("k8s").show(job(**given)))]
        return {objects[-1]["spec"]["template"]["spec"]["containers"][0].get("workingDir")}

    assert folders() == {None}
    assert folders(folder="/workspace") == {"/workspace"}
