"""One seed, one batch: whatever the partitions, the expansion and the fanouts, it is the oracle's."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from halohop.cluster.graph import Graph
from halohop.sampling.batch import Seeds
from halohop.sampling.collect import collect
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing.oracle import Oracle, OracleBatch
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, EDGE_ID, NODE, RAW_ID


def homogeneous(num_nodes: int, src: torch.Tensor, dst: torch.Tensor, **options) -> GraphTables:
    columns = {"x": torch.randn(num_nodes, 2), "y": torch.arange(num_nodes)}
    edges = EdgeTable(src=src, dst=dst, columns={"w": torch.rand(len(src))})
    return GraphTables(nodes={NODE: NodeTable(num_nodes=num_nodes, columns=columns, **options)}, edges={EDGE: edges})


def ring() -> GraphTables:
    nodes = torch.arange(30)
    return homogeneous(30, nodes.repeat(2), torch.cat([(nodes + 1) % 30, (nodes + 2) % 30]))


def star() -> GraphTables:
    """Node 0 hears everybody, nobody hears anybody else; nodes 40 to 49 are isolated."""
    return homogeneous(50, torch.arange(1, 40), torch.zeros(39, dtype=torch.int64))


def power_law() -> GraphTables:
    """Few nodes with many edges, double edges and self loops among them; large and unsorted raw ids."""
    generator = torch.Generator().manual_seed(3)
    ends = (torch.rand(2, 900, generator=generator) ** 3 * 80).long()
    raw_id = torch.randperm(80, generator=generator) * 7 + 2**33
    return homogeneous(80, ends[0], ends[1], raw_id=raw_id)


def typed() -> GraphTables:
    generator = torch.Generator().manual_seed(4)

    def edges(num_src: int, num_dst: int, count: int) -> EdgeTable:
        src, dst = (torch.randint(num, (count,), generator=generator) for num in (num_src, num_dst))
        return EdgeTable(src=src, dst=dst, columns={"time": torch.arange(count)})

    return GraphTables(
        nodes={
            "paper": NodeTable(num_nodes=40, columns={"x": torch.randn(40, 3)}),
            "author": NodeTable(num_nodes=25, columns={"name": torch.arange(25)}),
            "lonely": NodeTable(num_nodes=3),
            "none": NodeTable(num_nodes=0),
        },
        edges={
            ("author", "writes", "paper"): edges(25, 40, 120),
            ("paper", "cites", "paper"): edges(40, 40, 200),
            ("paper", "by", "author"): edges(40, 25, 90),
            ("author", "reads", "paper"): edges(25, 40, 0),
            ("none", "is", "paper"): edges(1, 1, 0),
        },
    )


GRAPHS = {"ring": ring, "star": star, "power_law": power_law, "typed": typed}


def sampled(graph: Graph, fanouts: Fanouts, node_type: str, raw: list[int], epoch: int, index: int, **options) -> OracleBatch:
    """What the product makes of it, with its columns checked against the ids, in the oracle's words."""
    ids = torch.tensor(raw, dtype=torch.int64)
    seeds = Seeds(
        node_type=node_type, gid=graph.locate(ids, node_type), input_id=torch.arange(len(raw)), epoch=epoch, index=index
    )
    batch = collect(graph, NeighborSampler(graph, fanouts, **options).sample(seeds))
    return OracleBatch(
        nodes={name: block.columns[RAW_ID].tolist() for name, block in batch.nodes.items()},
        edges={
            relation: list(zip(block.src_bid.tolist(), block.dst_bid.tolist(), block.columns[EDGE_ID].tolist(), strict=True))
            for relation, block in batch.edges.items()
        },
        num_sampled_nodes={name: list(block.num_sampled) for name, block in batch.nodes.items()},
        num_sampled_edges={relation: list(block.num_sampled) for relation, block in batch.edges.items()},
    )


