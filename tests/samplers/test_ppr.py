"""Forward push against networkx and against a plain dictionary; the same for all partitions; neighbourhoods made of it."""

from dataclasses import replace
from types import MappingProxyType

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import halohop
from halohop import PPRLoader, SubGraphLoader, ppr
from halohop.errors import IdError, InputError, SchemaError
from halohop.sampling.discovery import Discovery
from halohop.store.tables import GraphTables
from halohop.testing import checks, graphs
from halohop.testing.oracle_subgraph import induced_edges, raw_ids
from halohop.testing.walk_oracle import in_edges
from halohop.testing.worlds import hosts, partitioned
from halohop.typing import EDGE, NODE
from tests.support.divisions import FEW_DIVISIONS

TABLES = {
    "power law": graphs.power_law(60, 3, shuffled_ids=True),  # with self-loops, multi-edges, dead ends
    "ring": graphs.ring(9),
    "one node": graphs.ring(1),
    "copies": graphs.multi_edges(4, 5),
    "no edges": graphs.isolated(5),
    "star": graphs.star(9),
}


def lists_of(tables: GraphTables) -> dict[int, list[int]]:
    lists = {raw: [] for raw in raw_ids(tables, NODE)}
    for raw, edges in in_edges(tables, EDGE, None).items():
        lists[raw] = [source for source, _, _ in edges]
    return lists


def pushed(lists: dict[int, list[int]], seed: int, alpha: float, eps: float) -> tuple[dict[int, float], dict[int, float]]:
    """Scores and residuals, in rounds, one node and one edge at a time."""
    score, residual = {}, {seed: 1.0}
    while hot := [node for node, left in residual.items() if left > eps * max(len(lists[node]), 1)]:
        amounts = {node: residual[node] for node in hot}
        residual |= dict.fromkeys(hot, 0.0)
        added = {}
        for node, amount in amounts.items():
            score[node] = score.get(node, 0.0) + amount * (alpha if lists[node] else 1.0)
            for source in lists[node]:
                added[source] = added.get(source, 0.0) + (1 - alpha) * amount / len(lists[node])
        for source, amount in added.items():
            residual[source] = residual.get(source, 0.0) + amount
    return score, residual


def by_seed(result: tuple[torch.Tensor, ...], num_seeds: int) -> list[list[tuple[int, float]]]:
    rows = [[] for _ in range(num_seeds)]
    for seed, raw, score in zip(*(column.tolist() for column in result), strict=True):
        rows[seed].append((raw, score))
    return rows


@pytest.mark.parametrize(("alpha", "eps"), [(0.15, 1e-4), (0.5, 0.01), (0.05, 0.02), (0.9, 2.0)])
@pytest.mark.parametrize("name", TABLES)
def test_scores_are_those_of_a_plain_push_in_any_partitioning(name, alpha, eps):
    lists = lists_of(TABLES[name])
    seeds = [*lists, *list(lists)[:2]]
    first = None
    for num_parts, shard_each in FEW_DIVISIONS:
        graph = partitioned(TABLES[name], num_parts, seed=num_parts, shard_each=shard_each)
        result = ppr(graph, seeds, alpha=alpha, eps=eps)
        first = first or result
        assert all(torch.equal(a, b) for a, b in zip(result, first, strict=True))  # bit for bit
    assert [column.dtype for column in first] == [torch.int64, torch.int64, torch.float64]
    for seed, found in zip(seeds, by_seed(first, len(seeds)), strict=True):
        score, _ = pushed(lists, seed, alpha, eps)
        assert dict(found) == pytest.approx(score, rel=1e-12)
        assert found == sorted(found, key=lambda entry: (-entry[1], entry[0]))


@pytest.mark.parametrize("name", ["power law", "ring", "copies", "star"])
def test_scores_are_networkx_up_to_eps(name):
    lists = lists_of(TABLES[name])
    walk = nx.MultiDiGraph()
    walk.add_nodes_from(lists)
    walk.add_edges_from((node, source) for node, sources in lists.items() for source in sources)
    walk.add_edges_from((node, node) for node, sources in lists.items() if not sources)  # whoever cannot go on stays
    raw = torch.tensor(list(lists))
    graph = partitioned(TABLES[name], 2)
    for eps in (1e-3, 1e-9):
        for seed, found in zip(raw.tolist(), by_seed(ppr(graph, raw, eps=eps), len(raw)), strict=True):
            exact = nx.pagerank(walk, alpha=0.85, personalization={seed: 1}, tol=1e-13, max_iter=1000)
            _, residual = pushed(lists, seed, 0.15, eps)
            left = sum(residual.values())
            missing = [exact[node] - dict(found).get(node, 0.0) for node in exact]
            assert min(missing) > -1e-9
            assert sum(missing) == pytest.approx(left, abs=1e-9)
            if eps == 1e-9:
                assert max(missing) < 1e-6


