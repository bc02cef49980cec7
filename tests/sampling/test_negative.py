"""Negatives are the oracle's, whatever the partitions; strict ones are no edges; what is excluded is not sampled."""

from dataclasses import replace

import pytest
import torch

from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.sampling.exclusion import SeedEdges, check_reverse
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.negative import Candidates, Negatives
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.requests import FetchRequest, RowQuery
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing import graphs
from halohop.testing.link_oracle import NegativeOracle
from halohop.testing.oracle import Oracle
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, EDGE_ID, NODE, RAW_ID, NodeType, Relation
from tests.support.divisions import DIVISIONS, divided

WRITES = ("author", "writes", "paper")


def with_births(tables: GraphTables) -> GraphTables:
    """Nodes with times from 0 to 19, with ties."""
    generator = torch.Generator().manual_seed(7)
    nodes = {}
    for name, table in tables.nodes.items():
        born = torch.randint(20, (table.num_nodes,), generator=generator)
        nodes[name] = replace(table, columns=table.columns | {"born": born})
    return GraphTables(nodes=nodes, edges=tables.edges)


DENSE = graphs.power_law(12, 20, shuffled_ids=True)  # most pairs are edges
CASES = {
    "dense": (with_births(DENSE), EDGE),
    "typed": (with_births(graphs.typed({"paper": 20, "author": 9}, {WRITES: 300, ("paper", "by", "author"): 30})), WRITES),
}


in_parts = divided({name: tables for name, (tables, _) in CASES.items()})


def raw_ids(graph: Graph, node_type: NodeType, gid: torch.Tensor) -> list[int]:
    return graph.fetch(FetchRequest(queries=(RowQuery(table=node_type, columns=(RAW_ID,), gid=gid),)))[0][0].tolist()


def edges_of(graph: Graph, relation: Relation, edge_ids: list[int], **options) -> LinkSeeds:
    edges = graph.edges(relation)
    ids = torch.tensor(edge_ids, dtype=torch.int64)
    return LinkSeeds(
        relation=relation, src_gid=edges.src_gid[ids], dst_gid=edges.dst_gid[ids], input_id=ids, epoch=1, index=2, **options
    )


def negatives(graph: Graph, relation: Relation, *, time=None, src_weight=None, dst_weight=None, **options) -> Negatives:
    src = Candidates.of(graph, relation[0], weight=src_weight, time=time)
    dst = Candidates.of(graph, relation[2], weight=dst_weight, time=time)
    return Negatives(graph=graph, relation=relation, src=src, dst=dst, seed=5, **options)


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("triplet", "amount"), [(False, 0.5), (False, 1), (False, 2.7), (True, 1), (True, 3)])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", ["plain", "temporal", "weighted"])
def test_negatives_are_the_oracles(name, num_parts, shard_each, triplet, amount, strict, kind):
    tables, relation = CASES[name]
    graph = in_parts(name, num_parts, shard_each)
    options = {"triplet": triplet, "amount": amount, "strict": strict, "time": "born" if kind == "temporal" else None}
    weights = {}
    if kind == "weighted":
        counts = {"src_weight": graph.schema.nodes[relation[0]].count, "dst_weight": graph.schema.nodes[relation[2]].count}
        weights = {end: torch.arange(count, dtype=torch.float64) % 4 + (count > 15) for end, count in counts.items()}
    draw = negatives(graph, relation, **options, **weights)
    oracle = NegativeOracle(tables, relation, seed=5, **options, **{end: of.tolist() for end, of in weights.items()})
    for edge_ids in (free_edges(graph, relation, weights)[:9], free_edges(graph, relation, weights)[3:4], []):
        times = [19 - place % 3 for place in range(len(edge_ids))] if kind == "temporal" else None
        links = edges_of(graph, relation, edge_ids, time=None if times is None else torch.tensor(times, dtype=torch.int64))
        sources = raw_ids(graph, relation[0], links.src_gid)
        got = draw(links)
        num_pos = links.num_pos
        ends = raw_ids(graph, relation[2], got.dst_gid[num_pos:])
        expected = oracle.draw(sources, epoch=1, index=2, times=times)
        assert ends == [destination for _, destination in expected]
        if not triplet:
            assert raw_ids(graph, relation[0], got.src_gid[num_pos:]) == [source for source, _ in expected]
            assert got.label.tolist() == [1.0] * num_pos + [0.0] * len(expected)
        if strict:
            assert not graph.find(((relation, *pairs_of(got)),))[0].counts.any()


