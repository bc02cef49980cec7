"""What the pods of servers and of trainers have in common: containers that write nowhere but on volumes, and these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from halohop.launch.jobs.job import Job
from halohop.launch.jobs.k8s.numbered import literal, numbered
from halohop.launch.jobs.k8s.options import Options, Quantity
from halohop.launch.jobs.plan import Process
from halohop.store.share import spelled

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Of all pods of a job.

    Args:
        job: what was asked for.
        options: of the engine.
        python: interpreter in the image.
        folder: working directory; "": that of the image.
    """

    job: Job
    options: Options
    python: str
    folder: str

    def labels(self, part: str) -> Object:
        """Of an object for servers or for trainers; what selects these, and what the user adds."""
        return {**self.options.labels, **self.selector(part)}

    def selector(self, part: str) -> Object:
        """What the pods of servers or of trainers have, and no other pods of the namespace."""
        return {
            "app.kubernetes.io/name": "halohop",
            "app.kubernetes.io/instance": self.job.name,
            "app.kubernetes.io/component": part,
        }

    def metadata(self, name: str, part: str) -> Object:
        """Of an object with a name."""
        options = self.options
        return present(name=name, namespace=options.namespace, labels=self.labels(part), annotations={**options.annotations})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Pods whose processes differ by the pod's number only.

    Args:
        setting: of all pods.
        part: what they are: "servers" or "trainers".
        processes: by the number of the pod.
        number: environment variable with the number.
        source: where Kubernetes has the number; None: it sets the variable itself.
    """

    setting: Setting
    part: str
    processes: tuple[Process, ...]
    number: str
    source: Object | None = None

    def words(self, of_each: Sequence[Sequence[str]]) -> list[str]:
        """Arguments of all pods, given those of each."""
        return [numbered(texts, self.number) for texts in zip(*of_each, strict=True)]

    def template(self, main: Object, *, before: Sequence[Object] = (), **spec: Any) -> Object:
        """Of a pod with a main container, containers that end before it starts, and what else its specification has."""
        options, metadata = self.setting.options, present(annotations={**self.setting.options.annotations})
        return {
            "metadata": {"labels": self.setting.labels(self.part), **metadata},
            "spec": present(
                **spec,
                shareProcessNamespace=True,  # else a process is number 1, and SIGTERM means nothing before it handles it
                enableServiceLinks=False,
                automountServiceAccountToken=bool(options.service_account),
                serviceAccountName=options.service_account,
                imagePullSecrets=[{"name": options.pull_secret}] if options.pull_secret else None,
                nodeSelector={**options.node_selector},
                tolerations=[{**toleration} for toleration in options.tolerations],
                securityContext={
                    "runAsNonRoot": True,
                    "runAsUser": options.user,
                    "runAsGroup": options.user,
                    "fsGroup": options.user,
                    "fsGroupChangePolicy": "OnRootMismatch",
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                initContainers=[*self._fetching(), *before],
                containers=[main],
                volumes=[{"name": name, **volume} for name, (_, volume) in self._volumes().items()],
            ),
        }

    def container(self, name: str, args: Sequence[str], **fields: Any) -> Object:
        """One that runs Python with arguments, in which Kubernetes replaces variables."""
        options, env = self.setting.options, self.processes[0].env
        token = {"secretKeyRef": {"name": options.secret, "key": "token"}}
        return present(
            name=name,
            image=options.image,
            command=[self.setting.python],
            args=[*args],
            workingDir=self.setting.folder,
            env=[
                *([{"name": self.number, "valueFrom": self.source}] if self.source else ()),
                {"name": "HALOHOP_TOKEN", "valueFrom": token},
                *({"name": name, "value": literal(value)} for name, value in {"HOME": "/tmp", **env}.items()),
            ],
            envFrom=[{"secretRef": {"name": secret}} for secret in options.env_secrets],
            **fields,
            securityContext={
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            volumeMounts=[{"name": name, "mountPath": path} for name, (path, _) in self._volumes().items()],
        )

    def _fetching(self) -> list[Object]:
        """The container that brings a pod its partitions."""
        data = [process.data for process in self.processes if process.data is not None and process.data.copied]
        if not data:
            return []
        of_each = [("-m", "halohop", "fetch", each.source, each.folder, "--share", spelled(each.shares)) for each in data]
        return [self.container("fetch", self.words(of_each))]

    def _volumes(self) -> Mapping[str, tuple[str, Object]]:
        """Where a volume is mounted, and what it is, by its name."""
        options, job = self.setting.options, self.setting.job
        found = {"tmp": ("/tmp", empty()), "shm": ("/dev/shm", empty(medium="Memory", sizeLimit=options.shared_memory))}
        if options.claim:
            found["shared"] = (options.mount, {"persistentVolumeClaim": {"claimName": options.claim}})
        if job.cache is not None and any(process.data for process in self.processes):
            found["cache"] = (job.cache, empty(sizeLimit=options.cache_size))
        return found


def headless(pods: Pods, name: str, ports: Mapping[str, int]) -> Object:
    """A Service that only gives pods names, from before they are ready until they are gone."""
    setting = pods.setting
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": setting.metadata(name, pods.part),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": setting.selector(pods.part),
            "ports": [{"name": name, "port": port} for name, port in ports.items()],
        },
    }


def empty(**fields: Any) -> Object:
    """A volume that is empty at first, and goes with its pod."""
    return {"emptyDir": present(**fields)}


def resources(cpu: Quantity | None, memory: Quantity | None, **further: Quantity) -> Object | None:
    """What a container is given; of processors it may take more where these are idle."""
    wanted = present(cpu=_text(cpu), memory=_text(memory))
    most = present(memory=_text(memory), **{name: _text(amount) for name, amount in further.items()})
    return present(requests=wanted, limits=most) or None


def present(**fields: Any) -> Object:
    """The fields that say something: no None, no empty text, list or table.

    Example:
        >>> present(name="a", namespace="", labels={}, replicas=0, ready=False)
        {'name': 'a', 'replicas': 0, 'ready': False}
    """
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}


def _text(amount: Quantity | None) -> str | None:
    return None if amount is None else str(amount)
