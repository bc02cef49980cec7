"""Jobs run on a cluster that is a program on this machine: see `tests.support.kubectl`."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from halohop.errors import ClusterError, HalohopError, InputError
from halohop.launch.jobs.job import Job, Servers
from halohop.launch.jobs.k8s.engine import Kubernetes
from halohop.launch.jobs.k8s.submitting import UnansweredError
from halohop.launch.jobs.k8s.watching import Patience
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.refusal import JobFailedError
from tests.support.deadlines import within
from tests.support.kubectl import SILENCE, Cluster

PATIENCE = Patience(every=0.05, stuck=0.3, silent=0.5)
RANK = "import os, signal, sys, threading, time\nrank = int(os.environ['JOB_COMPLETION_INDEX'])\n"
WAIT = "print('ready', flush=True)\nthreading.Event().wait(300)\n"
SERVER = ["python", "-c", "print('serving', flush=True); import threading; threading.Event().wait(300)"]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    instead = {"server": SERVER, "servers": ["python", "-c", ""]}
    with Cluster(tmp_path / "cluster", instead) as made:
        made.add("PersistentVolumeClaim", "shared")
        monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
        (tmp_path / "shared").mkdir()
        yield made


def job(cluster: Cluster, script: str = "", **given: Any) -> Job:
    """Two pods that run a script, which a ConfigMap brings; the claim is a folder here."""
    folder, shared = cluster.folder.parent, cluster.folder.parent / "shared"
    (folder / "t.py").write_text(RANK + script)
    options = {"image": "halohop", "claim": "shared", "mount": str(shared)} | given.pop("options", {})
    base = {
        "engine": "k8s",
        "name": "papers",
        "hosts": 2,
        "data": f"{shared}/parts",
        "out": f"{shared}/run",
        "folder": str(folder),
    }
    return Job(**base | {"run": ("t.py",)} | given, options=options)


class Launch(threading.Thread):
    """A launch in this process."""

    def __init__(self, asked: Job, patience: Patience = PATIENCE) -> None:
        super().__init__()
        self._asked, self._engine, self.error = asked, Kubernetes(patience=patience), None
        self.console = Console(file=io.StringIO(), width=300)
        self.start()

    def run(self) -> None:
        try:
            self._engine.run(self._asked, self.console)
        except HalohopError as error:
            self.error = error

    def finish(self, seconds: float = 60) -> HalohopError | None:
        self.join(within(seconds))
        assert not self.is_alive(), self.said
        return self.error

    @property
    def said(self) -> str:
        return self.console.file.getvalue()


def logs_of(cluster: Cluster) -> Mapping[str, str]:
    """By the names of pods without what makes them unique."""
    folder = cluster.folder.parent / "shared" / "run" / "pods"
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def nothing_is_left(cluster: Cluster) -> bool:
    return [kind for kind, _ in cluster.objects] == ["PersistentVolumeClaim"] and not cluster.pods


def test_a_job_runs_to_its_end_and_nothing_of_it_is_left(cluster):
    launch = Launch(job(cluster, "print('line of rank', rank)", servers=Servers(count=1)))
    assert launch.finish() is None
    assert nothing_is_left(cluster)
    assert "line of rank 0\n" in launch.said
    assert "line of rank 1\n" not in launch.said
    assert "kubectl delete job papers-trainers" in launch.said
    logs = {name: text for name, text in logs_of(cluster).items() if not name.endswith("-servers.log")}
    (first, zero), (second, one), (server, serving) = sorted(logs.items(), key=lambda pair: "servers" in pair[0])
    assert (zero, one, serving) == ("line of rank 0\n", "line of rank 1\n", "serving\n")
    assert first.startswith("papers-trainers-0-")
    assert (first[-15:], second[-15:], server) == ("-trainers-0.log", "-trainers-1.log", "papers-servers-0-server-0.log")
    assert json.loads((cluster.folder.parent / "shared/run/plan.json").read_text())["job"]["name"] == "papers"


def test_the_token_goes_to_kubectl_by_its_standard_input_only(cluster, monkeypatch):
    (cluster.folder / "token").write_text("a secret of these tests only")
    (cluster.folder / "token").chmod(0o600)
    monkeypatch.setenv("HALOHOP_TOKEN", "another secret of these tests")
    script = "print('token of', len(os.environ['HALOHOP_TOKEN']), 'letters')"
    launch = Launch(job(cluster, script, token_file=str(cluster.folder / "token")))
    assert launch.finish() is None, launch.said
    assert "token of 28 letters" in launch.said
    here = [launch.said, *logs_of(cluster).values(), (cluster.folder.parent / "shared/run/plan.json").read_text()]
    secret = ("a secret of these", "YSBzZWNyZXQgb2Yg")
    assert not any(each in text for each in secret for text in [*here, *(" ".join(words) for words, _ in cluster.calls)])
    assert [words[0] for words, given in cluster.calls if secret[1] in given] == ["apply"]


def test_a_secret_that_is_there_is_used_and_kept(cluster):
    cluster.add("Secret", "mine", data={"token": "dGhlIHVzZXIncyBvd24="})
    launch = Launch(job(cluster, "print(os.environ['HALOHOP_TOKEN'])", options={"secret": "mine"}))
    assert launch.finish() is None
    assert "the user's own\n" in launch.said
    assert cluster.names("Secret") == ["mine"]
    assert Launch(job(cluster, options={"secret": "yours"})).finish() is None
    assert cluster.names("Secret") == ["mine"]
    file = cluster.folder / "token"
    file.write_text("a secret of these tests only")
    file.chmod(0o600)
    error = Launch(job(cluster, options={"secret": "mine"}, token_file=str(file))).finish()
    assert "the cluster has secret/mine already; leave token_file out" in str(error)


def test_all_that_is_made_belongs_to_the_job_which_has_a_time_to_live(cluster):
    launch = Launch(job(cluster, WAIT, servers=Servers(count=1)))
    cluster.pod("papers-trainers-0")
    made = cluster.objects["Job", "papers-trainers"]
    assert made["spec"]["ttlSecondsAfterFinished"] == 600
    others = [each for (kind, _), each in cluster.objects.items() if kind not in ("Job", "PersistentVolumeClaim")]
    assert {each["kind"] for each in others} == {"Service", "StatefulSet", "PodDisruptionBudget", "ConfigMap", "Secret"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "papers-trainers", "uid": made["metadata"]["uid"]}
    assert all(each["metadata"]["ownerReferences"] == [owner] for each in others)
    cluster.delete(made)
    error = launch.finish()
    assert isinstance(error, JobFailedError)
    assert "job papers was deleted" in str(error)


@pytest.mark.parametrize(
    ("script", "code", "story"),
    [
        ("print('no such luck')\nsys.exit(3)", 3, "failed with exit code 3; the end of {log}:\n    no such luck"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 1, "was killed by SIGKILL; the end of {log}:\n    (it printed nothing)"),
    ],
)
def test_the_first_failure_is_named_with_the_end_of_its_log(cluster, script, code, story):
    rest = f"if rank == 0:\n    threading.Event().wait(300)\n{script}\n"
    error = Launch(job(cluster, rest)).finish()
    assert isinstance(error, JobFailedError)
    assert error.exit_code == code
    (pod,) = {pod.name for pod in cluster.all_pods if pod.base == "papers-trainers-1"}
    log = cluster.folder.parent / "shared/run/pods" / f"{pod}-trainers-1.log"
    assert f"trainers-1 on {pod} " + story.format(log=log) in str(error)
    assert nothing_is_left(cluster)


@pytest.mark.parametrize("retries", [1, 3])
def test_an_incident_that_kills_all_pods_is_one_retry(cluster, retries):
    """Each of the four pods is killed as often as there may be incidents; then all go on."""
    seen = cluster.folder / "seen"
    seen.mkdir()
    script = f"""
