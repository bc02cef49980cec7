"""A `kubectl` and its cluster on this machine: pods are processes, and the cluster fails as a test tells it to.

It takes what the schema of Kubernetes takes (kubernetes-validate, or a check of the structure), and answers as kubectl does.
Objects that belong to a Job are deleted with it. Not here: scheduling, networks, volumes, probes.
"""

import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.support.hosts import Host
from tests.support.kubernetes import Container, pods_of
from tests.support.pods import hosts_file, publish

Object = dict[str, Any]

_PROGRAM = """#!{python} -IS
import json, os, socket, sys
words = sys.argv[1:]
given = sys.stdin.read() if "--filename=-" in words else ""
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect({address!r})
    peer.sendall(json.dumps([words, given, "HALOHOP_TOKEN" in os.environ]).encode() + b"\\n")
    for line in peer.makefile("rb"):
        answer = json.loads(line)
        if "code" in answer:
            sys.exit(answer["code"])
        print(answer["text"], end="", flush=True, file=sys.stderr if answer.get("error") else sys.stdout)
sys.exit(1)
"""
SILENCE = "Unable to connect to the server: dial tcp 10.96.0.1:443: i/o timeout\n"
_BACK_OFF_S = 0.3
_NAMES = {"jobs": "Job", "pods": "Pod", "secret": "Secret", "persistentvolumeclaim": "PersistentVolumeClaim", "job": "Job"}


class RefusedError(Exception):
    """kubectl ends with an error."""


