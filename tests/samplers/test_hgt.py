"""HGT's sampler is the oracle's, whatever the partitions, and draws by the squares of the budgets."""

from itertools import permutations

import pytest
import torch

from halohop.errors import InputError, SchemaError
from halohop.samplers.hgt import HGTSampler, NumSamples
from halohop.sampling.batch import Seeds
from halohop.sampling.collect import collect
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing import graphs
from halohop.testing.hgt_oracle import HGTOracle
from halohop.testing.oracle import OracleBatch
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE_ID, RAW_ID
from tests.support.divisions import DIVISIONS, divided

GRAPHS = {
    "one_node": graphs.ring(1),
    "star": graphs.star(60),
    "isolated": graphs.isolated(10),
    "multi_edges": graphs.multi_edges(7, 4),
    "power_law": graphs.power_law(80, 8, shuffled_ids=True),
    "typed": graphs.typed(
        {"paper": 50, "author": 35, "lonely": 3, "none": 0},
        {
            ("author", "writes", "paper"): 150,
            ("paper", "cites", "paper"): 200,
            ("paper", "by", "author"): 90,
            ("author", "reads", "paper"): 0,
            ("none", "is", "paper"): 0,
        },
    ),
}


def sampled(graph, samples, node_type, raw, index, **options) -> OracleBatch:
    """What the product makes of it, in the oracle's words."""
    gid = graph.locate(torch.tensor(raw, dtype=torch.int64), node_type)
    seeds = Seeds(node_type=node_type, gid=gid, input_id=torch.arange(len(raw)), epoch=1, index=index)
    batch = collect(graph, HGTSampler(graph, samples, **options).sample(seeds))
    return OracleBatch(
        nodes={name: block.columns[RAW_ID].tolist() for name, block in batch.nodes.items()},
        edges={
            relation: list(zip(*block.ends_bid.tolist(), block.columns[EDGE_ID].tolist(), strict=True))
            for relation, block in batch.edges.items()
        },
        num_sampled_nodes={name: list(block.num_sampled) for name, block in batch.nodes.items()},
        num_sampled_edges={relation: block.num_sampled for relation, block in batch.edges.items()},
    )


in_parts = divided(GRAPHS)


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("numbers", "max_neighbors"), [([4, 0, 6], -1), ([20, 20], 2), ([], -1)])
def test_batches_are_the_oracles(name, num_parts, shard_each, numbers, max_neighbors):
    tables, graph = GRAPHS[name], in_parts(name, num_parts, shard_each)
    samples = NumSamples.uniform(numbers, graph.schema)
    oracle = HGTOracle(tables, samples.per_type, seed=5, max_neighbors=max_neighbors)
    node_type = next(iter(tables.nodes))
    raw = graph.select(None, node_type)[1].tolist()
    for index, ids in enumerate([raw[:6], raw[-1:], [*raw[:2], *raw[:1]], [], raw[:30]]):
        got = sampled(graph, samples, node_type, ids, index, seed=5, max_neighbors=max_neighbors)
        assert got == oracle.batch(node_type, ids, epoch=1, index=index)


def test_every_type_has_numbers_of_its_own():
    tables, numbers = GRAPHS["typed"], {"none": [1, 1], "paper": [3, 0], "author": [0, 5], "lonely": [2, 2]}
    graph = partitioned(tables, 3)
    samples = NumSamples.by_type(numbers, graph.schema)
    raw = graph.select(None, "author")[1][:9].tolist()
    got = sampled(graph, samples, "author", raw, 0)
    assert got == HGTOracle(tables, numbers).batch("author", raw, epoch=1, index=0)
    assert got.num_sampled_nodes == {"paper": [0, 3, 0], "author": [9, 0, 5], "lonely": [0, 0, 0], "none": [0, 0, 0]}


