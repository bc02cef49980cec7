"""Graphs whose batches are made on a pretended GPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from halohop.cluster.device import DeviceOptions
from halohop.cluster.graph import Graph
from halohop.ops import device
from tests.support.pretend_gpu import PretendPool


@pytest.fixture
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """``device="cuda:0"`` is a pretended GPU."""
    monkeypatch.setattr(device, "device_pool", lambda name, counters=None: PretendPool(counters))


@contextmanager
def on_pretended(graph: Graph, **options: Any) -> Iterator[Graph]:
    """The graph, with a pretended GPU for its batches while the context lasts."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(device, "device_pool", lambda name, counters=None: PretendPool(counters))
        graph.use_device(DeviceOptions(device="cuda:0", **options))
    try:
        yield graph
    finally:
        graph.on_device = None
