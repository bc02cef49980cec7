"""Induced and bidirectional subgraphs are the oracle's, whatever the partitions, hosts and slices."""

from dataclasses import replace

import pytest
import torch

from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.sampling import subgraph
from halohop.sampling.batch import Batch, Seeds
from halohop.sampling.collect import collect
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.neighbor import NeighborSampler
from halohop.sampling.subgraph import partners_of
from halohop.store.draw import Rules
from halohop.store.schema import ColumnSpec, Schema, TableSpec
from halohop.store.tables import EdgeTable, GraphTables
from halohop.testing import graphs
from halohop.testing.oracle import Oracle, OracleBatch
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, EDGE_ID, NODE, RAW_ID
from tests.support.divisions import DIVISIONS, divided

GRAPHS = {
    "ring": graphs.ring(30),
    "star": graphs.star(39),
    "isolated": graphs.isolated(10),
    "multi_edges": graphs.multi_edges(7, 4),
    "power_law": graphs.power_law(80, 11, shuffled_ids=True),
    "typed": graphs.typed(
        {"paper": 40, "author": 25, "lonely": 3, "none": 0},
        {
            ("author", "writes", "paper"): 120,
            ("paper", "cites", "paper"): 200,
            ("paper", "by", "author"): 90,
            ("author", "reads", "paper"): 0,
            ("none", "is", "paper"): 0,
        },
    ),
}

TWO_WAYS = graphs.typed(
    {"paper": 40, "author": 25, "none": 0},
    {
        ("author", "rev_by", "paper"): 70,
        ("paper", "by", "author"): 90,
        ("paper", "cites", "paper"): 120,
        ("author", "knows", "author"): 60,
        ("author", "rev_knows", "author"): 0,
        ("none", "in", "paper"): 0,
        ("paper", "rev_in", "none"): 0,
    },
)


def self_loops() -> GraphTables:
    """Three nodes with loops, one of them twice, and an edge between two of them both ways."""
    ring = graphs.ring(5)
    ends = EdgeTable(src=torch.tensor([0, 0, 1, 1, 0, 3]), dst=torch.tensor([0, 0, 1, 0, 1, 3]))
    return GraphTables(nodes=ring.nodes, edges={EDGE: ends})


GRAPHS["self_loops"] = self_loops()


def weighed(tables: GraphTables) -> GraphTables:
    """With weights of which a third are zero, and times."""
    edges = {}
    for relation, table in tables.edges.items():
        number = torch.arange(table.num_edges)
        edges[relation] = replace(table, columns=table.columns | {"weight": (number % 3).float(), "when": number * 7 % 20})
    return replace(tables, edges=edges)


def sampled(
    graph: Graph,
    fanouts: Fanouts,
    node_type: str,
    raw: list[int],
    index: int,
    rules: Rules,
    times: list[int] | None = None,
) -> tuple[OracleBatch, Batch]:
    """What the product makes of it, also in the oracle's words."""
    seeds = Seeds(
        node_type=node_type,
        gid=graph.locate(torch.tensor(raw, dtype=torch.int64), node_type),
        input_id=torch.arange(len(raw)),
        epoch=1,
        index=index,
        time=None if times is None else torch.tensor(times, dtype=torch.int64),
    )
    batch = collect(graph, NeighborSampler(graph, fanouts, rules=rules).sample(seeds))
    told = OracleBatch(
        nodes={name: block.columns[RAW_ID].tolist() for name, block in batch.nodes.items()},
        edges={
            relation: list(zip(*block.ends_bid.tolist(), block.columns[EDGE_ID].tolist(), strict=True))
            for relation, block in batch.edges.items()
        },
        num_sampled_nodes={name: list(block.num_sampled) for name, block in batch.nodes.items()},
        num_sampled_edges={relation: block.num_sampled for relation, block in batch.edges.items()},
        trees={name: block.tree.tolist() for name, block in batch.nodes.items()} if rules.disjoint else None,
    )
    return told, batch


CHECKED = GRAPHS | {"two_ways": TWO_WAYS} | {f"weighed {name}": weighed(GRAPHS[name]) for name in ("power_law", "typed")}
in_parts = divided(CHECKED)


