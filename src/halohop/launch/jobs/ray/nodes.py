"""What the nodes of a cluster have, so that a job which never fits is refused and does not wait for ever."""

from typing import Any

from halohop.errors import InputError
from halohop.launch.jobs.ray.library import ray_library


def alive() -> list[dict[str, Any]]:
    """The nodes of the cluster, as Ray describes them."""
    return [node for node in ray_library().nodes() if node["Alive"]]


def check_spread(servers: int, cpus: float, *, strict: bool) -> None:
    """Sees whether servers fit onto the nodes, were these empty.

    Raises:
        InputError: they do not; names what each node has.
    """
    nodes = alive()
    rooms = [int(_cpus(node) / cpus) if cpus else servers for node in nodes]
    if sum(min(room, 1) if strict else room for room in rooms) >= servers:
        return
    each = "each on a node of its own (STRICT_SPREAD)" if strict else "(SPREAD)"
    remedy = "start fewer servers, or with fewer CPUs (server_cpus, num_cpus), add nodes" + (
        ", or let servers share nodes (strategy='SPREAD')" if strict else ""
    )
    raise InputError(f"{servers} servers need {cpus:g} CPUs, {each}, but the cluster has {_described(nodes)}; {remedy}")


def check_trainers(trainers: int, cpus: float, gpus: float, *, servers: int, server_cpus: float) -> None:
    """Sees whether trainers fit beside the servers, were the nodes else empty.

    Raises:
        InputError: they do not; names what each node has.
    """
    nodes = alive()
    wanted = trainers * cpus + servers * server_cpus
    there, gpus_there = sum(map(_cpus, nodes)), sum(node["Resources"].get("GPU", 0) for node in nodes)
    if wanted > there or trainers * gpus > gpus_there:
        raise InputError(
            f"{trainers} trainers with {cpus:g} CPUs and {gpus:g} GPUs each, and {servers} servers with {server_cpus:g} CPUs, "
            f"do not fit: the cluster has {_described(nodes)}; ask for fewer (hosts, trainers, trainer_cpus, "
            "server_cpus), or add nodes"
        )


def free_resources() -> str:
    """What is not reserved, of the whole cluster."""
    free = ray_library().available_resources()
    return f"{free.get('CPU', 0):g} CPUs, {free.get('GPU', 0):g} GPUs"


def _cpus(node: dict[str, Any]) -> float:
    return float(node["Resources"].get("CPU", 0))


def _described(nodes: list[dict[str, Any]]) -> str:
    each = ", ".join(f"{node['NodeManagerHostname']} with {_cpus(node):g} CPUs" for node in nodes)
    return f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}: {each}"
