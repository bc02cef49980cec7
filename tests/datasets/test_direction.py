from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from halohop.datasets import add_reverses, directions
from halohop.datasets.sources import load_source
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE

SRC, DST = [0, 1, 2, 3, 0], [1, 0, 3, 3, 2]  # 0 - 1 both ways, a self-loop at 3, and two edges one way
BOTH = [*zip(SRC, DST, strict=True), (3, 2), (2, 0)]


def graph(src: list[int], dst: list[int], *, num_nodes: int = 4, dtype: torch.dtype = torch.int64, **columns) -> GraphTables:
    table = EdgeTable(src=torch.tensor(src, dtype=dtype), dst=torch.tensor(dst, dtype=dtype), columns=columns)
    return GraphTables(nodes={NODE: NodeTable(num_nodes=num_nodes)}, edges={EDGE: table})


def pairs(tables: GraphTables, relation=EDGE) -> list[tuple[int, int]]:
    table = tables.edges[relation]
    return [*zip(table.src.tolist(), table.dst.tolist(), strict=True)]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_reverses_stand_behind_and_neither_loops_nor_pairs_are_doubled(dtype: torch.dtype) -> None:
    both = add_reverses(graph(SRC, DST, dtype=dtype))
    assert pairs(both) == BOTH
    assert both.edges[EDGE].src.dtype == dtype
    assert pairs(add_reverses(both)) == BOTH


def test_reverses_have_the_columns_of_their_edges() -> None:
    columns = {
        "edge_attr": torch.arange(10.0).view(5, 2),
        "weight": torch.arange(5).half(),
        "time": torch.arange(5),
        "train_mask": torch.tensor([True, False, True, False, True]),
    }
    both = add_reverses(graph(SRC, DST, **columns)).edges[EDGE]
    came_from = [0, 1, 2, 3, 4, 0, 1, 2, 4]  # 0 - 1 goes both ways, but not with the same columns: both get a reverse
    assert [*zip(both.src.tolist(), both.dst.tolist(), strict=True)][5:] == [(1, 0), (0, 1), (3, 2), (2, 0)]
    for name, column in columns.items():
        assert torch.equal(both.columns[name], column[came_from]), name


def test_an_edge_that_is_there_both_ways_with_equal_columns_is_not_doubled() -> None:
    weight = torch.tensor([float("nan"), float("nan"), 2.0, 3.0, 4.0])
    assert pairs(add_reverses(graph(SRC, DST, weight=weight, empty=torch.zeros(5, 0)))) == BOTH


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 1)), max_size=30))
def test_the_result_is_symmetric_and_begins_with_what_was_given(edges: list[tuple[int, int, int]]) -> None:
    src, dst, kind = ([edge[k] for edge in edges] for k in range(3))
    both = add_reverses(graph(src, dst, num_nodes=6, kind=torch.tensor(kind, dtype=torch.uint8))).edges[EDGE]
    found = [*zip(both.src.tolist(), both.dst.tolist(), both.columns["kind"].tolist(), strict=True)]
    assert found[: len(edges)] == edges
    assert set(found) == {*edges, *((v, u, k) for u, v, k in edges)}
    assert len(found) == len(edges) + len([1 for u, v, k in edges if (v, u, k) not in edges])


def test_between_two_types_the_reverses_are_a_relation() -> None:
    buys = EdgeTable(src=torch.tensor([0, 1]), dst=torch.tensor([2, 0]), columns={"weight": torch.tensor([0.5, 1.5])})
    nodes = {"user": NodeTable(num_nodes=2), "item": NodeTable(num_nodes=3)}
    both = add_reverses(GraphTables(nodes=nodes, edges={("user", "buys", "item"): buys}))
    assert pairs(both, ("item", "rev_buys", "user")) == [(2, 0), (0, 1)]
    assert both.edges["item", "rev_buys", "user"].columns["weight"].tolist() == [0.5, 1.5]
    assert list(add_reverses(both).edges) == list(both.edges)  # each reverses the other
    assert directions(both) == ["edges that go both ways: 2 of user buys item, 2 of item rev_buys user"]