def check(name: str, num_parts: int, shard_each: bool, fanout: list[int], rules: Rules, times: bool = False) -> int:
    """Compares batches with the oracle's; returns how many edges were seen."""
    tables, graph = CHECKED[name], in_parts(name, num_parts, shard_each)
    fanouts = Fanouts.uniform(fanout, graph.schema)
    oracle = Oracle(tables, fanouts.per_relation, rules=rules)
    node_type = next(iter(tables.nodes))
    _, raw = graph.select(None, node_type)
    seen = 0
    for index, seeds in enumerate([raw[:6], raw[-1:], raw[[4, 2, 4, 4]], raw[:0], raw[:30]]):
        ids = seeds.tolist()
        when = [7 * place % 23 - 1 for place in range(len(ids))] if times else None
        got, _ = sampled(graph, fanouts, node_type, ids, index, rules, when)
        assert got == oracle.batch(node_type, ids, epoch=1, index=index, times=when)
        seen += sum(map(len, got.edges.values()))
    return seen


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(
    ("fanout", "rules"),
    [
        ([2, 2], Rules(subgraph="induced")),
        ([3, 2], Rules(subgraph="induced", disjoint=True, replace=True, expand="all")),
        ([], Rules(subgraph="induced")),
    ],
    ids=str,
)
def test_induced_edges_are_all_edges_among_the_nodes(name, num_parts, shard_each, fanout, rules):
    check(name, num_parts, shard_each, fanout, rules)


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("name", ["ring", "star", "isolated", "multi_edges", "power_law", "two_ways", "self_loops"])
@pytest.mark.parametrize(
    ("fanout", "rules"),
    [
        ([2, 2], Rules(subgraph="bidirectional")),
        ([3, 2], Rules(subgraph="bidirectional", disjoint=True, replace=True, expand="all")),
        ([], Rules(subgraph="bidirectional")),
    ],
    ids=str,
)
def test_bidirectional_edges_are_the_drawn_ones_and_their_flips(name, num_parts, shard_each, fanout, rules):
    check(name, num_parts, shard_each, fanout, rules)


@pytest.mark.parametrize("num_parts", [1, 3])
def test_weights_steer_the_nodes_not_the_induced_edges(num_parts):
    """Asking for the induced edges by weight would lose those of weight 0."""
    for name in ("power_law", "typed"):
        assert check(f"weighed {name}", num_parts, True, [2, 2], Rules(subgraph="induced", weight="weight")) > 0
    rules = Rules(subgraph="bidirectional", time="when", disjoint=True)
    assert check("weighed power_law", num_parts, True, [3, 3], rules, times=True) > 0


@pytest.mark.parametrize("shard_each", [False, True])
@pytest.mark.full
def test_slices_change_nothing(monkeypatch, shard_each):
    """Slices of all lengths, down to single nodes with lists over the bound."""
    monkeypatch.setattr(subgraph, "_FIRST_SLICE", 3)
    for bound in (1, 40, 10**6):
        monkeypatch.setattr(subgraph, "_EDGES_PER_SLICE", bound)
        for name in ("power_law", "typed", "isolated"):
            for disjoint in (False, True):
                check(name, 3, shard_each, [3, 3], Rules(subgraph="induced", disjoint=disjoint))


def test_few_requests_for_many_nodes(monkeypatch):
    """One request a slice with all relations in it; slices grow."""
    monkeypatch.setattr(subgraph, "_FIRST_SLICE", 4)
    graph = partitioned(GRAPHS["typed"], 2)
    asked = []
    ask = graph.sample
    monkeypatch.setattr(graph, "sample", lambda request: asked.append(len(request.queries)) or ask(request))
    raw = graph.select(None, "paper")[1].tolist()
    sampled(graph, Fanouts.uniform([], graph.schema), "paper", raw, 0, Rules(subgraph="induced"))
    assert len(raw) == 40
    assert asked == [4, 4, 4]  # of 4, 16 and 64 nodes; relations into other types have nobody to ask about


def test_flips_bring_the_rows_of_their_originals():
    graph = partitioned(TWO_WAYS, 3, shard_each=True)
    raw = graph.select(None, "paper")[1][:12].tolist()
    fanouts = Fanouts.uniform([3, 3], graph.schema)
    got, batch = sampled(graph, fanouts, "paper", raw, 0, Rules(subgraph="bidirectional"))
    flips, partners = 0, partners_of(graph.schema)
    for relation, edges in got.edges.items():
        src, _, dst = relation
        for place, (source, destination, number) in enumerate(edges):
            assert batch.edges[relation].columns["edge_attr"][place].item() == number
            ends = got.nodes[src][source], got.nodes[dst][destination]
            if ends == raw_ends(relation, number):
                continue
            flips += 1
            assert ends[::-1] == raw_ends(partners[relation], number)
    assert flips > 20
    edges = {(source, destination) for source, destination, _ in got.edges["paper", "by", "author"]}
    assert edges == {(source, destination) for destination, source, _ in got.edges["author", "rev_by", "paper"]}


