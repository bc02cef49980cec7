"""What tests of `halohop.dgl.distributed` share: partitions, and graphs that are closed at the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import halohop.dgl as dgl
from halohop.dgl.notes import note
from tests.support.dgl_parts import plain_graph, typed_graph

GRAPHS = {"plain": plain_graph, "typed": typed_graph}


@pytest.fixture(
    params=[("plain", 1), ("plain", 2), ("plain", 4), ("typed", 1), ("typed", 2), ("typed", 4)], ids=str, scope="module"
)
def divided(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dgl.DGLGraph, Path]:
    """A graph, and its partitions."""
    kind, parts = request.param
    g, folder = GRAPHS[kind](), tmp_path_factory.mktemp(kind) / "parts"
    dgl.distributed.partition_graph(g, "it", parts, folder, part_method="random")
    return g, folder


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    """Each test opens graphs of its own, and sees the notes of its own calls."""
    note.cache_clear()
    yield
    dgl.distributed.exit_client()