def test_the_bound_in_an_undirected_graph():
    torch.manual_seed(0)
    pairs = torch.randint(50, (2, 150))
    data = Data(edge_index=torch.cat([pairs, pairs.flip(0)], dim=1), num_nodes=50)
    degree = torch.bincount(data.edge_index[1], minlength=50)
    for eps in (0.01, 0.001):
        close = {(seed, raw): score for seed, raw, score in zip(*(c.tolist() for c in ppr(data, eps=1e-8)), strict=True)}
        rough = {(seed, raw): score for seed, raw, score in zip(*(c.tolist() for c in ppr(data, eps=eps)), strict=True)}
        assert all(0 <= close[key] - rough.get(key, 0) + 1e-6 <= eps * degree[key[1]] + 2e-6 for key in close)


def test_top_and_ties():
    graph = partitioned(graphs.star(9), 3, shard_each=True)
    seed, node, score = ppr(graph, [0, 5], top=4)
    assert seed.tolist() == [0, 0, 0, 0, 1]
    assert node.tolist() == [0, 1, 2, 3, 5]  # nine leaves of one score: the lowest ids
    assert score.tolist() == pytest.approx([0.15, *[0.85 / 9] * 3, 1.0])
    assert [len(column) for column in ppr(graph, [0], top=0)] == [0, 0, 0]
    assert [len(column) for column in ppr(graph, [])] == [0, 0, 0]


def test_more_seeds_than_are_pushed_at_once(monkeypatch):
    graph = partitioned(TABLES["power law"], 2)
    whole = ppr(graph)
    monkeypatch.setattr("halohop.samplers.ppr._SEEDS_AT_ONCE", 7)
    assert all(torch.equal(a, b) for a, b in zip(ppr(graph), whole, strict=True))


def test_from_disk_and_hosts_as_in_memory(tmp_path):
    halohop.partition(TABLES["power law"], tmp_path / "parts", num_parts=3, method="random")
    reference = ppr(partitioned(TABLES["power law"], 1), top=7)
    with halohop.open(tmp_path / "parts") as graph:
        assert all(torch.equal(a, b) for a, b in zip(ppr(graph, top=7), reference, strict=True))
    with hosts(tmp_path / "parts", [[0, 2], [1]]) as both:
        for graph in both:
            assert all(torch.equal(a, b) for a, b in zip(ppr(graph, top=7), reference, strict=True))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"alpha": 0}, InputError, "alpha=0"),
        ({"alpha": 1.0}, InputError, "alpha=1.0"),
        ({"eps": 0}, InputError, "eps=0"),
        ({"eps": float("nan")}, InputError, "eps=nan"),
        ({"top": -1}, InputError, "top=-1"),
        ({"top": 2.5}, InputError, "top=2.5"),
        ({"seeds": [77]}, IdError, "77"),
        ({"relation": ("a", "to", "b")}, SchemaError, "unknown relation"),
    ],
)
def test_what_cannot_be_ranked(arguments, error, message):
    with pytest.raises(error, match=message):
        ppr(partitioned(graphs.ring(5), 2), **arguments)


@pytest.fixture(scope="module")
def hetero() -> HeteroData:
    torch.manual_seed(2)
    data = HeteroData()
    data["paper"].x, data["author"].num_nodes = torch.randn(60, 4), 40
    data["author", "writes", "paper"].edge_index = torch.stack([torch.randint(40, (150,)), torch.randint(60, (150,))])
    data["paper", "cites", "paper"].edge_index = torch.randint(60, (2, 200))
    return data


def test_one_relation_of_several(hetero):
    cites = Data(edge_index=hetero["paper", "cites", "paper"].edge_index, num_nodes=60)
    found = ppr(hetero, [3, 4], relation=("paper", "cites", "paper"))
    assert all(torch.equal(a, b) for a, b in zip(found, ppr(cites, [3, 4]), strict=True))
    with pytest.raises(SchemaError, match="name the relation"):
        ppr(hetero)
    with pytest.raises(InputError, match="two types"):
        ppr(hetero, relation=("author", "writes", "paper"))
    loader = PPRLoader(hetero, 5, ("paper", [3, 4]), batch_size=2, relation=("paper", "cites", "paper"))
    (batch,) = loader
    assert batch["paper"].n_id[:2].tolist() == [3, 4]
    assert batch["paper"].ppr.shape == batch["paper"].batch.shape
    assert batch["author"].num_nodes == 0
    named = ppr(hetero, ("paper", [3, 4]), relation=("paper", "cites", "paper"))
    assert all(torch.equal(a, b) for a, b in zip(found, named, strict=True))
    (alike,) = PPRLoader(hetero, 5, [3, 4], batch_size=2, relation=("paper", "cites", "paper"))
    assert alike["paper"].n_id.tolist() == batch["paper"].n_id.tolist()
    with pytest.raises(SchemaError, match="of 'author', but nodes of 'paper' are needed"):
        PPRLoader(hetero, 5, "author", relation=("paper", "cites", "paper"))


