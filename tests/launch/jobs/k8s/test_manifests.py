"""Manifests are what Kubernetes takes, and say what the plan says."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop.errors import InputError
from halohop.launch.jobs.job import Job, Servers
from halohop.launch.jobs.job_text import parse_job
from halohop.launch.jobs.k8s.engine import Kubernetes, plan_of
from halohop.launch.jobs.plan_file import plan_text
from tests.support.kubernetes import expanded, objects_of, pods_of

OPTIONS = {"image": "registry.example.org/halohop:1", "secret": "token", "claim": "shared"}
SECRETS = {"token/token": "a secret of these tests only"}


def job(**given: Any) -> Job:
    options = OPTIONS | given.pop("options", {})
    base = {
        "engine": "k8s",
        "name": "papers",
        "hosts": 2,
        "data": "/shared/parts",
        "out": "/shared/run",
        "run": ("t.py", "{graph}"),
    }
    return Job(**base | given, options=options)


JOBS = {
    "no servers": job(),
    "one pod": job(hosts=1, trainers=4),
    "one server": job(servers=Servers(count=1)),
    "servers": job(hosts=3, servers=Servers(count=12, replicas=3, port=6000, options={"grace": 5, "memory": "1GB"})),
    "our recipe": job(run=(), train={"fanout": [10, 5], "batch_size": 8, "lr": "1e3"}, servers=Servers()),
    "a URL": job(data="s3://bucket/parts", cache="/cache"),
    "servers that fetch": job(data="s3://bucket/parts", cache="/cache", servers=Servers(count=3, replicas=2), encrypt=True),
    "everything": job(
        hosts=5,
        trainers=2,
        servers=Servers(count=2),
        env={"y": "n", "QUOTED": 'it\'s "$(HOME)" $$\n\ttwo', "PATH": ""},
        folder="/workspace",
        python="/opt/python",
        cache="/cache",
        options={
            **{"namespace": "gnn", "mount": "/shared", "cpu": 2.5, "memory": "16Gi", "gpus": 1, "server_cpu": "500m"},
            **{"server_memory": "4Gi", "cache_size": "100Gi", "shared_memory": "2Gi", "retries": 3, "start_seconds": 60},
            **{"node_selector": {"kubernetes.io/arch": "amd64"}, "labels": {"team": "1e3"}, "annotations": {"a.b/c": "$(x) y"}},
            **{"tolerations": ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)},
            **{"env_secrets": ("s3",), "pull_secret": "registry", "service_account": "reader", "user": 1000},
        },
    ),
}
everywhere = pytest.mark.parametrize("asked", [pytest.param(each, id=name.replace(" ", "-")) for name, each in JOBS.items()])


def shown(asked: Job) -> str:
    return Kubernetes().show(asked)


@everywhere
@pytest.mark.parametrize("version", ["1.29", "latest"])
def test_kubernetes_takes_them_strictly(asked, version):
    library = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    newest = library.latest_version()
    for each in objects_of(shown(asked)).values():
        library.validate(each, newest if version == "latest" else version, strict=True)


@everywhere
def test_the_pods_run_what_the_plan_says(asked):
    """Word for word, after Kubernetes has put in the numbers of the pods; trainers plan the same job."""
    made, pods = plan_of(asked), pods_of(shown(asked), SECRETS)
    assert [pod.name for pod in pods] == [process.host for process in made.processes]
    for pod, process in zip(pods, made.processes, strict=True):
        python, *words = pod.main.argv
        if process.role == "trainers":
            assert words[:2] == ["-m", "halohop.launch.jobs.k8s.pod"]
            assert plan_text(plan_of(parse_job(words[2]))) == plan_text(made)
        else:
            assert tuple(words) == process.argv
        assert python == ("/opt/python" if asked.python == "/opt/python" else "python")
        assert process.env.items() <= pod.main.env.items()
        assert pod.main.env["HALOHOP_TOKEN"] == SECRETS["token/token"]
        fetches = [container.argv[1:] for container in pod.before if container.name == "fetch"]
        if process.role == "server" and process.data is not None and process.data.copied:
            ((*_, source, folder, option, share),) = fetches
            assert (source, folder, option, share) == (process.data.source, process.data.folder, "--share", process.argv[5])
        else:
            assert fetches == []


@everywhere
def test_objects_belong_together(asked):
    objects = objects_of(shown(asked))
    services = [each for each in objects.values() if each["kind"] == "Service"]
    assert all(each["spec"]["clusterIP"] == "None" for each in services)
    for name, each in objects.items():
        assert each["metadata"].get("namespace", "") == asked.options.get("namespace", "")
        if name.split("/")[0] not in ("StatefulSet", "Job"):
            continue
        template, part = each["spec"]["template"], each["metadata"]["labels"]["app.kubernetes.io/component"]
        domain = template["spec"].get("subdomain") or each["spec"]["serviceName"]
        (service,) = (one for one in services if one["metadata"]["name"] == domain)
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        assert service["spec"]["selector"]["app.kubernetes.io/component"] == part
        volumes = {volume["name"] for volume in template["spec"]["volumes"]}
        for container in (*template["spec"].get("initContainers", []), *template["spec"]["containers"]):
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert template["spec"]["securityContext"]["runAsNonRoot"]
        assert SECRETS["token/token"] not in shown(asked)


def test_a_budget_for_disruptions_leaves_each_partition_a_server():
    for replicas, most in ((1, 0), (2, 1), (3, 2)):
        objects = objects_of(shown(job(servers=Servers(count=4, replicas=replicas))))
        assert objects["PodDisruptionBudget/papers-servers"]["spec"]["maxUnavailable"] == most


def test_a_server_has_time_for_its_grace():
    objects = objects_of(shown(job(servers=Servers(options={"grace": 90.5, "metrics": "[::]:9000"}))))
    spec = objects["StatefulSet/papers-servers"]["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] > 90
    (ports,) = [container["ports"] for container in spec["containers"]]
    assert {"name": "metrics", "containerPort": 9000} in ports


def spec_of(**options: Any) -> Any:
    return objects_of(shown(job(options=options)))["Job/papers-trainers"]["spec"]


def test_trainers_that_were_asked_to_end_start_again_and_others_fail():
    spec = spec_of()
    moved, asked, said, failed = spec["podFailurePolicy"]["rules"]
    assert moved["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert (moved["action"], asked["action"], said["action"], failed["action"]) == ("Ignore", "Ignore", "FailJob", "FailJob")
    assert said["onExitCodes"] == {"containerName": "trainers", "operator": "In", "values": [1, 2]}
    assert asked["onExitCodes"] == {"containerName": "trainers", "operator": "In", "values": [75, 143]}
    assert failed["onExitCodes"] == {"containerName": "trainers", "operator": "NotIn", "values": [75, 143]}
    assert spec["backoffLimit"] == 6
    again = spec_of(retries=4)
    assert again["podFailurePolicy"]["rules"] == [moved, asked, said]
    assert (again["backoffLimitPerIndex"], again["maxFailedIndexes"]) == (4, 0)
    assert "backoffLimit" not in again


def test_a_job_has_a_deadline_and_a_time_to_live_if_the_user_sets_them():
    assert {"activeDeadlineSeconds", "ttlSecondsAfterFinished"} & spec_of().keys() == set()
    spec = spec_of(deadline_seconds=3600, ttl_seconds=60)
    assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (3600, 60)


def test_a_script_of_this_machine_comes_by_a_config_map(tmp_path):
    (tmp_path / "t.py").write_text("print('$name')\n")
    objects = objects_of(shown(job(folder=str(tmp_path))))
    assert objects["ConfigMap/papers-script"]["data"] == {"script": "print('$name')\n"}
    spec = objects["Job/papers-trainers"]["spec"]["template"]["spec"]
    assert spec["volumes"][-1]["configMap"] == {"name": "papers-script", "items": [{"key": "script", "path": "t.py"}]}
    assert spec["containers"][0]["volumeMounts"][-1] == {"name": "script", "mountPath": "/script"}
    assert parse_job(spec["containers"][0]["args"][-1]).run == ("/script/t.py", "{graph}")
    on_the_claim = job(folder=str(tmp_path), data=f"{tmp_path}/parts", out=f"{tmp_path}/run", options={"mount": str(tmp_path)})
    assert "ConfigMap/papers-script" not in objects_of(shown(on_the_claim))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"#" * (2**20 + 1), "has 1048577 bytes, but a ConfigMap has at most 1048576"), (b"\xff", "is not UTF-8 text")],
)
def test_a_script_that_no_config_map_can_bring_is_refused(tmp_path, content, complaint):
    (tmp_path / "t.py").write_bytes(content)
    with pytest.raises(InputError, match=rf"t.py {complaint}.*; copy it into the image or onto the claim, .*\(/shared/t.py\)"):
        shown(job(folder=str(tmp_path)))


def test_trainers_wait_for_all_servers():
    *_, trainer = pods_of(shown(job(servers=Servers(count=2), options={"start_seconds": 60})), SECRETS)
    graph = "papers-servers-0.papers-servers:5510,papers-servers-1.papers-servers:5510"
    assert [container.argv for container in trainer.before] == [("python", "-m", "halohop", "health", graph, "--seconds", "60")]


def test_no_file_of_this_machine_with_a_token_is_named_to_pods():
    *_, trainer = pods_of(shown(job(token_file="/keys/token")), SECRETS)
    assert parse_job(trainer.main.argv[-1]) == replace(plan_of(job()).job, token_file=None)


NASTY = ["1e3", "y", "yes", "null", "~", "0x1F", "012", "12:30:45", "\n", " a", "a: b", "#", "'", '"']
VARIABLES = ["$(HOME)", "$$(HOME)", "$", "$$", "$("]
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    NASTY + VARIABLES
)


@settings(max_examples=60, deadline=None)
@given(words=st.lists(texts, max_size=4), value=texts)
def test_no_word_or_value_is_changed_on_its_way(words, value):
    asked = job(hosts=3, run=("t.py", *words), env={"VALUE": value})
    for pod in pods_of(shown(asked), SECRETS):
        assert parse_job(pod.main.argv[-1]).run == ("t.py", *words)
        assert pod.main.env["VALUE"] == value


def test_variables_are_replaced_as_kubernetes_does():
    env = {"A": "1"}
    assert [expanded(text, env) for text in ("$(A)", "$$(A)", "$$$(A)", "$(B)", "$A $", "$(A", "$$")] == [
        *("1", "$(A)", "$1", "$(B)", "$A $", "$(A", "$"),
    ]