def test_types_that_are_not_drawn_from_are_not_asked_about(monkeypatch):
    graph = partitioned(GRAPHS["typed"], 2)
    asked, ask = [], graph.sample
    monkeypatch.setattr(graph, "sample", lambda request: asked.append([q.relation[1] for q in request.queries]) or ask(request))
    samples = NumSamples.by_type({"paper": [4, 4], "author": [3, 0], "lonely": [0, 0], "none": [0, 0]}, graph.schema)
    sampled(graph, samples, "paper", graph.select(None, "paper")[1][:5].tolist(), 0)
    assert asked[:2] == [["writes", "cites", "reads"], ["cites", "by"]]


def budgets() -> GraphTables:
    """Seeds 0 and 1; the budgets of the nodes 2, 3 and 4 are 1/4, 1/4 + 1/2 and 1/2 + 1/2 (two edges of the four)."""
    src = torch.tensor([2, 3, 4, 4, 3, 4])
    dst = torch.tensor([0, 0, 0, 0, 1, 1])
    edges = {("node", "to", "node"): EdgeTable(src=src, dst=dst)}
    return GraphTables(nodes={"node": NodeTable(num_nodes=5)}, edges=edges)


def test_draws_go_by_the_squares_of_the_budgets():
    """All orders of two out of three: chi-square with 5 degrees of freedom, at 0.1 %."""
    graph = partitioned(budgets(), 2)
    samples, runs = NumSamples.uniform([2], graph.schema), 1500
    weight = {2: 1 / 16, 3: 9 / 16, 4: 1.0}
    sampler = HGTSampler(graph, samples)
    gid = graph.locate(torch.tensor([0, 1]))
    raw_of = {int(g): raw for g, raw in zip(*graph.select(), strict=True)}
    seen = dict.fromkeys(permutations(weight, 2), 0)
    for index in range(runs):
        seeds = Seeds(node_type="node", gid=gid, input_id=torch.arange(2), epoch=0, index=index)
        seen[tuple(int(raw_of[g]) for g in sampler.sample(seeds).nodes["node"].gid[2:].tolist())] += 1
    total, chi = sum(weight.values()), 0.0
    for (first, second), count in seen.items():
        expected = runs * weight[first] / total * weight[second] / (total - weight[first])
        chi += (count - expected) ** 2 / expected
    assert chi < 20.5


def test_draws_differ_by_seed_epoch_and_batch():
    graph = partitioned(GRAPHS["power_law"], 1)
    samples = NumSamples.uniform([10], graph.schema)
    gid = graph.select()[0][:20]
    batches = set()
    for seed in (0, 1):
        for epoch in (0, 1):
            for index in (0, 1):
                seeds = Seeds(node_type="node", gid=gid, input_id=torch.arange(20), epoch=epoch, index=index)
                batches.add(tuple(HGTSampler(graph, samples, seed=seed).sample(seeds).nodes["node"].gid.tolist()))
    assert len(batches) == 8


@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ({"paper": [1], "author": [1, 2], "lonely": [1], "none": [1]}, InputError, "same number of hops"),
        ({"paper": [1]}, InputError, r"no num_samples for \['author', 'lonely', 'none'\]"),
        ({"venue": [1]}, SchemaError, "venue"),
        ({name: [-1] for name in GRAPHS["typed"].nodes}, InputError, "'paper' has -1"),
        ({name: [True] for name in GRAPHS["typed"].nodes}, InputError, "True"),
        ({name: [1.5] for name in GRAPHS["typed"].nodes}, InputError, r"1\.5"),
    ],
)
def test_numbers_that_cannot_be_are_refused(numbers, error, message):
    schema = partitioned(GRAPHS["typed"], 1).schema
    with pytest.raises(error, match=message):
        NumSamples.by_type(numbers, schema)


def test_a_limit_that_cannot_be_is_refused():
    graph = partitioned(GRAPHS["star"], 1)
    with pytest.raises(InputError, match="max_neighbors=0"):
        HGTSampler(graph, NumSamples.uniform([1], graph.schema), max_neighbors=0)