@pytest.mark.parametrize("name", ["power law", "star", "no edges", "one node"])
@pytest.mark.parametrize("top", [0, 6])
def test_neighbourhoods_are_the_highest_and_all_edges_among_them(name, top):
    tables = TABLES[name]
    expected = None
    for num_parts, shard_each in FEW_DIVISIONS[:2]:
        graph = partitioned(tables, num_parts, seed=num_parts, shard_each=shard_each)
        batches = list(PPRLoader(graph, top, batch_size=7, run="inline"))
        raw = graph.select(None)[1]
        rows = by_seed(ppr(graph), len(raw))
        for batch in batches:
            seeds = raw[batch.input_id].tolist()
            assert batch.n_id[batch.mapping].tolist() == seeds
            checks.check_nodes(tables, batch.n_id, {"x": batch.x, "y": batch.y})
            others = [
                (tree, *entry)
                for tree, at in enumerate(batch.input_id.tolist())
                for entry in [entry for entry in rows[at] if entry[0] != seeds[tree]][:top]
            ]
            assert batch.batch.tolist() == [*range(len(seeds)), *(tree for tree, _, _ in others)]
            assert batch.n_id.tolist() == [*seeds, *(node for _, node, _ in others)]
            own = [dict(rows[at])[seed] for at, seed in zip(batch.input_id.tolist(), seeds, strict=True)]
            assert batch.ppr.tolist() == torch.tensor([*own, *(score for _, _, score in others)]).tolist()
            nodes = list(zip(batch.batch.tolist(), batch.n_id.tolist(), strict=True))
            edges = induced_edges(tables, {NODE: nodes})[EDGE]
            assert list(zip(*batch.edge_index.tolist(), batch.e_id.tolist(), strict=True)) == edges
        told = [(batch.n_id.tolist(), batch.e_id.tolist(), batch.ppr.tolist()) for batch in batches]
        expected = expected or told
        assert told == expected


def test_workers_and_shuffling():
    data = Data(edge_index=torch.randint(80, (2, 300)), num_nodes=80)

    def epoch(**options) -> list[Data]:
        return list(PPRLoader(data, 8, batch_size=16, shuffle=True, seed=3, **options))

    reference = epoch(run="inline")
    for options in ({"run": "threads", "num_workers": 2}, {"run": "processes", "num_workers": 2}):
        for got, expected in zip(epoch(**options), reference, strict=True):
            assert torch.equal(got.n_id, expected.n_id)
            assert torch.equal(got.edge_index, expected.edge_index)
            assert torch.equal(got.ppr, expected.ppr)
    assert list(PPRLoader(data, 3, [1, 1], batch_size=2, transform=lambda batch: batch.mapping.tolist())) == [[0, 1]]


def test_all_nodes_in_reach_make_the_k_hop_subgraph():
    data = Data(edge_index=torch.randint(40, (2, 60)), num_nodes=40)
    options = {"batch_size": 5, "run": "inline"}
    for mine, whole in zip(
        PPRLoader(data, 40, eps=1e-9, **options), SubGraphLoader(data, [-1] * 30, disjoint=True, **options), strict=True
    ):
        for batch in (mine, whole):
            batch.pairs = sorted(zip(batch.batch.tolist(), batch.n_id.tolist(), strict=True))
        assert mine.pairs == whole.pairs
        assert sorted(mine.e_id.tolist()) == sorted(whole.e_id.tolist())


def test_a_block_that_was_made_is_not_written_to(monkeypatch):
    blocks = Discovery.blocks

    def sealed(discovery):
        return {name: replace(block, columns=MappingProxyType(block.columns)) for name, block in blocks(discovery).items()}

    monkeypatch.setattr(Discovery, "blocks", sealed)
    (batch,) = PPRLoader(partitioned(TABLES["ring"], 2), top=2, batch_size=9, run="inline")
    assert batch.ppr.shape == batch.n_id.shape


def test_a_column_of_that_name_is_not_overwritten():
    data = Data(edge_index=torch.tensor([[0], [1]]), ppr=torch.ones(2, 1), num_nodes=2)
    with pytest.raises(InputError, match="rename it"):
        PPRLoader(data, 3)
    for top in (-1, 1.5):
        with pytest.raises(InputError, match=f"top={top}"):
            PPRLoader(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2), top)
