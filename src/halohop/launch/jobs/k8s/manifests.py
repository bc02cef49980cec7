"""The objects of a job: the template `job.yaml` with the values that the plan and the table [k8s] give."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import Any

from halohop.errors import InputError
from halohop.launch.jobs.job import Job, Servers
from halohop.launch.jobs.job_text import job_text
from halohop.launch.jobs.k8s import script as scripts
from halohop.launch.jobs.k8s.messages import RUNNER_PORT
from halohop.launch.jobs.k8s.numbered import literal, numbered
from halohop.launch.jobs.k8s.options import Options, Quantity
from halohop.launch.jobs.k8s.pod_names import JOB_UID, SERVER_INDEX
from halohop.launch.jobs.k8s.template import Object, fill
from halohop.launch.jobs.plan import Plan, Process
from halohop.store.share import spelled
from halohop.transport.addresses import is_loopback_host, parsed

DEFAULTS: Mapping[str, Any] = {"grace": 30, "metrics": "0.0.0.0:9464"}
"""Options of `halohop serve` in pods: time to answer what clients have asked, and where probes ask."""

_INDEX: Object = {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}  # Kubernetes 1.28 and newer
_UID: Object = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}}  # Kubernetes 1.27 and newer
_MOST = 100_000  # bytes of an argument, of which Linux takes 131,071
_LAST_SECONDS = 15  # to say goodbye and to end, after the grace
_GRACE_S = 60  # for ranks that save where they stand
_FAILURES = 6  # of pods that did not come to train


def manifests(made: Plan, options: Options, script: scripts.Script | None) -> list[Object]:
    """Returns the objects of a job: those of its servers, then those of its trainers, the Job last.

    Args:
        made: from `halohop.launch.jobs.k8s.engine.plan_of`.
        options: the table [k8s].
        script: what a ConfigMap brings.

    Raises:
        InputError: options of servers that pods cannot have, or processes that differ by more than their number.
    """
    found: list[Object] = []
    if made.job.servers is not None:
        values = _servers(made, made.job.servers, options)
        found += [fill(part, values) for part in ("service", "servers", "budget")]
    values = _trainers(made, options, script)
    found.append(fill("service", values))
    if script is not None:
        found.append(fill("script", values | {"name": f"{made.job.name}-script", "script": script.text}))
    return [*found, fill("trainers", values)]


def metadata(job: Job, options: Options, part: str) -> Object:
    """Returns the values of an object's metadata."""
    selector = {
        "app.kubernetes.io/name": "halohop",
        "app.kubernetes.io/instance": job.name,
        "app.kubernetes.io/component": part,
    }
    labels = {**options.labels, **selector}
    annotations = {**options.annotations}
    return {
        "name": f"{job.name}-{part}",
        "namespace": options.namespace,
        "labels": labels,
        "annotations": annotations,
        "selector": selector,
    }


def _servers(made: Plan, servers: Servers, options: Options) -> Object:
    processes, values = made.servers, _common(made, options, "servers", made.servers)
    own = {
        **values,
        **fill("probes", {}),
        "container": "server",
        "args": _words([process.argv for process in processes]),
        "env": [{"name": SERVER_INDEX, "valueFrom": _INDEX}, *values["env"]],
        "ports": [
            {"name": "halohop", "containerPort": servers.port},
            {"name": "metrics", "containerPort": _metrics_port(servers)},
        ],
        **_resources(options.server_cpu, options.server_memory),
    }
    fetching = _fetching(own, processes)
    pod = own | {"before": fetching, "containers": [fill("container", own)], "affinity": fill("apart", values)}
    pod["grace"] = round(_grace(servers)) + _LAST_SECONDS
    shown = {"port_name": "halohop", "port": servers.port, "max_unavailable": servers.replicas - 1}
    return own | shown | {"pod": fill("pod", pod)}


def _trainers(made: Plan, options: Options, script: scripts.Script | None) -> Object:
    processes, port = made.trainers, made.job.master_port
    values = _common(made, options, "trainers", processes, script)
    gpus = {options.gpu_resource: options.gpus} if options.gpus else {}
    text = job_text(replace(made.job, token_file=None))
    if len(text) > _MOST:
        raise InputError(f"the job has {len(text)} bytes as text, but at most {_MOST} fit into an argument of a pod; shorten it")
    own = {
        **values,
        "container": "trainers",
        "args": ["-m", "halohop.launch.jobs.k8s.pod", literal(text)],
        "env": [{"name": JOB_UID, "valueFrom": _UID}, *values["env"]],
        "ports": [{"name": "master", "containerPort": port}, {"name": "runner", "containerPort": RUNNER_PORT}],
        **_resources(options.cpu, options.memory, **gpus),
    }
    before = []
    if made.servers:
        graph = ",".join(server.address for server in made.servers)
        words = ("-m", "halohop", "health", graph, "--seconds", str(options.start_seconds))
        before.append(fill("container", values | {"container": "servers", "args": [literal(word) for word in words]}))
    pod = own | {"before": before, "containers": [fill("container", own)], "restart_policy": "Never", "grace": _GRACE_S}
    pod["subdomain"] = values["name"]
    return own | {"port_name": "master", "port": port, "pod": fill("pod", pod)} | _failing(options)


