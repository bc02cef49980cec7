"""Link tasks: whatever the partitions, a batch around edges is the oracle's."""

import pytest
import torch

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.sampling.collect import collect
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.draw import Rules
from halohop.testing import graphs
from halohop.testing.oracle import Oracle, OracleBatch
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, EDGE_ID, RAW_ID, Relation
from tests.support.divisions import DIVISIONS, divided

WRITES = ("author", "writes", "paper")
CITES = ("paper", "cites", "paper")

TYPED = graphs.typed({"paper": 40, "author": 25, "lonely": 3}, {WRITES: 120, CITES: 200, ("paper", "by", "author"): 90})
POWER_LAW = graphs.power_law(80, 11, shuffled_ids=True)
CASES = {"homogeneous": (POWER_LAW, EDGE), "two types": (TYPED, WRITES), "one of two types": (TYPED, CITES)}


def told(graph: Graph, seeds: LinkSeeds, fanouts: Fanouts, rules: Rules) -> tuple[OracleBatch, list[list[int]]]:
    """What the product makes of it, in the oracle's words."""
    batch = collect(graph, NeighborSampler(graph, fanouts, rules=rules).sample(seeds))
    disjoint = rules.disjoint
    got = OracleBatch(
        nodes={name: block.columns[RAW_ID].tolist() for name, block in batch.nodes.items()},
        edges={
            relation: list(zip(*block.ends_bid.tolist(), block.columns[EDGE_ID].tolist(), strict=True))
            for relation, block in batch.edges.items()
        },
        num_sampled_nodes={name: list(block.num_sampled) for name, block in batch.nodes.items()},
        num_sampled_edges={relation: list(block.num_sampled) for relation, block in batch.edges.items()},
        trees={name: block.tree.tolist() for name, block in batch.nodes.items()} if disjoint else None,
    )
    return got, [bids.tolist() for bids in batch.ends_bid]


in_parts = divided({name: tables for name, (tables, _) in CASES.items()}, halo=("raw_id",))


def some_ends(graph: Graph, relation: Relation, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Raw ids of sources and destinations; with many of them some occur twice."""
    generator = torch.Generator().manual_seed(count)
    raws = [graph.select(None, name)[1] for name in (relation[0], relation[2])]
    src, dst = (raw[torch.randint(len(raw), (count,), generator=generator)] for raw in raws)
    return src, dst


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "rules",
    [
        *(Rules(), Rules(disjoint=True), Rules(expand="all"), Rules(weight="weight"), Rules(time="time", disjoint=True)),
        *(Rules(labor=True), Rules(labor=True, time="time", disjoint=True)),
    ],
    ids=str,
)
def test_batches_around_edges_are_the_oracles(name, num_parts, shard_each, rules):
    tables, relation = CASES[name]
    graph = in_parts(name, num_parts, shard_each)
    fanouts = Fanouts.uniform([3, 2], graph.schema)
    oracle = Oracle(tables, fanouts.per_relation, rules=rules)
    for index, (num_pos, num_neg, triplet) in enumerate(
        [(9, 0, False), (7, 10, False), (6, 12, True), (1, 0, False), (0, 0, True)]
    ):
        num_src = num_pos if triplet else num_pos + num_neg
        src, dst = some_ends(graph, relation, num_pos + num_neg)
        src = src[:num_src]
        times = [13 * place % 90 for place in range(num_pos)] if rules.time else None
        seeds = LinkSeeds(
            relation=relation,
            src_gid=graph.locate(src, relation[0]),
            dst_gid=graph.locate(dst, relation[2]),
            input_id=torch.arange(num_pos),
            epoch=1,
            index=index,
            triplet=triplet,
            time=None if times is None else torch.tensor(times, dtype=torch.int64),
        )
        of_src = [place % max(num_pos, 1) for place in range(num_src)]
        of_dst = [place if place < num_pos else (place - num_pos) // 2 for place in range(len(dst))] if triplet else of_src
        expected = oracle.links(relation, (src.tolist(), dst.tolist()), (of_src, of_dst), epoch=1, index=index, times=times)
        assert told(graph, seeds, fanouts, rules) == expected


def test_ends_and_negatives_of_an_edge_are_one_tree():
    assert ops.link_trees(3, 4, triplet=False).tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert ops.link_trees(2, 4, triplet=True).tolist() == [0, 1, 0, 0, 1, 1]
    assert ops.link_trees(0, 0, triplet=True).tolist() == []


@pytest.mark.parametrize("shard_each", [False, True])
@pytest.mark.parametrize("num_parts", [1, 3, 8])
def test_all_edges_come_in_the_users_order(num_parts, shard_each):
    graph = partitioned(TYPED, num_parts, shard_each=shard_each)
    for relation, table in TYPED.edges.items():
        edges = graph.edges(relation)
        assert edges.edge_id.tolist() == list(range(table.num_edges))
        for name, gid, row in ((relation[0], edges.src_gid, table.src), (relation[2], edges.dst_gid, table.dst)):
            assert torch.equal(gid, graph.locate(TYPED.nodes[name].raw_id[row.long()], name))
