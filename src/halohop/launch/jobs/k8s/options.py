"""The table [k8s] of a job file: options of the engine `k8s`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from halohop.errors import InputError
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.tables import convert

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_LONGEST_LABEL = 63
_LONGEST_NAME = 253

Quantity = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Pods, and what they need of the cluster.

    Args:
        image: of all pods; Python, halohop and the user's script are in it.
        secret: name of a Secret in the namespace, whose key `token` is the shared secret; it is made for the time of the job if
            it is not there. "": one of the job's own.
        command: kubectl and options of it, such as ``"kubectl --context=prod"``.
        namespace: of all objects; "": that of kubectl.
        claim: name of a PersistentVolumeClaim that all pods mount, for the run folder and shared data.
        mount: where they mount it.
        cpu, memory, gpus: of each pod of trainers, such as ``4``, ``"16Gi"`` and ``1``; None: whatever there is.
        gpu_resource: what the cluster calls a GPU.
        server_cpu, server_memory: of each server.
        cache_size: how large the cache of a pod may become; None: as large as its node allows.
        shared_memory: how large /dev/shm may become, which worker processes use; None: the pod's memory.
        start_seconds: how long pods may take to start, all of them: trainers wait for servers, and for each other.
        retries: how many times ranks may fail, and how many times each pod may be lost, before the job fails. After each, all
            ranks start again. Ranks that were asked to end, and saved where they were, always start again.
        deadline_seconds: how long the job may take in all; None: as long as it needs.
        ttl_seconds: when Kubernetes deletes a job that has ended, and all that was made for it, if its launcher is gone. None:
            after 10 minutes, and never if the user applies the manifests.
        node_selector: labels of the nodes that pods run on.
        tolerations: of taints of nodes, as Kubernetes spells them.
        labels, annotations: further ones of all objects and pods.
        env_secrets: names of Secrets whose keys become environment variables, such as the credentials of an object store.
        pull_secret: name of the Secret for the registry of the image; "": none.
        service_account: that pods run as; "": the namespace's default, without its token.
        user: number of the user, and of the group of files on volumes.

    Raises:
        InputError: a value that Kubernetes would refuse.
    """

    image: str
    secret: str = ""
    command: str = "kubectl"
    namespace: str = ""
    claim: str = ""
    mount: str = "/shared"
    cpu: Quantity | None = None
    memory: Quantity | None = None
    gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    server_cpu: Quantity | None = None
    server_memory: Quantity | None = None
    cache_size: Quantity | None = None
    shared_memory: Quantity | None = None
    start_seconds: int = 3600
    retries: int = 0
    deadline_seconds: int | None = None
    ttl_seconds: int | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    env_secrets: tuple[str, ...] = ()
    pull_secret: str = ""
    service_account: str = ""
    user: int = 10001

    def __post_init__(self) -> None:
        if not self.image or any(letter.isspace() for letter in self.image):
            raise InputError(f"image={self.image!r} is no image of a container; give one like registry.example.org/halohop:1")
        if not self.command.split():
            raise InputError("command is empty; give kubectl, and options of it")
        for name in ("secret", "claim", "pull_secret", "service_account"):
            if getattr(self, name):
                check_name(name, getattr(self, name))
        for secret in self.env_secrets:
            check_name("env_secrets", secret)
        if self.namespace and not (_LABEL.fullmatch(self.namespace) and len(self.namespace) <= _LONGEST_LABEL):
            raise InputError(
                f"namespace={self.namespace!r} must have at most {_LONGEST_LABEL} small letters, digits and '-', "
                "neither '-' at an end"
            )
        mount = PurePosixPath(self.mount)
        if not mount.is_absolute() or mount == PurePosixPath("/") or ".." in mount.parts or ":" in self.mount:
            raise InputError(f"mount={self.mount!r} must be a path of its own in the pods, such as /shared")
        for name in ("cpu", "memory", "server_cpu", "server_memory", "cache_size", "shared_memory"):
            amount = getattr(self, name)
            if amount is not None and not (
                _QUANTITY.fullmatch(str(amount)) and any(digit in "123456789" for digit in str(amount))
            ):
                raise InputError(f"{name}={amount!r} is no quantity of Kubernetes; give one like 4, 500m or 16Gi")
        least_values = {"gpus": 0, "start_seconds": 1, "retries": 0, "deadline_seconds": 1, "ttl_seconds": 1, "user": 1}
        for name, least in least_values.items():
            if getattr(self, name) is not None and getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)} must be at least {least}")
        for name in ("labels", "annotations", "node_selector"):
            self._check_keys(name)

    def _check_keys(self, name: str) -> None:
        for key, value in getattr(self, name).items():
            if not _KEY.fullmatch(key):
                raise InputError(f"{name}: {key!r} is no key of Kubernetes; it is like team or example.org/team")
            if name != "annotations" and not _LABEL_VALUE.fullmatch(value):
                raise InputError(
                    f"{name}: {key}={value!r} is no value of a label; it has at most 63 letters, digits, '-', '_' and '.', "
                    "a letter or digit at both ends"
                )


def options_of(job: Job) -> Options:
    """Returns the table [k8s] of a job; its Secret has a name.

    Raises:
        InputError: a value that Kubernetes would refuse.
    """
    options = convert(job.options, Options, "[k8s]")
    return options if options.secret else replace(options, secret=f"{job.name}-token")


def check_name(what: str, name: str) -> None:
    """
    Raises:
        InputError: no name of an object; says which.
    """
    if not _SUBDOMAIN.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise InputError(
            f"{what}={name!r} is no name of an object in Kubernetes: it has small letters, digits, '-' and '.', a "
            "letter or digit at both ends"
        )
