"""Servers in Kubernetes: a StatefulSet, whose pods have names that stay, a headless Service, and a disruption budget."""

from collections.abc import Mapping
from typing import Any

from halohop.errors import InputError
from halohop.launch.jobs.job import Servers
from halohop.launch.jobs.k8s.pods import Object, Pods, headless, resources
from halohop.transport.addresses import is_loopback_host, parsed

DEFAULTS: Mapping[str, Any] = {"grace": 30, "metrics": "0.0.0.0:9464"}
"""Options of `halohop serve` in pods: time to answer what clients have asked, and where probes ask."""

INDEX: Object = {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}
"""Where a pod of a StatefulSet finds its number; Kubernetes 1.28 and newer."""

_LAST_SECONDS = 15  # to say goodbye and to end, after the grace
_START_MINUTES = 15  # for kernels, if the image has none, and for files that are verified


def serving(pods: Pods, servers: Servers, name: str) -> list[Object]:
    """The objects of a job's servers, which have `DEFAULTS` among their options.

    Raises:
        InputError: options of servers that pods cannot have.
    """
    setting, part = pods.setting, pods.part
    selector = {"matchLabels": setting.selector(part)}
    ports = [{"name": "halohop", "containerPort": servers.port}, {"name": "metrics", "containerPort": _metrics_port(servers)}]
    options = setting.options
    main = pods.container(
        "server",
        pods.words([process.argv for process in pods.processes]),
        ports=ports,
        startupProbe=_probe("/readyz", periodSeconds=5, failureThreshold=_START_MINUTES * 12),
        readinessProbe=_probe("/readyz", periodSeconds=5, failureThreshold=2),
        livenessProbe=_probe("/healthz", periodSeconds=20, failureThreshold=6),
        resources=resources(options.server_cpu, options.server_memory),
    )
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    template = pods.template(
        main,
        terminationGracePeriodSeconds=round(_grace(servers)) + _LAST_SECONDS,
        affinity={
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]}
        },
    )
    return [
        headless(pods, name, {"halohop": servers.port}),
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": setting.metadata(name, part),
            "spec": {
                "serviceName": name,
                "replicas": len(pods.processes),
                "podManagementPolicy": "Parallel",
                "selector": selector,
                "template": template,
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": setting.metadata(name, part),
            "spec": {"maxUnavailable": servers.replicas - 1, "selector": selector},
        },
    ]


def _probe(path: str, **fields: int) -> Object:
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 5, **fields}


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