name = "{seen}/" + str(rank) + "-"
times = len([each for each in os.listdir("{seen}") if each.startswith(str(rank) + "-")])
open(name + str(times), "w").close()
print("start", times, flush=True)
os.kill(os.getpid(), signal.SIGKILL) if times < {retries} else sys.exit(0)
"""
    launch = Launch(job(cluster, script, hosts=4, options={"retries": retries}))
    assert launch.finish() is None, launch.said
    assert len([*seen.iterdir()]) == 4 * (retries + 1)
    assert f"start {retries}" in launch.said
    assert "ended with exit code -9; see " in launch.said


def test_retries_that_are_used_up_end_the_job_with_the_last_incident(cluster):
    error = Launch(job(cluster, "print('again'); sys.exit(4)", options={"retries": 1})).finish()
    assert isinstance(error, JobFailedError)
    assert error.exit_code == 4
    assert str(error).count("failed with exit code 4") <= 2
    assert 3 <= len(cluster.all_pods) <= 4


def test_trainers_that_saved_start_again(cluster):
    flag = cluster.folder / "saved"
    script = f"""
if os.path.exists("{flag}") or rank == 1:
    sys.exit(0)
open("{flag}", "w").close()
sys.exit(75)
"""
    launch = Launch(job(cluster, script))
    assert launch.finish() is None, launch.said
    assert len(cluster.all_pods) == 3


def test_a_pod_without_memory_is_named(cluster):
    launch = Launch(job(cluster, WAIT))
    cluster.pod("papers-trainers-0")
    pod = cluster.pod("papers-trainers-1")
    cluster.wait_for(lambda: pod.lines["trainers"])
    pod.oom = True
    pod.kill(signal.SIGKILL)
    error = launch.finish()
    assert isinstance(error, JobFailedError)
    assert error.exit_code == 1
    assert f"trainers-1 on {pod.name} (OOMKilled) was killed by SIGKILL; the end of " in str(error)
    assert "    ready" in str(error)


def test_an_evicted_pod_is_said_and_starts_again(cluster):
    flag = cluster.folder / "second"
    script = f'if rank == 0 or os.path.exists("{flag}"):\n    sys.exit(0)\nopen("{flag}", "w").close()\n{WAIT}'
    launch = Launch(job(cluster, script))
    pod = cluster.pod("papers-trainers-1")
    cluster.wait_for(lambda: pod.lines["trainers"])
    pod.evict()
    assert launch.finish() is None, launch.said
    assert f"trainers-1 on {pod.name} (Evicted: The node was low on resource: memory.) ended" in launch.said


def test_a_server_that_is_killed_starts_again_and_the_job_goes_on(cluster):
    flag = cluster.folder / "go"
    script = f'print("ready", flush=True)\nwhile not os.path.exists("{flag}"):\n    time.sleep(0.01)\n'
    launch = Launch(job(cluster, script, servers=Servers(count=1)))
    cluster.wait_for(lambda: "2 pods of job papers started" in launch.said or "3 pods of job papers started" in launch.said)
    server = cluster.pod("papers-servers-0")
    cluster.wait_for(lambda: len(server.lines["server"]) == 1)
    server.crash()
    cluster.wait_for(lambda: server.restarts == 1 and server.is_running and len(server.lines["server"]) == 3)
    cluster.wait_for(lambda: logs_of(cluster)["papers-servers-0-server-0.log"].count("serving\n") == 2)
    flag.touch()
    assert launch.finish() is None, launch.said


def test_a_server_that_fails_each_time_ends_the_launch(cluster):
    cluster.instead = {
        "server": ["python", "-c", "import sys; print('no partitions here'); sys.exit(2)"],
        "servers": ["sleep", "300"],
    }
    launch = Launch(job(cluster, servers=Servers(count=1)))
    error = launch.finish()
    assert isinstance(error, ClusterError), launch.said
    assert "server-0 on papers-servers-0 failed with exit code 2; the end of " in str(error)
    assert "    no partitions here" in str(error)
    assert nothing_is_left(cluster)


def test_a_log_that_cannot_be_written_ends_no_job(cluster, monkeypatch):
    (cluster.folder.parent / "shared/run/pods").mkdir(parents=True)
    launch = Launch(job(cluster, "print('here')", servers=Servers(count=1)))
    assert launch.finish() is None
    (cluster.folder.parent / "shared/run/pods/papers-servers-0-server-0.log").unlink()
    (cluster.folder.parent / "shared/run/pods/papers-servers-0-server-0.log").mkdir()
    launch = Launch(job(cluster, WAIT.replace("300", "0.5"), servers=Servers(count=1)))
    assert launch.finish() is None
    assert "the rest of a log is lost: " in launch.said
    assert "papers-servers-0-server-0.log" in launch.said


def test_a_pod_that_is_nowhere_scheduled_is_said_and_ends_in_time(cluster):
    cluster.obstacles["papers-trainers-1"] = ("Unschedulable", "0/3 nodes are available: 3 Insufficient memory.")
    launch = Launch(job(cluster, WAIT, options={"start_seconds": 1}))
    error = launch.finish()
    assert isinstance(error, ClusterError)
    assert "did not start within 1 s (start_seconds in [k8s]): papers-trainers-1-" in str(error)
    assert "Unschedulable: 0/3 nodes are available: 3 Insufficient memory." in str(error)
    assert "cannot start: Unschedulable: 0/3 nodes" in launch.said
    assert nothing_is_left(cluster)


def test_a_pod_that_is_scheduled_later_starts(cluster):
    cluster.obstacles["papers-trainers-1"] = ("Unschedulable", "0/3 nodes are available")
    launch = Launch(job(cluster, "print('here')"))
    cluster.wait_for(lambda: "Unschedulable" in launch.said)
    with cluster.changed:
        cluster.obstacles.clear()
        cluster.changed.notify_all()
    assert launch.finish() is None


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError"])
def test_an_image_or_a_configuration_that_cannot_be_used_ends_the_launch(cluster, reason):
    cluster.obstacles["papers-trainers-0"] = (reason, 'image "halohop" not found')
    launch = Launch(job(cluster, WAIT))
    error = launch.finish()
    assert isinstance(error, InputError)
    assert f'cannot start: {reason}: image "halohop" not found; correct image' in str(error)
    assert nothing_is_left(cluster)


def test_a_warning_of_kubernetes_says_why_a_pod_waits(cluster):
    cluster.obstacles["papers-trainers-0"] = ("FailedMount", "timed out waiting for the condition")
    error = Launch(job(cluster, WAIT, options={"start_seconds": 1})).finish()
    assert "FailedMount: timed out waiting for the condition" in str(error)


def test_a_job_goes_on_while_the_cluster_does_not_answer(cluster):
    launch = Launch(job(cluster, WAIT))
    cluster.pod("papers-trainers-0")
    cluster.wait_for(lambda: "ready" in launch.said)
    with cluster.changed:
        cluster.silent = True
        cluster.changed.notify_all()
    error = launch.finish()
    assert isinstance(error, UnansweredError)
    assert "job papers goes on, but the cluster has not answered for" in str(error)
    assert SILENCE.strip() in str(error)
    assert "kubectl get pods --selector=app.kubernetes.io/instance=papers" in str(error)
    assert "kubectl delete job papers-trainers" in str(error)
    assert not any(words[0] == "delete" for words, _ in cluster.calls)
    assert len(cluster.pods) == 2


def test_a_cluster_that_answers_again_loses_no_line(cluster):
    script = f"""