def _failing(options: Options) -> Object:
    """How often pods may fail. The launcher counts failures of ranks, and Kubernetes the losses of each pod."""
    retries, rules = options.retries, fill("rules", {})
    return {
        "backoff_limit": None if retries else _FAILURES,
        "failures_per_pod": retries or None,
        "max_failed_pods": 0 if retries else None,
        "failure_rules": rules[:-1] if retries else rules,
    }


def _common(
    made: Plan, options: Options, part: str, processes: Sequence[Process], script: scripts.Script | None = None
) -> Object:
    """The values of all objects and containers of servers, or of trainers. Those of one container only are empty."""
    job, empty = made.job, dict.fromkeys(("startup", "readiness", "liveness", "ports", "affinity", "restart_policy", "subdomain"))
    volumes = _volumes(made, options, processes, script)
    token = {"secretKeyRef": {"name": options.secret, "key": "token"}}
    env = {"HOME": "/tmp", **processes[0].env}
    return {
        **empty,
        **asdict(options),
        **metadata(job, options, part),
        **_resources(None, None),
        "python": "python" if job.python == sys.executable else job.python,
        "folder": _folder(job, options),
        "count": len(processes),
        "has_account": bool(options.service_account),
        "env": [
            {"name": "HALOHOP_TOKEN", "valueFrom": token},
            *({"name": name, "value": literal(value)} for name, value in env.items()),
        ],
        "env_from": [{"secretRef": {"name": secret}} for secret in options.env_secrets],
        "mounts": [{"name": name, "mountPath": path} for name, (path, _) in volumes.items()],
        "volumes": [{"name": name, **volume} for name, (_, volume) in volumes.items()],
    }


def _volumes(made: Plan, options: Options, processes: Sequence[Process], script: scripts.Script | None) -> dict[str, Any]:
    """Where a volume is mounted, and what it is, by its name."""
    job = made.job
    found = {"tmp": ("/tmp", _empty()), "shm": ("/dev/shm", _empty(medium="Memory", sizeLimit=options.shared_memory))}
    if options.claim:
        found["shared"] = (options.mount, {"persistentVolumeClaim": {"claimName": options.claim}})
    if job.cache is not None and any(process.data for process in processes):
        found["cache"] = (job.cache, _empty(sizeLimit=options.cache_size))
    if script is not None:
        items = [{"key": "script", "path": script.name}]
        found["script"] = (scripts.FOLDER, {"configMap": {"name": f"{job.name}-script", "items": items}})
    return found


def _empty(**fields: Quantity | None) -> Object:
    return {"emptyDir": {name: value for name, value in fields.items() if value is not None}}


def _fetching(values: Object, processes: Sequence[Process]) -> list[Object]:
    """The container that brings a pod its partitions."""
    data = [process.data for process in processes if process.data is not None and process.data.copied]
    words = [("-m", "halohop", "fetch", each.source, each.folder, "--share", spelled(each.shares)) for each in data]
    bare = dict.fromkeys(("startup", "readiness", "liveness", "ports")) | _resources(None, None)
    return [fill("container", values | bare | {"container": "fetch", "args": _words(words)})] if data else []


def _words(of_each: Sequence[Sequence[str]]) -> list[str]:
    """Arguments of all servers, given those of each."""
    return [numbered(texts, SERVER_INDEX) for texts in zip(*of_each, strict=True)]


def _resources(cpu: Quantity | None, memory: Quantity | None, **further: Quantity) -> Object:
    """What a container is given. It may use more processors if these are idle."""
    limits = {name: str(amount) for name, amount in {"memory": memory, **further}.items() if amount is not None}
    return {"cpu_given": _text(cpu), "memory_given": _text(memory), "limits": limits}


def _text(amount: Quantity | None) -> str | None:
    return None if amount is None else str(amount)


def _folder(job: Job, options: Options) -> str:
    """The working directory: the job's, unless that is just the launcher's, which no pod has."""
    shared = bool(options.claim) and PurePosixPath(job.folder).is_relative_to(options.mount)
    return job.folder if shared or job.folder != str(Path.cwd()) else ""


def _metrics_port(servers: Servers) -> int:
    host, port = parsed(str(servers.options["metrics"]))
    if is_loopback_host(host) or not port:
        raise InputError(
            f"metrics={servers.options['metrics']!r} of the servers is where no probe comes, from outside of the pod; give "
            f"{DEFAULTS['metrics']}"
        )
    return port


def _grace(servers: Servers) -> float:
    grace = servers.options["grace"]
    if not isinstance(grace, int | float) or isinstance(grace, bool) or grace < 0:
        raise InputError(f"grace={grace!r} of the servers is no number of seconds")
    return float(grace)
