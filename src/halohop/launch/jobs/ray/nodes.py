"""Room for the processes of a job on the nodes of a cluster. What never fits is refused, and does not wait for ever."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from halohop.errors import ClusterError, InputError
from halohop.launch.jobs.ray.library import ray_library
from halohop.launch.terminal.wording import counted

Strategy = Literal["STRICT_SPREAD", "SPREAD"]
Bundle = dict[str, float]
"""Resources that Ray reserves for one actor: a number for "CPU" and "GPU"."""
_ROUNDING = 1e-6


@contextmanager
def placed(bundles: Sequence[Bundle], strategy: Strategy, what: str, *, deadline: float) -> Iterator[list[dict[str, Any]]]:
    """Reserves room while the context lasts. Ray moves what it has reserved on a node that is lost to another one.

    Args:
        bundles: what each process needs.
        strategy: "STRICT_SPREAD" puts each bundle on a node of its own, "SPREAD" does so as far as there are nodes.
        what: the processes, for messages.
        deadline: seconds to wait for room.

    Yields:
        For each bundle, options of an actor that takes its room.

    Raises:
        InputError: it would not fit onto the nodes if these were empty.
        ClusterError: there was no room in time.
    """
    check_fit(bundles, what, strict=strategy == "STRICT_SPREAD")
    groups = ray_library("ray.util.placement_group")
    group = groups.placement_group(bundles, strategy=strategy)
    try:
        if not group.wait(deadline):
            raise ClusterError(
                f"the cluster has had no room for {what} ({strategy}) within {deadline:g} s; free: "
                f"{_spelled(ray_library().available_resources())}"
            )
        scheduling = ray_library("ray.util.scheduling_strategies").PlacementGroupSchedulingStrategy
        yield [
            {
                "num_cpus": bundle["CPU"],
                "num_gpus": bundle.get("GPU", 0),
                "scheduling_strategy": scheduling(group, placement_group_bundle_index=number),
            }
            for number, bundle in enumerate(bundles)
        ]
    finally:
        groups.remove_placement_group(group)


def check_fit(bundles: Sequence[Bundle], what: str, *, strict: bool) -> None:
    """Sees whether bundles would fit onto the nodes, were these empty.

    Raises:
        InputError: they would not; says what each node has.
    """
    nodes = [node for node in ray_library().nodes() if node["Alive"]]
    kinds = {kind for bundle in bundles for kind in bundle}
    if all(_fit([bundle.get(kind, 0) for bundle in bundles], [_has(node, kind) for node in nodes], strict) for kind in kinds):
        return
    each = ", ".join(f"{node['NodeManagerHostname']} with {_spelled(node['Resources'])}" for node in nodes)
    apart = " on a node of its own (STRICT_SPREAD)" if strict else ""
    remedy = ", or let several share a node (strategy='SPREAD')" if strict else ""
    raise InputError(
        f"{what} need {' or '.join(dict.fromkeys(map(_spelled, bundles)))}, each{apart}, but the cluster has "
        f"{counted(len(nodes), 'node')}: {each}; ask for fewer, or for less of each (options of the engine), or add nodes{remedy}"
    )


def _fit(wanted: Sequence[float], there: Sequence[float], strict: bool) -> bool:
    """Returns whether there is enough of a resource. If the bundles differ, True is not certain."""
    least = min(wanted)
    rooms = [int(amount / least + _ROUNDING) if least else len(wanted) for amount in there]
    return max(wanted) <= max(there, default=0) and sum(min(room, 1) if strict else room for room in rooms) >= len(wanted)


def _has(node: dict[str, Any], kind: str) -> float:
    amount: float = node["Resources"].get(kind, 0)
    return amount


def _spelled(resources: Mapping[str, float]) -> str:
    """Resources for people.

    Example:
        >>> _spelled({"CPU": 4.0, "memory": 1e9, "GPU": 1.0}), _spelled({})
        ('4 CPUs and 1 GPUs', '0 CPUs')
    """
    return " and ".join(f"{resources[kind]:g} {kind}s" for kind in ("CPU", "GPU") if resources.get(kind)) or "0 CPUs"