class Cluster:
    """A cluster; use it as a context manager. Its `kubectl` is in the folder `bin`.

    Args:
        folder: of its own.
        instead: programs in the place of those of containers, by name.
        nodes: hosts in network namespaces, of which each pod takes one. None: pods are on this machine, have no names, and run
            the script of a job in the place of what pods of trainers run.
    """

    def __init__(
        self, folder: Path, instead: Mapping[str, Sequence[str]] | None = None, nodes: Sequence[Host] | None = None
    ) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.instead, self.nodes = dict(instead or {}), nodes
        self.objects: dict[tuple[str, str], Object] = {}
        self.pods: list[RunningPod] = []
        self.calls: list[tuple[list[str], str]] = []
        self.obstacles: dict[str, tuple[str, str]] = {}
        """By the names of pods without what makes them unique: why they do not start."""
        self.events: list[Object] = []
        self.silent = False
        self.changed = threading.Condition(threading.RLock())
        self._uids = (f"uid-{number}" for number in itertools.count())
        self._ending = False
        self.taken: dict[str, RunningPod] = {}
        self.all_pods: list[RunningPod] = []

    def __enter__(self) -> Self:
        self.bin.mkdir(parents=True)
        address, cluster = str(self.folder / "api"), self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                words, given, has_token = json.loads(self.rfile.readline())
                cluster.serve(words, given, has_token, self._say)

            def _say(self, **answer: Any) -> None:
                self.wfile.write(json.dumps(answer).encode() + b"\n")

        class Server(socketserver.ThreadingUnixStreamServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):  # a kubectl that was ended
                    super().handle_error(request, client_address)

        self._server = Server(address, Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}).start()
        for node in self.nodes or ():
            hosts_file(node).parent.mkdir(parents=True, exist_ok=True)
            hosts_file(node).touch()
        program = self.bin / "kubectl"
        program.write_text(_PROGRAM.format(python=sys.executable, address=address))
        program.chmod(0o755)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self.changed:
            self._ending = True
            for pod in self.all_pods:
                pod.kill(signal.SIGKILL)
            self.objects.clear()
        for pod in self.all_pods:
            pod.thread.join(60)
        self._server.shutdown()
        self._server.server_close()
        for node in self.nodes or ():
            shutil.rmtree(hosts_file(node).parent)

    def take_node(self, pod: "RunningPod") -> Host | None:
        """A node on which no other pod runs, to which the pod's name leads from now on."""
        if self.nodes is None:
            return None
        with self.changed:
            self.changed.wait_for(lambda: len(self.taken) < len(self.nodes or ()))
            node = next(node for node in self.nodes if node.name not in self.taken)
            self.taken[node.name] = pod
            publish(self.nodes, [(each.address, self.taken[each.name].address) for each in self.nodes if each.name in self.taken])
        return node

    def leave_node(self, node: Host | None) -> None:
        with self.changed:
            if node is not None:
                del self.taken[node.name]
            self.changed.notify_all()

    def add(self, kind: str, name: str, **fields: Any) -> None:
        """Puts an object there that the user has made."""
        self.objects[kind, name] = {"kind": kind, "metadata": {"name": name, "uid": next(self._uids)}, **fields}

    def wait_for(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        with self.changed:
            found = self.changed.wait_for(condition, seconds)
        assert found, f"not within {seconds} s; {[pod.status for pod in self.pods]}"
        return found

    def pod(self, name: str) -> "RunningPod":
        """The newest pod of a name, once its main container runs."""
        return self.wait_for(lambda: next((pod for pod in self.pods[::-1] if pod.base == name and pod.is_running), None))

    def names(self, kind: str) -> list[str]:
        return [name for known, name in self.objects if known == kind]

    # What kubectl is asked.

    def serve(self, words: list[str], given: str, has_token: bool, say: Callable[..., None]) -> None:
        with self.changed:
            self.calls.append((words, given))
            self.changed.notify_all()
        words = [word for word in words if not word.startswith(("--request-timeout=", "--namespace="))]
        try:
            assert not has_token, "kubectl and what it starts need no token"
            if self.silent:
                raise RefusedError(SILENCE)
            if words[0] == "logs":
                self._logs(words[1:], say)
            else:
                with self.changed:
                    say(text=getattr(self, f"_{words[0]}")(words[1:], given))
                    self.changed.notify_all()
        except RefusedError as refused:
            say(text=str(refused), error=True)
            say(code=1)
        else:
            say(code=0)

    def _create(self, words: list[str], given: str) -> str:
        assert words == ["--filename=-", "--output=json"]
        made = json.loads(given)
        validate(made)
        kind, name = made["kind"], made["metadata"]["name"]
        if (kind, name) in self.objects:
            raise RefusedError(
                f'Error from server (AlreadyExists): error when creating "STDIN": jobs.batch "{name}" already exists\n'
            )
        made["metadata"]["uid"] = next(self._uids)
        made["status"] = {}
        self.objects[kind, name] = made
        self._reconcile(made)
        return json.dumps(made)

    def _apply(self, words: list[str], given: str) -> str:
        assert words == ["--server-side", "--filename=-"]
        said = []
        for each in json.loads(given)["items"]:
            validate(each)
            each["metadata"]["uid"] = next(self._uids)
            self.objects[each["kind"], each["metadata"]["name"]] = each
            said.append(f"{each['kind'].lower()}/{each['metadata']['name']} serverside-applied\n")
            self._reconcile(each)
        return "".join(said)

    def _patch(self, words: list[str], given: str) -> str:
        kind, name, how, patch = words
        assert (kind, how) == ("job", "--type=merge")
        job = self.objects["Job", name]
        job["spec"] |= json.loads(patch.removeprefix("--patch="))["spec"]
        self._reconcile(job)
        return f"job.batch/{name} patched\n"

    def _get(self, words: list[str], given: str) -> str:
        *what, how = words
        if how == "--output=name":
            assert what.pop() == "--ignore-not-found"
            named = [word.split("/") for word in what]
            return "".join(f"{kind}/{name}\n" for kind, name in named if (_NAMES[kind], name) in self.objects)
        assert how == "--output=json"
        kinds, selector = what
        if kinds == "events":
            uid = selector.rpartition("=")[2]
            items = [event for event in self.events if event["involvedObject"]["uid"] == uid]
        else:
            wanted = dict(pair.split("=") for pair in selector.removeprefix("--selector=").split(","))
            there = [*self.objects.values(), *(pod.object() for pod in self.pods)]
            of = {_NAMES[kind] for kind in kinds.split(",")}
            items = [each for each in there if each["kind"] in of and wanted.items() <= each["metadata"]["labels"].items()]
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}})

    def _delete(self, words: list[str], given: str) -> str:
        kind, selector, how = words
        assert (kind, how) == ("jobs", "--wait=false")
        key, value = selector.removeprefix("--selector=").split("=")
        found = [each for each in self.objects.values() if each["metadata"].get("labels", {}).get(key) == value]
        for each in found:
            self.delete(each)
        return "".join(f'job.batch "{each["metadata"]["name"]}" deleted\n' for each in found) or "No resources found\n"

    def delete(self, job: Object) -> None:
        """Deletes a Job and what belongs to it, as Kubernetes does it in the background."""
        with self.changed:
            del self.objects["Job", job["metadata"]["name"]]
            uid, owned = job["metadata"]["uid"], []
            for key, each in list(self.objects.items()):
                if [owner["uid"] for owner in each["metadata"].get("ownerReferences", ())] == [uid]:
                    owned.append(self.objects.pop(key)["metadata"]["uid"])
            for pod in [pod for pod in self.pods if pod.owner in (uid, *owned)]:
                pod.kill(signal.SIGTERM)
                self.pods.remove(pod)
            self.changed.notify_all()

    def _logs(self, words: list[str], say: Callable[..., None]) -> None:
        follow, stamps, name, container, *more = words
        assert (follow, stamps) == ("--follow", "--timestamps")
        since = more[0].removeprefix("--since-time=")[:19] if more else ""
        with self.changed:
            pod = next((pod for pod in self.pods if pod.name == name), None)
            if pod is None:
                raise RefusedError(f'Error from server (NotFound): pods "{name}" not found\n')
        place, lines = 0, pod.lines[container.removeprefix("--container=")]
        while True:
            with self.changed:
                self.changed.wait_for(lambda place=place: len(lines) > place or self.silent or self._ending)
                new, place = lines[place:], len(lines)
                if self.silent or self._ending:
                    raise RefusedError("error: unexpected EOF\n")
            for stamp, line in new:
                if line is None:
                    return
                if stamp[:19] >= since:  # as the API counts: in seconds
                    say(text=f"{stamp} {line}")

    # What controllers do.

    def _reconcile(self, made: Object) -> None:
        if made["kind"] not in ("Job", "StatefulSet") or made["spec"].get("suspend"):
            return
        for number in range(made["spec"].get("replicas") or made["spec"]["completions"]):
            self.start(made, number)

    def start(self, made: Object, number: int) -> None:
        with self.changed:
            if (made["kind"], made["metadata"]["name"]) in self.objects:
                pod = RunningPod(self, made, number, next(self._uids))
                self.pods.append(pod)
                self.all_pods.append(pod)
                pod.thread.start()

    def secrets(self) -> dict[str, str]:
        return {
            f"{name}/{key}": base64.b64decode(value).decode()
            for (kind, name), each in self.objects.items()
            if kind == "Secret"
            for key, value in each["data"].items()
        }

    def ended(self, pod: "RunningPod", code: int) -> None:
        """What the controller of Jobs does when a pod has ended."""
        with self.changed:
            job = self.objects.get(("Job", pod.made["metadata"]["name"]))
            if job is None or job["metadata"]["uid"] != pod.owner or job["status"].get("conditions"):
                return
            mine = [each for each in self.pods if each.owner == pod.owner]
            done = {each.number for each in mine if each.status["phase"] == "Succeeded"}
            if code == 0:
                if len(done) == job["spec"]["completions"]:
                    job["status"]["conditions"] = [{"type": "Complete", "status": "True"}]
            elif (action := _action(job, pod, code)) == "Ignore":
                pod.counts = False
                self.start(job, pod.number)
            elif reason := _exhausted(job, action, pod, mine):
                message = f"Container trainers for pod default/{pod.name} failed with exit code {code} matching FailJob rule"
                job["status"]["conditions"] = [{"type": "Failed", "status": "True", "reason": reason, "message": message}]
                for each in mine:
                    each.kill(signal.SIGTERM)
            else:
                self.start(job, pod.number)
            self.changed.notify_all()


