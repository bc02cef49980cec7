"""Jobs that never fit onto a cluster are refused with what its nodes have."""

from types import SimpleNamespace
from typing import Any

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.ray import nodes


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Two nodes that are there, one that is gone."""
    found = [
        {"Alive": alive, "NodeManagerHostname": name, "Resources": {"CPU": cpus}}
        for name, cpus, alive in (("a", 4.0, True), ("b", 1.0, True), ("c", 64.0, False))
    ]
    monkeypatch.setattr(nodes, "ray_library", lambda: SimpleNamespace(nodes=lambda: found))
    return found


@pytest.mark.usefixtures("cluster")
def test_fewer_nodes_than_servers_are_refused() -> None:
    nodes.check_spread(2, 1.0, strict=True)
    with pytest.raises(InputError, match=r"3 servers need 1 CPUs, each on a node of its own \(STRICT_SPREAD\)") as caught:
        nodes.check_spread(3, 1.0, strict=True)
    assert "2 nodes: a with 4 CPUs, b with 1 CPUs" in str(caught.value)
    assert "strategy='SPREAD'" in str(caught.value)
    nodes.check_spread(3, 1.0, strict=False)


@pytest.mark.usefixtures("cluster")
def test_cpus_count_by_node() -> None:
    nodes.check_spread(1, 4.0, strict=True)
    with pytest.raises(InputError, match=r"2 servers need 4 CPUs"):
        nodes.check_spread(2, 4.0, strict=False)
    nodes.check_spread(2, 0.0, strict=True)


@pytest.mark.usefixtures("cluster")
def test_trainers_must_fit_beside_servers() -> None:
    nodes.check_trainers(3, 1.0, 0.0, servers=2, server_cpus=1.0)
    with pytest.raises(InputError, match=r"4 trainers with 1 CPUs and 0 GPUs each, and 2 servers with 1 CPUs, do not fit"):
        nodes.check_trainers(4, 1.0, 0.0, servers=2, server_cpus=1.0)
    with pytest.raises(InputError, match="1 GPUs each"):
        nodes.check_trainers(1, 1.0, 1.0, servers=0, server_cpus=1.0)