def raw_ends(relation, number):
    table = TWO_WAYS.edges[relation]
    if number >= table.num_edges:
        return None
    ends = zip((relation[0], relation[2]), (table.src, table.dst), strict=True)
    return tuple(TWO_WAYS.nodes[name].raw_id[rows[number]].item() for name, rows in ends)


def schema_of(*relations, **columns) -> Schema:
    spec = ColumnSpec(dtype="float32", shape=())
    edges = {relation: TableSpec(count=0, columns=dict.fromkeys(columns.get(relation[1], ()), spec)) for relation in relations}
    return Schema(nodes={name: TableSpec(count=0, columns={}) for name in "ab"}, edges=edges)


def test_partners():
    to, back, own, own_back = ("a", "to", "b"), ("b", "rev_to", "a"), ("a", "is", "a"), ("a", "rev_is", "a")
    assert partners_of(schema_of(back, to)) == {back: to, to: back}
    assert partners_of(schema_of(own)) == {own: own}
    assert partners_of(schema_of(own_back, own)) == {own: own_back, own_back: own}
    twice = ("a", "rev_rev_to", "b")
    assert schema_of(back, twice, to).reverse_of(back) == to  # in any order: "to" comes before "rev_rev_to"
    assert schema_of(back, twice, to).reverse_of(twice) is None
    other = ("b", "of", "a")
    assert partners_of(schema_of(to, other)) == {to: other, other: to}  # the only ones there and back
    for lonely in ([to], [to, other, ("b", "by", "a")], [to, ("a", "too", "b"), other], [back], [own, to]):
        with pytest.raises(InputError, match="ToUndirected"):
            partners_of(schema_of(*lonely))
    with pytest.raises(SchemaError, match=r"columns differ: \[\] and \['w'\]"):
        partners_of(schema_of(back, to, to=["w"]))


def test_relations_without_partners_are_refused():
    graph = partitioned(GRAPHS["typed"], 1)
    with pytest.raises(InputError, match="rev_writes"):
        NeighborSampler(graph, Fanouts.uniform([1], graph.schema), rules=Rules(subgraph="bidirectional"))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"subgraph": "inducted"}, "'inducted' is none of"),
        ({"subgraph": "induced", "time": "when", "disjoint": True}, "edges of any time"),
    ],
)
def test_rules_that_cannot_be_are_refused(rules, message):
    with pytest.raises(InputError, match=message):
        Rules(**rules)


def test_duplicate_seeds_have_their_edges_each():
    """Destinations at both positions, sources at the first, as in drawn subgraphs."""
    graph = partitioned(graphs.ring(5), 2)
    no_hops = Fanouts.uniform([], graph.schema)
    for disjoint, edges in ((False, [(1, 0, 0), (1, 2, 0)]), (True, [])):
        got, _ = sampled(graph, no_hops, NODE, [1, 0, 1], 0, Rules(subgraph="induced", disjoint=disjoint))
        assert got.edges[EDGE] == edges


@pytest.mark.parametrize("shard_each", [False, True])
def test_what_a_link_task_predicts_does_not_come_back_with_the_induced_edges(shard_each):
    graph = partitioned(graphs.ring(12), 3, shard_each=shard_each)
    rules, fanouts = Rules(subgraph="induced"), Fanouts.uniform([-1], graph.schema)
    gid = graph.locate(torch.tensor([3, 4]))
    plain = LinkSeeds(relation=EDGE, src_gid=gid[:1], dst_gid=gid[1:], input_id=torch.arange(1), epoch=0, index=0)
    block = collect(graph, NeighborSampler(graph, fanouts, rules=rules).sample(plain)).edges[EDGE]
    assert 3 in block.columns[EDGE_ID]  # edge 3 goes from 3 to 4
    seeds = replace(plain, excluded={EDGE: block.gid[block.columns[EDGE_ID] == 3]})
    without = collect(graph, NeighborSampler(graph, fanouts, rules=rules).sample(seeds)).edges[EDGE]
    assert sorted(without.columns[EDGE_ID].tolist()) == sorted(set(block.columns[EDGE_ID].tolist()) - {3})
