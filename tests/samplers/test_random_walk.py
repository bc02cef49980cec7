"""Walks are the oracle's, whatever the partitions; they go along edges of the graph, and end where there are none."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import ToUndirected

import halohop
from halohop import random_walk
from halohop.cluster.graph import Graph
from halohop.errors import IdError, InputError, SchemaError
from halohop.samplers import node2vec, walks
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing import graphs
from halohop.testing.walk_oracle import WalkOracle
from halohop.testing.worlds import hosts, partitioned
from halohop.typing import EDGE, NODE, Relation
from tests.support.divisions import DIVISIONS, FEW_DIVISIONS, divided

HOMOGENEOUS = {
    "power law": graphs.power_law(60, 3, shuffled_ids=True),  # with self-loops, multi-edges, dead ends
    "ring": graphs.ring(7),
    "one node": graphs.ring(1),
    "many copies": graphs.multi_edges(4, 5),
    "no edges": graphs.isolated(5),
    "star": graphs.star(9),
}

BY, WRITES, CITES = ("paper", "by", "author"), ("author", "writes", "paper"), ("paper", "cites", "paper")
TYPED = graphs.typed({"paper": 25, "author": 9, "venue": 3}, {WRITES: 60, BY: 40, CITES: 50, ("venue", "of", "paper"): 0})


def undirected() -> GraphTables:
    """Both directions of every edge; triangles, a self-loop, two copies of an edge, a leaf."""
    pairs = torch.tensor([[0, 1], [0, 2], [0, 3], [0, 4], [1, 2], [2, 3], [1, 5], [2, 5], [5, 6], [4, 7], [4, 7], [0, 8]])
    src, dst = torch.cat([pairs.T, pairs.T.flip(0), torch.tensor([[2, 5], [2, 5]])], dim=1)
    weight = 0.5 + torch.arange(len(src)) % 4
    return GraphTables(
        nodes={NODE: NodeTable(num_nodes=9)}, edges={EDGE: EdgeTable(src=src, dst=dst, columns={"weight": weight})}
    )


UNDIRECTED = undirected()


def raw_ids(tables: GraphTables, node_type: str) -> list[int]:
    table = tables.nodes[node_type]
    return list(range(table.num_nodes)) if table.raw_id is None else table.raw_id.tolist()


def padded(rows: list[list[int]], width: int) -> list[list[int]]:
    return [row + [-1] * (width - len(row)) for row in rows]


def expected(tables: GraphTables, path: list[Relation], starts: list[int], **options) -> tuple[list[list[int]], list[list[int]]]:
    place = {key: options.pop(key) for key in ("epoch", "batch") if key in options}
    oracle = WalkOracle(tables, path, **options)
    nodes, edges = zip(*(oracle.walk(number, raw, **place) for number, raw in enumerate(starts)), strict=True)
    return padded(nodes, len(path) + 1), padded(edges, len(path))


def with_zeros(tables: GraphTables) -> GraphTables:
    """Some edges, and all of some lists, without weight."""
    edges = tables.edges[EDGE]
    weight = edges.columns["weight"] * (edges.dst % 5 > 0) * (torch.arange(edges.num_edges) % 3 > 0)
    return GraphTables(nodes=tables.nodes, edges={EDGE: replace(edges, columns=edges.columns | {"weight": weight})})


WALKED = HOMOGENEOUS | {"undirected": UNDIRECTED, "small power law": graphs.power_law(15, 4, shuffled_ids=True)}
GRAPHS = WALKED | {f"{name} with zeros": with_zeros(tables) for name, tables in WALKED.items()} | {"typed": TYPED}
in_parts = divided(GRAPHS)


@pytest.mark.parametrize("name", HOMOGENEOUS)
@pytest.mark.parametrize("weight", [None, "weight"])
def test_walks_are_the_oracles(name, weight):
    name = name if weight is None else f"{name} with zeros"
    tables = GRAPHS[name]
    starts = raw_ids(tables, NODE) * 3
    options = {"seed": 3, "epoch": 2, "batch": 1}
    nodes, edges = expected(tables, [EDGE] * 6, starts, weight=weight, **options)
    for division in FEW_DIVISIONS:
        graph = in_parts(name, *division)
        got = random_walk(graph, starts, 6, weight_attr=weight, dead_end="stop", return_edge_ids=True, **options)
        assert (got[0].tolist(), got[1].tolist()) == (nodes, edges)


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("path", [[BY, CITES, WRITES], [WRITES, BY], [CITES], [("venue", "of", "paper")]])
def test_metapaths_are_the_oracles(path, num_parts, shard_each):
    graph = in_parts("typed", num_parts, shard_each)
    starts = raw_ids(TYPED, path[0][2])
    nodes, edges = expected(TYPED, path, starts)
    got = random_walk(graph, starts, metapath=path, return_edge_ids=True)
    assert (got[0].tolist(), got[1].tolist()) == (nodes, edges)


def test_a_metapath_is_gone_through_again():
    nodes, _ = expected(TYPED, [BY, WRITES, BY, WRITES, BY], sorted(raw_ids(TYPED, "author")))
    assert random_walk(partitioned(TYPED, 2), None, 5, metapath=[BY, WRITES]).tolist() == nodes


def test_from_disk_and_hosts_as_in_memory(tmp_path):
    tables = HOMOGENEOUS["power law"]
    halohop.partition(tables, tmp_path / "parts", num_parts=3, method="random")
    reference = random_walk(partitioned(tables, 1), None, 5, return_edge_ids=True)
    with halohop.open(tmp_path / "parts") as graph:
        assert all(torch.equal(a, b) for a, b in zip(random_walk(graph, None, 5, return_edge_ids=True), reference, strict=True))
    with hosts(tmp_path / "parts", [[0, 2], [1]]) as both:
        for graph in both:
            assert torch.equal(random_walk(graph, None, 5), reference[0])


def test_steps_are_edges_and_whoever_cannot_go_on_stays():
    torch.manual_seed(0)
    data = Data(edge_index=torch.randint(200, (2, 260)), num_nodes=200)
    nodes, edges = random_walk(data, None, 8, return_edge_ids=True)
    assert nodes.shape == (200, 9)
    assert nodes.dtype == edges.dtype == torch.int64
    went = edges >= 0
    assert torch.equal(data.edge_index[1, edges[went]], nodes[:, :-1][went])
    assert torch.equal(data.edge_index[0, edges[went]], nodes[:, 1:][went])
    assert torch.equal(nodes[:, :-1][~went], nodes[:, 1:][~went])
    has_list = torch.bincount(data.edge_index[1], minlength=200) > 0
    assert torch.equal(went, has_list[nodes[:, :-1]])
    assert 100 < went.sum() < 1500
    stopped = random_walk(data, None, 8, dead_end="stop")
    assert torch.equal(stopped[:, 1:] == -1, ~went)
    assert torch.equal(stopped[:, 1:][went], nodes[:, 1:][went])


def test_flipped_edges_lead_along_the_arrows():
    path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    assert random_walk(Data(edge_index=path, num_nodes=4), [0], 3).tolist() == [[0, 0, 0, 0]]
    assert random_walk(Data(edge_index=path.flip(0), num_nodes=4), [0], 3).tolist() == [[0, 1, 2, 3]]


def test_a_reverse_relation_leads_along_the_arrows():
    data = HeteroData()
    data["a"].num_nodes, data["b"].num_nodes = 2, 2
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1], [1, 0]])
    data = ToUndirected()(data)
    path = [("b", "rev_to", "a"), ("a", "to", "b")]
    assert random_walk(data, [0, 1], 4, metapath=path).tolist() == [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1]]
    with pytest.raises(InputError, match=r"name the reverse relation, such as \('a', 'rev_rev_to', 'b'\)"):
        random_walk(data, [0], metapath=[("a", "to", "b"), ("b", "rev_to", "a"), ("b", "rev_to", "a")])


def test_every_edge_is_as_likely_as_the_others():
    """2 of 5 copies lead on from 0 to 1, 3 to 2; the walkers are independent, and so are epochs, batches and steps."""
    data = Data(edge_index=torch.tensor([[1, 2, 2, 1, 2, 0, 0], [0, 0, 0, 0, 0, 1, 2]]), num_nodes=3)
    draws = random_walk(data, [0] * 20_000, 4, seed=1)[:, 1::2]
    assert (draws == 1).float().mean(dim=0).tolist() == pytest.approx([0.4, 0.4], abs=0.012)  # 3.5 sigma
    assert ((draws[:, 0] == 1) & (draws[:, 1] == 1)).float().mean().item() == pytest.approx(0.16, abs=0.01)
    assert ((draws[:-1, 0] == 1) & (draws[1:, 0] == 1)).float().mean().item() == pytest.approx(0.16, abs=0.01)
    for other in ({"seed": 2}, {"seed": 1, "epoch": 1}, {"seed": 1, "batch": 1}):
        again = random_walk(data, [0] * 20_000, 4, **other)[:, 1::2]
        assert ((draws[:, 0] == 1) & (again[:, 0] == 1)).float().mean().item() == pytest.approx(0.16, abs=0.01)


def test_weights_decide():
    data = Data(edge_index=torch.tensor([[1, 2, 3], [0, 0, 0]]), w=torch.tensor([1.0, 3.0, 0.0]), num_nodes=4)
    draws = random_walk(data, [0] * 10_000, 1, weight_attr="w")[:, 1]
    assert (torch.bincount(draws, minlength=4) / 1e4).tolist() == pytest.approx([0, 0.25, 0.75, 0], abs=0.016)


def test_what_a_walker_draws_does_not_depend_on_the_others(monkeypatch):
    graph = partitioned(HOMOGENEOUS["power law"], 2)
    starts = raw_ids(HOMOGENEOUS["power law"], NODE)
    whole = random_walk(graph, starts, 5)
    assert torch.equal(random_walk(graph, starts[:17], 5), whole[:17])
    assert torch.equal(random_walk(graph, starts, 3), whole[:, :4])
    monkeypatch.setattr(walks, "_AT_ONCE", 16)
    flocks = random_walk(graph, starts * 2, 5)
    assert torch.equal(flocks[:16], whole[:16])
    assert not torch.equal(random_walk(graph, starts[:16] * 2, 5)[16:], whole[:16])  # of equal trees, and of another flock


def test_starts_are_named_as_seeds_are():
    graph = partitioned(HOMOGENEOUS["power law"], 2)
    raw = graph.select(None)[1]
    assert random_walk(graph, None, 0).tolist() == raw[:, None].tolist()
    assert random_walk(graph, raw % 2 == 0, 0).tolist() == raw[raw % 2 == 0, None].tolist()
    assert random_walk(graph, "train", 0).tolist() == graph.select("train")[1][:, None].tolist()
    assert random_walk(graph, raw[:2].int().numpy(), np.int32(0)).tolist() == raw[:2, None].tolist()


@pytest.mark.parametrize("num_parts", [1, 3])
def test_nobody_walks_nowhere(num_parts):
    graph = partitioned(graphs.ring(5), num_parts, shard_each=True)
    nodes, edges = random_walk(graph, [], 3, return_edge_ids=True)
    assert (nodes.shape, edges.shape) == ((0, 4), (0, 3))
    nodes, edges = random_walk(graph, [2], 0, return_edge_ids=True)
    assert (nodes.tolist(), edges.shape) == ([[2]], (1, 0))
    assert (nodes.dtype, edges.dtype) == (torch.int64, torch.int64)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"start": [99], "length": 1}, IdError, "99"),
        ({"start": [0.5], "length": 1}, InputError, "integers"),
        ({}, InputError, "neither length nor metapath"),
        ({"length": -2}, InputError, "length=-2"),
        ({"length": 1.5}, InputError, r"length=1\.5"),
        ({"length": 2, "metapath": []}, InputError, "metapath is empty"),
        ({"length": 1, "metapath": [("node", "no", "node")]}, SchemaError, "unknown relation"),
        ({"length": 1, "weight_attr": "wieght"}, InputError, "wieght"),
        ({"length": 1, "dead_end": "loop"}, InputError, "'loop'"),
        ({"length": 1, "seed": 1.5}, InputError, r"seed=1\.5"),
    ],
)
def test_what_cannot_be_walked(arguments, error, message):
    with pytest.raises(error, match=message):
        random_walk(partitioned(graphs.ring(5), 2), **arguments)


def test_what_cannot_be_walked_among_several_types():
    graph = partitioned(TYPED, 2)
    with pytest.raises(SchemaError, match="name those to walk along"):
        random_walk(graph, None, 2)
    with pytest.raises(InputError, match="leads to 'author'"):
        random_walk(graph, None, metapath=[WRITES, CITES])
    with pytest.raises(InputError, match="use 'stop'"):
        random_walk(graph, None, metapath=[BY, WRITES], dead_end="stay")
    with pytest.raises(SchemaError, match="of 'author', but nodes of 'paper' are needed"):
        random_walk(graph, "author", metapath=[CITES])
    assert torch.equal(random_walk(graph, "paper", metapath=[CITES]), random_walk(graph, None, metapath=[CITES]))
    stayed = random_walk(graph, None, 5, metapath=[CITES], dead_end="stay")
    assert (stayed >= 0).all()


def test_one_relation_between_two_types():
    nodes = {"a": NodeTable(num_nodes=2), "b": NodeTable(num_nodes=3)}
    edges = {("a", "to", "b"): EdgeTable(src=torch.tensor([1, 0]), dst=torch.tensor([0, 1]))}
    graph: Graph = partitioned(GraphTables(nodes=nodes, edges=edges), 2)
    assert random_walk(graph, [0, 1, 2], 1).tolist() == [[0, 1], [1, 0], [2, -1]]
    with pytest.raises(InputError, match="leads to 'a'"):
        random_walk(graph, [0], 2)


BIASES = [(1.0, 1.0), (0.25, 4.0), (0.01, 2.0), (4.0, 0.5), (1.0, 0.25), (1e-9, 1.0), (1e50, 1e-50)]


@pytest.mark.parametrize(("p", "q"), BIASES)
@pytest.mark.parametrize("weight", [None, "weight"])
def test_biased_walks_are_the_oracles(p, q, weight):
    for name in ("undirected", "one node", "many copies", "small power law"):
        name = name if weight is None else f"{name} with zeros"
        tables = GRAPHS[name]
        starts = raw_ids(tables, NODE)
        options = {"p": p, "q": q, "seed": 3, "epoch": 2, "batch": 1}
        nodes, edges = expected(tables, [EDGE] * 3, starts, weight=weight, **options)
        for division in FEW_DIVISIONS:
            graph = in_parts(name, *division)
            got = random_walk(graph, starts, 3, weight_attr=weight, dead_end="stop", return_edge_ids=True, **options)
            assert (got[0].tolist(), got[1].tolist()) == (nodes, edges)


@pytest.mark.parametrize("rounds", [0, 1, 32])
@pytest.mark.parametrize(("p", "q"), BIASES[1:6])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_steps_are_as_likely_as_node2vec_says(rounds, p, q, weight, monkeypatch):
    """Against the matrix of the paper, by chi-square; whether candidates are refused or all are listed is no matter."""
    monkeypatch.setattr(node2vec, "_ROUNDS", rounds)
    monkeypatch.setattr(node2vec, "_LISTED_AT_ONCE", 1000)
    oracle = WalkOracle(UNDIRECTED, [EDGE] * 2, p=p, q=q, weight=weight)
    num_walks = 20_000
    walks = random_walk(partitioned(UNDIRECTED, 2), [0] * num_walks, 2, p=p, q=q, weight_attr=weight, return_edge_ids=True)
    first, counts = walks[0][:, 1].unique(return_counts=True)
    assert len(first) == 5
    for middle, count in zip(first.tolist(), counts.tolist(), strict=True):
        shares = oracle.shares(EDGE, [0, middle])
        drawn = walks[1][walks[0][:, 1] == middle, 1]
        observed = [(drawn == edge).sum().item() for edge in shares]
        assert sum(observed) == count
        likely = {edge: share for edge, share in shares.items() if share * count > 5}
        rest = (sum(observed) - sum((drawn == edge).sum().item() for edge in likely), count * (1 - sum(likely.values())))
        assert rest[0] <= rest[1] + 5 * max(rest[1], 1) ** 0.5
        square = sum(((drawn == edge).sum().item() - share * count) ** 2 / (share * count) for edge, share in likely.items())
        assert square < len(likely) + 4.5 * (2 * len(likely)) ** 0.5


def test_biases_need_one_relation_and_numbers_above_zero():
    for bad in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="above 0"):
            random_walk(partitioned(UNDIRECTED, 2), None, 2, p=bad)
        with pytest.raises(InputError, match="above 0"):
            random_walk(partitioned(UNDIRECTED, 2), None, 2, q=bad)
    graph = partitioned(TYPED, 2)
    for path in ([BY, WRITES], [BY]):
        with pytest.raises(InputError, match="one relation between nodes of one type"):
            random_walk(graph, None, metapath=path, p=2)
    random_walk(graph, None, 3, metapath=[CITES], p=2)


def test_edges_are_looked_up_only_where_the_answer_matters(monkeypatch):
    graph, asked = partitioned(UNDIRECTED, 1), []
    find = Graph.find_neighbors
    monkeypatch.setattr(Graph, "find_neighbors", lambda self, pairs: asked.append(len(pairs[0][1])) or find(self, pairs))
    random_walk(graph, [0] * 1000, 3, p=0.2)
    assert sum(asked) == 0
    random_walk(graph, [0] * 1000, 3, q=2.0)
    assert 500 < sum(asked) < 2000  # about half of the candidates of two steps
