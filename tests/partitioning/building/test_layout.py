"""How a budget is divided, and that a build keeps to it."""

import os
from pathlib import Path

import pytest

from halohop.errors import InputError
from halohop.partitioning.building import layout
from halohop.partitioning.building.build import partition
from halohop.partitioning.building.layout import plan_memory
from halohop.partitioning.planning.budget import Budget
from halohop.store.disk import read_manifest
from halohop.store.tables import GraphTables, NodeTable
from tests.support.forked import Forked
from tests.support.mapped_build import mapped_graph, write_graph


def test_a_graph_in_files_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    """Features and edges of 128 MB each are in files, and the process grows by 150 MB, mostly for kernels: to hold either as a
    whole would be seen.
    """
    write_graph(tmp_path / "graph", num_nodes=1_000_000, num_edges=4_000_000, width=32)
    arguments = [str(tmp_path / name) for name in ("graph", "out")]
    process = Forked("tests.support.mapped_build", arguments, os.environ | {"PYTHONPATH": str(Path.cwd())})
    try:
        said = process.stdout.read()
        assert process.wait(200) == 0, process.stderr.read()
    finally:
        process.kill()
        process.close()
    assert int(said) < 180 << 20
    partition(mapped_graph(tmp_path / "graph"), tmp_path / "whole", num_parts=3, method="random", memory="8GB")
    assert read_manifest(tmp_path / "whole") == read_manifest(tmp_path / "out")


@pytest.mark.parametrize(("memory", "threads", "room"), [("700MiB", 2, 197), ("364MiB", 1, 59)])
def test_a_budget_is_divided_between_threads(monkeypatch: pytest.MonkeyPatch, memory: str, threads: int, room: int) -> None:
    """What the process has already, the kernels and the numbers of the nodes come first; the rest is for rows."""
    monkeypatch.setattr(layout, "private_bytes", lambda: 200 << 20)
    monkeypatch.setattr(layout, "usable_cores", lambda: [0, 1])
    tables = GraphTables(nodes={"n": NodeTable(num_nodes=1 << 20)}, edges={})
    found = plan_memory(tables, (), Budget.parse(memory), asked=True)
    assert (found.threads, found.room >> 20) == (threads, room)
    with pytest.raises(InputError, match=r"memory=300 MiB is too little: .* take 304 MiB; give at least 352MiB"):
        plan_memory(tables, (), Budget.parse("300MiB"), asked=True)
    assert plan_memory(tables, (), Budget.parse("300MiB"), asked=False).room == 32 << 20
