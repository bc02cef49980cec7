"""The nodes of GraphSAINT's subgraphs are the oracle's, and as likely as the paper says."""

from collections import Counter

import pytest
import torch

from halohop import partition
from halohop.errors import InputError
from halohop.samplers.saint import RandomNodes
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing import graphs
from halohop.testing.saint_oracle import SaintOracle
from halohop.testing.worlds import hosts, partitioned
from halohop.typing import EDGE, NODE
from tests.support.divisions import DIVISIONS, divided

GRAPHS = {
    "one_node": graphs.ring(1),
    "star": graphs.star(40),
    "outward": graphs.star(40, outward=True),
    "multi_edges": graphs.multi_edges(7, 4),
    "power_law": graphs.power_law(80, 3, shuffled_ids=True),
}
in_parts = divided(GRAPHS)


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("by", "size", "length"), [("node", 30, 0), ("edge", 12, 0), ("walk", 8, 4), ("walk", 3, 0)])
def test_nodes_are_the_oracles(name, num_parts, shard_each, by, size, length):
    tables, graph = GRAPHS[name], in_parts(name, num_parts, shard_each)
    raw_of = dict(zip(*(ids.tolist() for ids in graph.select()), strict=True))
    nodes = RandomNodes(graph, by, size=size, length=length, seed=6)
    oracle = SaintOracle(tables, by, size=size, length=length, seed=6)
    for epoch, index in ((0, 0), (0, 1), (1, 0), (-1, 5)):
        assert [raw_of[gid] for gid in nodes.draw(epoch=epoch, index=index).tolist()] == oracle.draw(epoch=epoch, index=index)


def test_hosts_draw_the_same(tmp_path):
    partition(GRAPHS["power_law"], tmp_path / "parts", num_parts=3, method="random")
    for by in ("node", "edge", "walk"):
        with hosts(tmp_path / "parts", [[0, 2], [1]]) as opened:
            one, other = (RandomNodes(graph, by, size=20, length=3).draw(epoch=0, index=0) for graph in opened)
            assert torch.equal(one, other)


def undirected() -> GraphTables:
    """Six nodes of degrees 4, 2, 2, 1, 1 and 0; edges both ways."""
    one, other = torch.tensor([[0, 0, 0, 0, 1], [1, 2, 3, 4, 2]])
    edges = EdgeTable(src=torch.cat([one, other]), dst=torch.cat([other, one]))
    return GraphTables(nodes={NODE: NodeTable(num_nodes=6)}, edges={EDGE: edges})


def frequencies(by, length=0, draws=1000, tables=None):
    """How often a single draw gives which nodes."""
    graph = partitioned(tables or undirected(), 2)
    raw_of = dict(zip(*(ids.tolist() for ids in graph.select()), strict=True))
    nodes = RandomNodes(graph, by, size=1, length=length)
    return Counter(tuple(raw_of[gid] for gid in nodes.draw(epoch=0, index=index).tolist()) for index in range(draws))


def chi_square(seen, probability):
    total = sum(seen.values())
    assert set(seen) <= set(probability)
    return sum((seen[key] - total * p) ** 2 / (total * p) for key, p in probability.items())


def test_nodes_are_drawn_by_degree():
    degrees = {(0,): 4, (1,): 2, (2,): 2, (3,): 1, (4,): 1}
    assert chi_square(frequencies("node"), {key: degree / 10 for key, degree in degrees.items()}) < 18.5  # 4 d.f., 0.1 %


@pytest.mark.full
def test_edges_are_drawn_as_in_the_paper():
    degree = [4, 2, 2, 1, 1]
    edges = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2)]
    weight = {(u, v): 1 / degree[u] + 1 / degree[v] for u, v in edges}
    total = sum(weight.values())
    assert chi_square(frequencies("edge"), {edge: w / total for edge, w in weight.items()}) < 18.5


def test_walks_begin_anywhere_and_go_on_uniformly():
    """One step: a start of six, then a neighbour; the isolated node stays alone."""
    probability = {(0, 1): 1 / 24 + 1 / 12, (0, 2): 1 / 24 + 1 / 12, (0, 3): 1 / 24 + 1 / 6, (0, 4): 1 / 24 + 1 / 6}
    probability |= {(1, 2): 2 / 12, (5,): 1 / 6}
    assert chi_square(frequencies("walk", length=1), probability) < 20.5  # 5 d.f., 0.1 %


@pytest.mark.full
def test_the_picture_in_the_documentation():
    edges = EdgeTable(src=torch.tensor([1, 2, 3, 3, 4, 0, 4]), dst=torch.tensor([0, 0, 0, 1, 1, 2, 3]))
    tables = GraphTables(nodes={NODE: NodeTable(num_nodes=5)}, edges={EDGE: edges})
    by_node = {(0,): 1 / 7, (1,): 1 / 7, (2,): 1 / 7, (3,): 2 / 7, (4,): 2 / 7}
    by_edge = {(0, 1): 1 / 12, (0, 3): 1 / 12, (0, 2): 4 / 12, (1, 3): 1 / 8, (1, 4): 1 / 8, (3, 4): 1 / 4}
    assert chi_square(frequencies("node", tables=tables), by_node) < 18.5
    assert chi_square(frequencies("edge", tables=tables), by_edge) < 20.5


@pytest.mark.parametrize(
    ("name", "by", "options", "message"),
    [
        ("isolated", "node", {"size": 1}, "no edges"),
        ("isolated", "edge", {"size": 1}, "no edges"),
        ("nothing", "walk", {"size": 1, "length": 2}, "no nodes"),
        ("ring", "node", {"size": 0}, "batch_size=0"),
        ("ring", "walk", {"size": 1, "length": -1}, "walk_length=-1"),
        ("typed", "walk", {"size": 1}, r"one node type.*\['a', 'b'\]"),
    ],
)
def test_what_nothing_can_be_drawn_from_is_refused(name, by, options, message):
    tables = {
        "isolated": graphs.isolated(4),
        "nothing": graphs.ring(0),
        "ring": graphs.ring(4),
        "typed": graphs.typed({"a": 2, "b": 2}, {("a", "to", "b"): 3}),
    }[name]
    with pytest.raises(InputError, match=message):
        RandomNodes(partitioned(tables, 1), by, **options)