@pytest.mark.parametrize("num_parts", [1, 2, 3, 8])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(
    ("fanout", "options"),
    [
        ([2, 2], {}),
        ([3, 2, 1], {"expand": "all"}),
        ([2, 2], {"replace": True}),
        ([-1, 1], {"seed": 2**63}),
        ([0], {}),
        ([100, 0, 2], {"seed": -1}),
        ([], {}),
    ],
)
def test_batches_are_the_oracles(name, num_parts, fanout, options):
    tables = GRAPHS[name]()
    graph = partitioned(tables, num_parts, seed=num_parts)
    node_type = next(iter(tables.nodes))
    fanouts = Fanouts.uniform(fanout, graph.schema)
    oracle = Oracle(tables, fanouts.per_relation, **options)
    _, raw = graph.select(None, node_type)
    for index, seeds in enumerate([raw[:6], raw[-1:], raw[[4, 2, 4, 4]], raw[:0], raw]):
        ids = seeds.tolist()
        got = sampled(graph, fanouts, node_type, ids, 1, index, **options)
        assert got == oracle.batch(node_type, ids, epoch=1, index=index)


def test_relations_have_their_own_fanouts():
    tables = typed()
    per_relation = dict.fromkeys(tables.edges, (1, 0)) | {("paper", "by", "author"): (0, -1)}
    graph = partitioned(tables, 3)
    fanouts = Fanouts.by_relation(per_relation, graph.schema)
    got = sampled(graph, fanouts, "paper", [0, 1, 2], 0, 0)
    assert got == Oracle(tables, per_relation).batch("paper", [0, 1, 2], epoch=0, index=0)
    assert got.num_sampled_edges["paper", "by", "author"][1] > 0


def test_columns_are_those_of_the_ids():
    tables = power_law()
    graph = partitioned(tables, 3)
    seeds = Seeds(node_type=NODE, gid=torch.arange(20), input_id=torch.arange(20), epoch=0, index=0)
    batch = collect(graph, NeighborSampler(graph, Fanouts.uniform([3, 3], graph.schema)).sample(seeds))
    row_of = {raw: row for row, raw in enumerate(tables.nodes[NODE].raw_id.tolist())}
    rows = [row_of[raw] for raw in batch.nodes[NODE].columns[RAW_ID].tolist()]
    assert torch.equal(batch.nodes[NODE].columns["x"], tables.nodes[NODE].columns["x"][rows])
    edge_id = batch.edges[EDGE].columns[EDGE_ID]
    assert torch.equal(batch.edges[EDGE].columns["w"], tables.edges[EDGE].columns["w"][edge_id])


def test_one_sampler_serves_many_threads():
    tables = power_law()
    graph = partitioned(tables, 2)
    sampler = NeighborSampler(graph, Fanouts.uniform([4, 4, 4], graph.schema))

    def nodes(index: int) -> list[int]:
        gid = torch.arange(index % 60, index % 60 + 20)
        seeds = Seeds(node_type=NODE, gid=gid, input_id=gid, epoch=0, index=index)
        return sampler.sample(seeds).nodes[NODE].gid.tolist()

    alone = [nodes(index) for index in range(60)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(nodes, range(60))) == alone


def test_draws_differ_by_seed_epoch_batch_and_hop():
    graph = partitioned(star(), 2)
    fanouts = Fanouts.uniform([3], graph.schema)

    def drawn(epoch: int, index: int, seed: int) -> tuple[int, ...]:
        return tuple(sampled(graph, fanouts, NODE, [0], epoch, index, seed=seed).nodes[NODE][1:])

    assert len({drawn(epoch, index, seed) for epoch in (0, 1) for index in (0, 1) for seed in (0, 1)}) == 8
    again = Fanouts.uniform([3, 3], graph.schema)
    edges = sampled(graph, again, NODE, [0], 0, 0, expand="all").edges[EDGE]
    assert edges[:3] != edges[3:]