for number in range(3):
    print("line", number, flush=True)
    while not os.path.exists("{cluster.folder}/go-" + str(number)):
        time.sleep(0.01)
"""
    launch = Launch(job(cluster, script, hosts=1), Patience(every=0.05, silent=60))
    cluster.wait_for(lambda: "line 0" in launch.said)
    with cluster.changed:
        cluster.silent = True
        cluster.changed.notify_all()
    (cluster.folder / "go-0").touch()
    cluster.wait_for(lambda: len(cluster.pods[0].lines["trainers"]) == 2)
    with cluster.changed:
        cluster.silent = False
    (cluster.folder / "go-1").touch()
    (cluster.folder / "go-2").touch()
    assert launch.finish() is None, launch.said
    assert list(logs_of(cluster).values()) == ["line 0\nline 1\nline 2\n"]
    assert launch.said.count("line 1\n") == 1


def test_what_the_job_needs_is_looked_for_before_anything_starts(cluster):
    error = Launch(job(cluster, options={"claim": "other", "env_secrets": ["s3"]})).finish()
    assert isinstance(error, InputError)
    assert "the cluster has no secret/s3, persistentvolumeclaim/other, which pods need" in str(error)
    assert [words[0] for words, _ in cluster.calls] == ["get"]


def test_a_second_job_of_the_name_is_refused_and_the_first_goes_on(cluster):
    launch = Launch(job(cluster, WAIT))
    cluster.pod("papers-trainers-0")
    error = Launch(job(cluster, WAIT, out=f"{cluster.folder.parent}/shared/other")).finish()
    assert isinstance(error, InputError)
    assert "there is a job papers-trainers already" in str(error)
    assert "kubectl delete job papers-trainers" in str(error)
    assert cluster.names("Job") == ["papers-trainers"]
    same = Launch(job(cluster, WAIT, name="another")).finish()
    assert "another launch is running in" in str(same)
    cluster.delete(cluster.objects["Job", "papers-trainers"])
    launch.finish()


def test_without_kubectl_the_remedy_is_named(cluster, monkeypatch):
    monkeypatch.setenv("PATH", str(cluster.folder))
    error = Launch(job(cluster)).finish()
    assert isinstance(error, InputError)
    assert "kubectl is not installed here" in str(error)


def test_options_of_kubectl_are_used(cluster):
    asked = job(cluster, options={"command": f"{cluster.bin}/kubectl --namespace=a", "namespace": "b"})
    assert Launch(asked).finish() is None
    assert {tuple(words[:2]) for words, _ in cluster.calls} == {("--namespace=a", "--namespace=b")}


def test_logs_are_kept_here_if_the_claim_is_not_on_this_machine(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = job(cluster, "print('here')", data="/absent/parts", out="/absent/runs/mine", options={"mount": "/absent"})
    assert Launch(asked).finish() is None
    assert sorted(path.read_text() for path in (tmp_path / "runs/mine/pods").iterdir()) == ["here\n", "here\n"]
    assert not (tmp_path / "runs/mine/plan.json").exists()


@pytest.mark.parametrize(
    ("number", "code", "said", "deleted"),
    [
        (signal.SIGINT, 130, "job papers is cancelled", True),
        (signal.SIGTERM, 143, "job papers is cancelled", True),
        (signal.SIGHUP, 129, "its terminal is gone", False),
        (signal.SIGKILL, -9, "", False),
    ],
)
def test_a_signal_to_the_launcher(cluster, number, code, said, deleted):
    """Ctrl-C and SIGTERM cancel the job; without its launcher or its terminal it goes on, and kubectl leaves nothing here."""
    asked = job(cluster, WAIT)
    table = "".join(f"{name} = {json.dumps(value)}\n" for name, value in asked.options.items())
    (cluster.folder / "job.toml").write_text(f"[k8s]\n{table}")
    words = ["--engine", "k8s", "--name", "papers", "--hosts", "2", "--data", asked.data, "--out", asked.out]
    command = [sys.executable, "-m", "halohop", "launch", "--config", f"{cluster.folder}/job.toml", *words, "--", "t.py"]
    with subprocess.Popen(command, cwd=asked.folder, stderr=subprocess.PIPE, text=True) as launcher:
        assert launcher.stderr is not None
        try:
            before = ""
            while "ready" not in before:
                line = launcher.stderr.readline()
                assert line, before
                before += line
            launcher.send_signal(number)
            began = time.monotonic()
            assert launcher.wait(within(30)) == code
            assert time.monotonic() - began < within(10)
            assert said in launcher.stderr.read()
        finally:
            launcher.kill()
    followers = [words for words, _ in cluster.calls if words[0] == "logs"]
    assert followers
    assert cluster.wait_for(lambda: not running_here(cluster))
    if deleted:
        assert nothing_is_left(cluster)
    else:
        assert ("Job", "papers-trainers") in cluster.objects
        assert len(cluster.pods) == 2


def running_here(cluster: Cluster) -> list[str]:
    """Processes of kubectl that read logs."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{cluster.bin}/kubectl logs" in text:
            found.append(text)
    return found