def test_inverse_relations_of_any_name_are_known_by_their_edges() -> None:
    there = EdgeTable(src=torch.tensor([0, 1]), dst=torch.tensor([1, 2]))
    back = EdgeTable(src=there.dst, dst=there.src)
    edges = {("entity", "knows", "entity"): there, ("entity", "knows_inv", "entity"): back}
    tables = GraphTables(nodes={"entity": NodeTable(num_nodes=3)}, edges=edges)
    assert [table.num_edges for table in add_reverses(tables).edges.values()] == [2, 2]


def test_the_lines_say_which_it_was() -> None:
    directed, both = directions(graph(SRC, DST)), directions(add_reverses(graph(SRC, DST)))
    assert directed == [
        "edges taken as directed: 5 of node to node (40% without a reverse); "
        "--undirected, or undirected = true in graph.toml, adds the reverses"
    ]
    assert both == ["edges that go both ways: 7 of node to node"]
    many = {(NODE, f"r{number}", NODE): EdgeTable(src=torch.tensor([0]), dst=torch.tensor([number])) for number in range(1, 6)}
    (line,) = directions(GraphTables(nodes={NODE: NodeTable(num_nodes=6)}, edges=many))
    assert "1 of node r3 node (100% without a reverse) and 2 more relations; " in line
    assert directions(graph([], [])) == ["edges that go both ways: 0 of node to node"]


def test_shares_of_large_tables_are_those_of_a_sample() -> None:
    ring = torch.arange(50_000)
    (line,) = directions(graph(ring.tolist(), ((ring + 1) % 50_000).tolist(), num_nodes=50_000))
    assert "50,000 of node to node (100% without a reverse)" in line
    assert "both ways" in directions(add_reverses(graph(ring.tolist(), ((ring + 1) % 50_000).tolist(), num_nodes=50_000)))[0]


def write_sources(folder: Path) -> dict[str, Path]:
    """The edges 0 -> 1 -> 2 in a source of each kind."""
    sources = {kind: folder / name for kind, name in (("pt", "g.pt"), ("typed", "h.pt"), ("csv", "tables"))}
    ends = torch.tensor([[0, 1], [1, 2]])
    torch.save(Data(edge_index=ends, num_nodes=3), sources["pt"])
    typed = HeteroData()
    typed[NODE].num_nodes = 3
    typed[EDGE].edge_index = ends
    torch.save(typed, sources["typed"])
    sources["csv"].mkdir()
    (sources["csv"] / "edges.csv").write_text("a,b\n0,1\n1,2\n")
    (sources["csv"] / "graph.toml").write_text('[edges.node__to__node]\nfile = "edges.csv"\nsrc = "a"\ndst = "b"\n')
    return sources


@pytest.mark.parametrize("kind", ["pt", "typed", "csv"])
def test_every_source_has_the_same_default_and_the_same_option(tmp_path: Path, kind: str) -> None:
    source = write_sources(tmp_path)[kind]
    assert pairs(load_source(source)) == [(0, 1), (1, 2)]
    assert pairs(load_source(source, undirected=True)) == [(0, 1), (1, 2), (1, 0), (2, 1)]


def test_synthetic_graphs_go_both_ways_already() -> None:
    for name in ("synthetic:tiny", "synthetic-hetero:tiny"):
        asked, plain = load_source(name, undirected=True), load_source(name)
        assert [table.num_edges for table in asked.edges.values()] == [table.num_edges for table in plain.edges.values()]
    assert "both ways" in directions(load_source("synthetic:tiny"))[0]


def test_a_table_says_it_for_itself(tmp_path: Path) -> None:
    folder = write_sources(tmp_path)["csv"]
    with (folder / "graph.toml").open("a") as spec:
        spec.write("undirected = true\n")
        spec.write('[edges.node__one_way__node]\nfile = "edges.csv"\nsrc = "a"\ndst = "b"\n')
    tables = load_source(folder)
    assert pairs(tables) == [(0, 1), (1, 2), (1, 0), (2, 1)]
    assert pairs(tables, (NODE, "one_way", NODE)) == [(0, 1), (1, 2)]