def pairs_of(links: LinkSeeds) -> tuple[torch.Tensor, torch.Tensor]:
    num_neg = links.num_neg
    if links.triplet:
        return links.src_gid.repeat_interleave(num_neg // max(links.num_pos, 1)), links.dst_gid[links.num_pos :]
    return links.src_gid[links.num_pos :], links.dst_gid[links.num_pos :]


def free_edges(graph: Graph, relation: Relation, weights: dict[str, torch.Tensor]) -> list[int]:
    """Edges whose source is not joined to (nearly) everybody."""
    edges = graph.edges(relation)
    num_dst = graph.schema.nodes[relation[2]].count
    different = torch.stack([edges.src_gid, edges.dst_gid]).unique(dim=1)[0]
    degree = torch.bincount(different, minlength=graph.schema.nodes[relation[0]].count)
    return edges.edge_id[degree[edges.src_gid] <= num_dst * (0.5 if weights else 0.8)].tolist()


def test_plain_negatives_of_a_dense_graph_do_collide():
    """Otherwise the test of strict ones would show nothing."""
    graph = partitioned(DENSE, 2)
    got = negatives(graph, EDGE, triplet=False, amount=5)(edges_of(graph, EDGE, list(range(50))))
    assert graph.find(((EDGE, *pairs_of(got)),))[0].counts.bool().float().mean() > 0.3


def complete_but(missing: list[tuple[int, int]], num_nodes: int = 40) -> GraphTables:
    """Every pair is an edge, but for a few."""
    pairs = [(src, dst) for src in range(num_nodes) for dst in range(num_nodes) if (src, dst) not in missing]
    src, dst = torch.tensor(pairs).t()
    return GraphTables(nodes={NODE: NodeTable(num_nodes=num_nodes)}, edges={EDGE: EdgeTable(src=src, dst=dst)})


@pytest.mark.parametrize("triplet", [False, True])
def test_the_only_pairs_that_are_no_edges_are_found(triplet):
    missing = [(3, 20), (3, 31)]
    graph = partitioned(complete_but(missing), 3)
    edges = graph.edges(EDGE)
    from_three = edges.edge_id[edges.src_gid == graph.locate(torch.tensor([3]))].tolist()
    got = negatives(graph, EDGE, triplet=triplet, amount=4, strict=True)(edges_of(graph, EDGE, from_three[:5]))
    src_gid, dst_gid = pairs_of(got)
    drawn = set(zip(raw_ids(graph, NODE, src_gid), raw_ids(graph, NODE, dst_gid), strict=True))
    assert drawn == set(missing)


@pytest.mark.parametrize("triplet", [False, True])
def test_who_is_joined_to_everybody_is_told(triplet):
    graph = partitioned(complete_but([(3, 1)] if triplet else [], 6), 2)
    with pytest.raises(InputError, match="edge 0 of the input has no strict negative"):
        negatives(graph, EDGE, triplet=triplet, amount=1, strict=True)(edges_of(graph, EDGE, [0]))


def test_negatives_are_uniform():
    """Chi-square with a fixed seed, 49 degrees of freedom: 85.4 is exceeded once in a thousand."""
    graph = partitioned(graphs.ring(50), 3)
    links = edges_of(graph, EDGE, list(range(100)))
    for strict in (False, True):
        got = negatives(graph, EDGE, triplet=False, amount=100, strict=strict)(links)
        for gid in pairs_of(got):
            seen = torch.bincount(gid, minlength=50).double()
            assert ((seen - 200) ** 2 / 200).sum() < 85.4


def test_negatives_follow_their_weights():
    graph = partitioned(graphs.ring(4), 2)
    weight = torch.tensor([0.0, 1.0, 2.0, 1.0])
    got = negatives(graph, EDGE, triplet=True, amount=1000, dst_weight=weight)(edges_of(graph, EDGE, list(range(8))))
    seen = torch.bincount(torch.tensor(raw_ids(graph, NODE, got.dst_gid[8:])), minlength=4)
    assert seen[0] == 0
    assert ((seen[1:] - torch.tensor([2000, 4000, 2000])).abs() < 200).all()


def test_no_negative_is_later_than_its_edge():
    tables, relation = CASES["typed"]
    graph = partitioned(tables, 3)
    links = edges_of(graph, relation, list(range(60)), time=torch.arange(60) % 12 + 8)
    got = negatives(graph, relation, triplet=False, amount=3, time="born")(links)
    for name, gid in zip((relation[0], relation[2]), pairs_of(got), strict=True):
        born = graph.fetch(FetchRequest(queries=(RowQuery(table=name, columns=("born",), gid=gid),)))[0][0]
        assert (born <= links.time.repeat(3)).all()
    with pytest.raises(InputError, match="is as early as that edge"):
        negatives(graph, relation, triplet=True, amount=1, time="born")(replace(links, time=torch.full((60,), -1)))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(7), r"shape \(7,\)"),
        (-torch.ones(12), "weight -1.0"),
        (torch.zeros(12), "all weights"),
        (torch.full((12,), torch.nan), "nan"),
    ],
)
def test_weights_that_cannot_be_drawn_by(weight, message):
    with pytest.raises(InputError, match=message):
        negatives(partitioned(DENSE, 1), EDGE, triplet=True, amount=1, dst_weight=weight)


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("fanout", [2, -1])
def test_seed_edges_are_not_sampled_and_others_are_in_their_place(num_parts, shard_each, fanout):
    tables = DENSE
    graph = partitioned(tables, num_parts, seed=num_parts, shard_each=shard_each)
    links = SeedEdges(graph=graph, relation=EDGE, reverse=EDGE)(edges_of(graph, EDGE, list(range(4))))
    table = tables.edges[EDGE]
    seeds = {tuple(pair) for pair in torch.stack([table.src[:4], table.dst[:4]]).t().tolist()}
    seeds |= {(dst, src) for src, dst in seeds}
    pairs = zip(table.src.tolist(), table.dst.tolist(), strict=True)
    excluded = [(EDGE, number) for number, pair in enumerate(pairs) if pair in seeds]
    assert len(links.excluded[EDGE]) == len(excluded) > 4
    fanouts = Fanouts.uniform([fanout, fanout], graph.schema)
    batch = NeighborSampler(graph, fanouts).sample(links)
    ids = graph.fetch(FetchRequest(queries=(RowQuery(table=EDGE, columns=(EDGE_ID,), gid=batch.edges[EDGE].gid),)))[0][0]
    ends = (raw_ids(graph, NODE, links.src_gid), raw_ids(graph, NODE, links.dst_gid))
    expected, _ = Oracle(tables, fanouts.per_relation).links(
        EDGE, ends, (range(4), range(4)), epoch=1, index=2, excluded=excluded
    )
    assert ids.tolist() == [number for _, _, number in expected.edges[EDGE]]
    if fanout == 2:  # lists here are long: nobody gets fewer because of what is excluded
        degree = torch.bincount(table.dst, minlength=12) - torch.bincount(
            table.dst[[number for _, number in excluded]], minlength=12
        )
        drawn = torch.bincount(table.dst[ids], minlength=12)
        expanded = drawn > 0
        assert torch.equal(drawn[expanded], degree[expanded].clamp(max=2))