def _action(job: Object, pod: "RunningPod", code: int) -> str:
    for rule in job["spec"]["podFailurePolicy"]["rules"]:
        if any(condition["type"] == "DisruptionTarget" for condition in pod.status["conditions"]) and "onPodConditions" in rule:
            return str(rule["action"])
        if wanted := rule.get("onExitCodes"):
            assert wanted["containerName"] == "trainers"
            if (code in wanted["values"]) == (wanted["operator"] == "In"):
                return str(rule["action"])
    return "Count"


def _exhausted(job: Object, action: str, pod: "RunningPod", mine: Sequence["RunningPod"]) -> str:
    """Why the Job has failed, if it has."""
    failed = [each for each in mine if each.status["phase"] == "Failed" and each.counts]
    if action == "FailJob":
        return "PodFailurePolicy"
    if (limit := job["spec"].get("backoffLimitPerIndex")) is not None:
        assert job["spec"]["maxFailedIndexes"] == 0
        return "FailedIndexes" if sum(each.number == pod.number for each in failed) > limit else ""
    return "BackoffLimitExceeded" if len(failed) > job["spec"]["backoffLimit"] else ""


class RunningPod:
    """A pod: its containers one after the other, in a thread."""

    def __init__(self, cluster: Cluster, made: Object, number: int, uid: str) -> None:
        self.cluster, self.made, self.number, self.uid = cluster, made, number, uid
        self.owner = made["metadata"]["uid"]
        self.base = f"{made['metadata']['name']}-{number}"
        self.name = self.base if made["kind"] == "StatefulSet" else f"{self.base}-{uid[4:]}x"
        self.address = f"{self.base}.{made['metadata']['name']}"
        self._node: Host | None = None
        spec = made["spec"]["template"]["spec"]
        self._initial = [each["name"] for each in spec.get("initContainers", ())]
        self._main = spec["containers"][0]["name"]
        self.lines: dict[str, list[tuple[str, str | None]]] = {name: [] for name in (*self._initial, self._main)}
        self.status: Object = {"phase": "Pending", "conditions": []}
        self.states: dict[str, Object] = {name: {"waiting": {"reason": "PodInitializing"}} for name in self.lines}
        self.process: subprocess.Popen[str] | None = None
        self.restarts, self.last = 0, dict[str, Any]()
        self.oom, self.counts, self._killed = False, True, False
        self.thread = threading.Thread(target=self._run, name=self.name)

    @property
    def is_running(self) -> bool:
        return "running" in self.states[self._main]

    def object(self) -> Object:
        """As the API shows it."""
        labels = self.made["spec"]["template"]["metadata"]["labels"]
        owners = [{"uid": self.owner, "kind": self.made["kind"], "controller": True}]
        index = {"batch.kubernetes.io/job-completion-index": str(self.number)} if self.made["kind"] == "Job" else {}
        about = {"name": self.name, "uid": self.uid, "labels": labels, "annotations": index, "ownerReferences": owners}
        shown = [
            {"name": name, "state": state, "lastState": {}, "restartCount": 0, "image": "i", "imageID": "", "ready": False}
            for name, state in self.states.items()
        ]
        shown[-1] |= {"lastState": self.last, "restartCount": self.restarts}
        scheduled = self.status.get("reason") != "Unschedulable"
        containers = {"initContainerStatuses": shown[:-1], "containerStatuses": shown[-1:]} if scheduled else {}
        status = {name: value for name, value in self.status.items() if scheduled or name not in ("reason", "message")}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "status": status | containers}

    def kill(self, number: signal.Signals) -> None:
        with self.cluster.changed:
            self._killed = True
            if self.process is not None and self.process.poll() is None:
                self.process.send_signal(number)
            self.cluster.changed.notify_all()

    def kill_all(self) -> None:
        """As the kernel ends a container without memory: all its processes."""
        self._kill_rest()

    def _kill_rest(self) -> None:
        """Of a container nothing is left."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for number in self._node.process_ids() if self._node is not None else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def evict(self) -> None:
        """As the kubelet does it if a node has too little memory."""
        with self.cluster.changed:
            self.status |= {"reason": "Evicted", "message": "The node was low on resource: memory."}
            self.status["conditions"].append({"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"})
        self.kill(signal.SIGTERM)

    def _run(self) -> None:
        cluster, code = self.cluster, 0
        with cluster.changed:
            cluster.changed.wait_for(lambda: self._killed or not self._is_stuck())
            if self._killed:
                return
            self.status["conditions"].append({"type": "PodScheduled", "status": "True"})
            pods = pods_of(yaml.safe_dump_all([self.made]), cluster.secrets())
        pod = pods[self.number]
        self._node = cluster.take_node(self)
        for container in (*pod.before, pod.main):
            code = self._run_container(container)
            while self.made["kind"] == "StatefulSet" and container is pod.main and self._starts_again():
                code = self._run_container(container)
            if code:
                break
        cluster.leave_node(self._node)
        with cluster.changed:
            self.status["phase"] = "Failed" if code else "Succeeded"
            cluster.changed.notify_all()
        cluster.ended(self, code)

    def _is_stuck(self) -> bool:
        """Whether the pod may not start; its status says why."""
        reason, message = self.cluster.obstacles.get(self.base, ("", ""))
        if reason == "Unschedulable":
            self.status |= {"reason": reason, "message": message}
            self.status["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]
        elif reason == "FailedMount":
            self.cluster.events.append({"reason": reason, "message": message, "involvedObject": {"uid": self.uid}})
        elif reason:
            self.states[next(iter(self.states))] = {"waiting": {"reason": reason, "message": message}}
        else:
            self.status = {"phase": "Pending", "conditions": []}
        return bool(reason)

    def _run_container(self, container: Container) -> int:
        cluster, name, lines = self.cluster, container.name, self.lines[container.name]
        with cluster.changed:
            if self._killed:  # what the container needs may have been deleted with the pod
                return 137
            script = self._script()
        words = [*container.argv]
        if name in cluster.instead:
            words = [*cluster.instead[name]]
        elif name == "trainers" and self._node is None:
            assert words[1:3] == ["-m", "halohop.launch.jobs.k8s.pod"]
            words = [words[0], *json.loads(words[3])["job"]["run"]]
        words = [word.replace("/script/", f"{script}/") for word in words]
        words[0] = sys.executable if words[0] == "python" else words[0]
        on_node = [] if self._node is None else ["ip", "netns", "exec", self._node.name]
        env = dict(container.env)
        env |= {each: os.environ[each] for each in ("PATH", "PYTHONPATH") if each in os.environ}
        began = _now()[:19] + "Z"
        with cluster.changed:
            if self._killed:
                return 137
            self.process = subprocess.Popen(
                [*on_node, *words],
                cwd=container.folder or None,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            self.status["phase"] = "Running" if name == self._main else "Pending"
            self.states[name] = {"running": {"startedAt": began}}
            cluster.changed.notify_all()
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                with cluster.changed:
                    lines.append((_now(), line))
                    cluster.changed.notify_all()
        code = self.process.wait()
        self._kill_rest()
        code = 128 - code if code < 0 else code
        reason = "OOMKilled" if self.oom else "Error" if code else "Completed"
        ended = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": _now()[:19] + "Z"}
        with cluster.changed:
            lines.append(("9", None))
            self.states[name] = {"terminated": ended}
            cluster.changed.notify_all()
        return code

    def _starts_again(self) -> bool:
        """Whether the container of a server that has ended starts again; Kubernetes waits longer."""
        with self.cluster.changed:
            self.restarts += not self._killed
            if not self._killed:
                self.last, self.lines[self._main][-1] = self.states[self._main], (_now(), "")
                self.states[self._main] = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting"}}
                self.cluster.changed.wait_for(lambda: self._killed, _BACK_OFF_S)
            return not self._killed

    def crash(self) -> None:
        """Kills the process of a server, whose pod stays."""
        assert self.process is not None
        self.process.kill()

    def _script(self) -> str:
        """The folder of the ConfigMap, as this machine has it."""
        for volume in self.made["spec"]["template"]["spec"]["volumes"]:
            if "configMap" in volume:
                folder = self.cluster.folder / volume["configMap"]["name"]
                folder.mkdir(exist_ok=True)
                (item,) = volume["configMap"]["items"]
                text = self.cluster.objects["ConfigMap", volume["configMap"]["name"]]["data"][item["key"]]
                if not (folder / item["path"]).exists():
                    (folder / item["path"]).write_text(text)
                return str(folder)
        return "/script"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def validate(made: Object) -> None:
    """
    Raises:
        RefusedError: not an object of Kubernetes.
    """
    try:
        import kubernetes_validate
    except ImportError:
        if not {"apiVersion", "kind", "metadata"} <= made.keys() or not made.keys() <= _FIELDS:
            raise RefusedError(f"error: error validating {made}\n") from None
        return
    try:
        kubernetes_validate.validate(made, kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        raise RefusedError(f'error: error validating "STDIN": {error.message}\n') from error


_FIELDS = {"apiVersion", "kind", "metadata", "spec", "data", "type", "status"}
