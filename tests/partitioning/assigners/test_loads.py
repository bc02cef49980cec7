"""What nodes add to their partition, and evening out."""

import pytest
import torch

from halohop.partitioning.assigners import loads as loads_module
from halohop.partitioning.assigners.loads import Loads, carried_by, even_out
from halohop.partitioning.assigners.union import union_graph
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from tests.support.assigning import graph, mixed, power_law


@pytest.mark.parametrize("balance_types", [False, True])
@pytest.mark.parametrize("piece", [7, 10**6])
def test_loads_are_counted(monkeypatch: pytest.MonkeyPatch, balance_types: bool, piece: int) -> None:
    monkeypatch.setattr(loads_module, "_PIECE", piece)
    tables = mixed()
    loads = Loads(tables, balance_types=balance_types)
    rows = loads.rows(0, 800)
    expected = {"training nodes": torch.cat([tables.nodes["paper"].columns["train_mask"], torch.zeros(300)]).int()}
    paper = torch.cat([torch.ones(500), torch.zeros(300)]).int()
    expected |= {"nodes of 'paper'": paper, "nodes of 'author'": 1 - paper, "nodes": torch.ones(800, dtype=torch.int32)}
    in_edges = [torch.zeros(500), torch.zeros(300)]
    for relation, table in tables.edges.items():
        in_edges[relation[2] == "author"] += torch.bincount(table.dst, minlength=len(in_edges[relation[2] == "author"]))
    expected["in-edges"] = torch.cat(in_edges).int()
    nodes = ("nodes of 'paper'", "nodes of 'author'") if balance_types else ("nodes",)
    assert loads.kinds == (*nodes, "training nodes", "in-edges")
    assert torch.equal(rows, torch.stack([expected[kind] for kind in loads.kinds], dim=1))
    assert torch.equal(loads.totals, rows.sum(0))
    assert torch.equal(loads.rows(490, 510), rows[490:510])


def test_each_class_is_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads_module, "_PIECE", 7)
    tables = mixed()
    author, paper = torch.arange(300) % 2, torch.arange(500) % 3 * 5 - 1
    loads = Loads(tables, classes={"author": author, "paper": paper})
    names = ("'paper' of class -1", "'paper' of class 4", "'paper' of class 9", "'author' of class 0", "'author' of class 1")
    assert loads.kinds == ("nodes", *names, "training nodes", "in-edges")
    rows = loads.rows(0, 800)[:, 1:6]
    assert torch.equal(rows[:500, :3], torch.eye(3)[torch.arange(500) % 3].int())
    assert torch.equal(rows[500:, 3:], torch.eye(2)[author].int())
    assert not rows[:500, 3:].any()
    assert not rows[500:, :3].any()
    assert torch.equal(loads.rows(490, 510)[:, 1:6], rows[490:510])


def test_loads_that_no_node_has_are_left_out() -> None:
    tables = GraphTables(nodes={"a": NodeTable(num_nodes=3), "b": NodeTable(num_nodes=0)}, edges={})
    assert Loads(tables, balance_types=True).kinds == ("nodes of 'a'",)
    assert Loads(tables).limit(2, 0.05).tolist() == [2.0]  # 1.5, rounded up


def test_evening_out_moves_what_costs_least() -> None:
    """Two rings of 100 are in one part, a third in the other: neighbours go, so that few edges are cut."""
    rows = torch.arange(100)
    src = torch.cat([rows + 100 * ring for ring in range(3)])
    dst = torch.cat([rows.roll(1) + 100 * ring for ring in range(3)])
    tables = graph(src, dst, 300)
    part = (torch.arange(300) >= 200).int()
    loads, union = Loads(tables), union_graph(tables)
    even_out(part, union, loads, loads.limit(2, 0.05), 2)
    assert (carried_by(part, loads, 2) <= loads.limit(2, 0.05)).all()
    crossing = int((part[src] != part[dst]).sum())
    assert 1 <= crossing <= 4


def test_what_is_even_is_left_alone() -> None:
    tables = power_law()
    part = torch.arange(4000, dtype=torch.int32) % 2
    before = part.clone()
    even_out(part, union_graph(tables), Loads(tables), torch.full((3,), 1e9, dtype=torch.float64), 2)
    assert torch.equal(part, before)


def test_loads_that_conflict_are_brought_together() -> None:
    """Part 0 has the training nodes, part 1 the edges; a node that goes either way brings something with it."""
    generator = torch.Generator().manual_seed(0)
    train = torch.arange(1000) < 300
    dst = torch.randint(400, 1000, (20_000,), generator=generator)
    tables = graph(torch.randint(1000, dst.shape, generator=generator), dst, 1000, train_mask=train)
    part = (torch.arange(1000) >= 500).int()
    loads = Loads(tables)
    even_out(part, union_graph(tables), loads, loads.limit(2, 0.02), 2)
    assert (carried_by(part, loads, 2) <= loads.limit(2, 0.02)).all()


def test_parallel_edges_and_loops_are_loads() -> None:
    tables = GraphTables(
        nodes={"v": NodeTable(num_nodes=2)},
        edges={("v", "to", "v"): EdgeTable(src=torch.tensor([0, 0, 1]), dst=torch.tensor([1, 1, 1]))},
    )
    assert Loads(tables).rows(0, 2).tolist() == [[1, 0], [1, 3]]