def test_reverse_relations():
    relations = [WRITES, ("paper", "rev_writes", "author"), ("paper", "cites", "paper"), ("author", "reads", "paper")]
    graph = partitioned(graphs.typed({"paper": 5, "author": 5}, dict.fromkeys(relations, 3)), 2)
    assert graph.schema.reverse_of(WRITES) == relations[1]
    assert graph.schema.reverse_of(relations[1]) == WRITES
    assert graph.schema.reverse_of(relations[2]) == relations[2]
    assert graph.schema.reverse_of(relations[3]) is None
    assert check_reverse(graph.schema, relations[3], relations[1]) == relations[1]
    with pytest.raises(SchemaError, match="cannot be the reverse"):
        check_reverse(graph.schema, WRITES, relations[2])


@pytest.mark.parametrize("shard_each", [False, True])
@pytest.mark.parametrize("num_parts", [1, 3])
def test_edges_between_pairs_are_found(num_parts, shard_each):
    """All copies of each, in the user's order, for pairs that occur twice and for none; by the owners of their ends."""
    tables = graphs.power_law(600, 8, seed=4)
    graph = partitioned(tables, num_parts, shard_each=shard_each)
    table = tables.edges[EDGE]
    generator = torch.Generator().manual_seed(2)
    src, dst = torch.randint(600, (2, 2000), generator=generator)
    src[:900], dst[:900] = table.src[:900], table.dst[:900]
    src[900:1000], dst[900:1000] = src[:100].clone(), dst[:100].clone()
    for chosen in (slice(None), slice(5, 6), slice(0)):
        ((answer),) = graph.find(((EDGE, graph.locate(src[chosen]), graph.locate(dst[chosen])),))
        query = RowQuery(table=EDGE, columns=(EDGE_ID,), gid=answer.edge_gid)
        ids = graph.fetch(FetchRequest(queries=(query,)))[0][0].split(answer.counts.tolist())
        pairs = list(zip(src[chosen].tolist(), dst[chosen].tolist(), strict=True))
        expected = [((table.src == one) & (table.dst == other)).nonzero().view(-1).tolist() for one, other in pairs]
        assert [found.tolist() for found in ids][: len(pairs)] == expected


def test_sources_beyond_all_that_are_asked_for_are_no_others():
    """65537 -> 3 is neither 1 -> 3, which has its low bits, nor 0 -> 4, which a number made of both ends would mix it up with."""
    edge = EdgeTable(src=torch.tensor([65537]), dst=torch.tensor([3]))
    graph = partitioned(GraphTables(nodes={NODE: NodeTable(num_nodes=65540)}, edges={EDGE: edge}), 1)
    src, dst = torch.tensor([[65536, 3], [1, 3], [0, 4], [65537, 3]]).t()
    assert graph.find(((EDGE, src[:3], dst[:3]),))[0].counts.tolist() == [0, 0, 0]
    assert graph.find(((EDGE, src, dst),))[0].counts.tolist() == [0, 0, 0, 1]
