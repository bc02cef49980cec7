"""Copies of the rows that are read most: which they are, and what they change."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import halohop
from halohop import Graph, ops
from halohop.cluster.holding import Holding
from halohop.cluster.hottest import hot_rows
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.telemetry import Counters

NUM = 60
ROW = 4 * 8


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Node v is in v lists; features of 32 bytes and labels of 8; users are in none."""
    src = torch.repeat_interleave(torch.arange(NUM), torch.arange(NUM))
    tables = GraphTables(
        nodes={
            "paper": NodeTable(num_nodes=NUM, columns={"x": torch.rand(NUM, 8), "y": torch.arange(NUM)}),
            "user": NodeTable(num_nodes=5, columns={"x": torch.rand(5, 3)}),
        },
        edges={("paper", "cites", "paper"): EdgeTable(src=src, dst=torch.arange(len(src)) % 7)},
    )
    path = tmp_path_factory.mktemp("hot") / "parts"
    assignment = {"paper": torch.arange(NUM) % 3, "user": torch.zeros(5, dtype=torch.int64)}
    halohop.partition(tables, path, num_parts=3, method=assignment)
    return path


def hits(graph: Graph, raw: list[int], node_type: str = "paper") -> float:
    """How many of these rows of features are in memory."""
    before = graph.statistics().get("hot_rows", 0)
    graph.rows("x", torch.tensor(raw), node_type=node_type)
    return graph.statistics().get("hot_rows", 0) - before


def test_those_that_most_lists_name_are_in_memory(parts):
    with halohop.open(parts, memory=0, hot_memory=10 * (ROW + 8) + 5) as graph:
        assert hits(graph, [*range(NUM - 10, NUM), 3, 7]) == 10
        assert hits(graph, list(range(NUM - 10))) == 0
        assert hits(graph, [0, 1, 2, 3, 4], "user") == 0
        assert graph.statistics()["disk_rows"] == NUM + 2 + 5


def test_stored_hotness_comes_first(parts):
    """Of two types, the one that is read for more bytes has more copies."""
    holding = Holding.of(parts, memory=0)
    hotness = {"paper": torch.arange(NUM, 0, -1).float(), "user": torch.tensor([0.0, 600.0, 0.0, 10.0, 0.0])}
    columns = {"paper": torch.zeros(NUM, 8), "user": torch.zeros(5, 4)}
    held, pieces = {}, {}
    for name, bounds in holding.book.nodes.items():
        ends = list(pairwise(bounds))
        rows = [columns[name][low:high].clone() for low, high in ends]
        pieces[name] = {"x": ops.Pieces(rows, bounds, disk_arrays={tensor.data_ptr() for tensor in rows})}
        held[name] = [hotness[name][low:high] for low, high in ends]
    hot_parts = {
        index: replace(part, nodes={name: replace(nodes, hotness=held[name][index]) for name, nodes in part.nodes.items()})
        for index, part in holding.parts.items()
    }
    counters = Counters()
    kept = hot_rows(hot_parts, pieces, {}, holding.book, 30 * 32, counters)
    read = {"paper": float(hotness["paper"].sum()) * 32, "user": 610.0 * 16}
    papers = int(30 * 32 * read["paper"] / sum(read.values())) // 32
    kept["paper"]["x"].take(torch.arange(NUM))
    assert counters.snapshot()["hot_rows"] == papers
    kept["paper"]["x"].take(torch.arange(papers))
    assert counters.snapshot()["hot_rows"] == 2 * papers
    kept["user"]["x"].take(torch.arange(5))
    assert counters.snapshot()["hot_rows"] == 2 * papers + 2  # those that are never read have no copies


def test_nothing_is_copied_of_columns_that_fit(parts):
    with halohop.open(parts, memory="1GB", hot_memory="1MB") as graph:
        assert hits(graph, list(range(NUM))) == 0
        assert graph.statistics().get("disk_rows", 0) == 0


@pytest.mark.parametrize("hot_memory", [0, ROW, 1000, "1MB"])
def test_rows_are_the_same(parts, hot_memory):
    with halohop.open(parts, memory=0, hot_memory=hot_memory) as graph, halohop.open(parts) as plain:
        for raw in (torch.arange(NUM), torch.tensor([NUM - 1, 0, NUM - 1, 30])):
            for name in ("x", "y"):
                assert torch.equal(graph.rows(name, raw, node_type="paper"), plain.rows(name, raw, node_type="paper"))
