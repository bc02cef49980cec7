"""Jobs that never fit onto a cluster are refused with what its nodes have."""

from types import SimpleNamespace
from typing import Any

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.ray import nodes


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Two nodes that are there, one that is gone."""
    resources = {"a": {"CPU": 4.0, "GPU": 1.0}, "b": {"CPU": 1.0}, "c": {"CPU": 64.0}}
    found = [{"Alive": name != "c", "NodeManagerHostname": name, "Resources": there} for name, there in resources.items()]
    monkeypatch.setattr(nodes, "ray_library", lambda: SimpleNamespace(nodes=lambda: found))
    return found


def test_fewer_nodes_than_bundles_are_refused() -> None:
    nodes.check_fit([{"CPU": 1.0}] * 2, "2 hosts", strict=True)
    with pytest.raises(InputError, match=r"3 hosts need 1 CPUs, each on a node of its own \(STRICT_SPREAD\)") as caught:
        nodes.check_fit([{"CPU": 1.0}] * 3, "3 hosts", strict=True)
    assert "2 nodes: a with 4 CPUs and 1 GPUs, b with 1 CPUs;" in str(caught.value)
    assert "strategy='SPREAD'" in str(caught.value)
    nodes.check_fit([{"CPU": 1.0}] * 5, "5 hosts", strict=False)
    with pytest.raises(InputError, match=r"6 hosts need 1 CPUs, each, but the cluster has 2 nodes"):
        nodes.check_fit([{"CPU": 1.0}] * 6, "6 hosts", strict=False)


def test_each_resource_counts_by_node() -> None:
    nodes.check_fit([{"CPU": 4.0, "GPU": 1.0}], "1 host", strict=True)
    nodes.check_fit([{"CPU": 0.1}] * 50, "50 hosts", strict=False)
    nodes.check_fit([{"CPU": 0.0}] * 2, "2 servers", strict=True)
    for bundles in ([{"CPU": 4.0}] * 2, [{"CPU": 1.0}, {"CPU": 5.0}], [{"CPU": 1.0, "GPU": 1.0}] * 2, [{"CPU": 1.0, "GPU": 2.0}]):
        with pytest.raises(InputError, match="they need"):
            nodes.check_fit(bundles, "they", strict=False)
