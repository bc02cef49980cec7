"""One seed, one batch: whatever the partitions, the expansion and the fanouts, it is the oracle's."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from halohop import load_source
from halohop.cluster.graph import Graph, local_graph
from halohop.errors import InputError, SchemaError
from halohop.partitioning.building.build import build_parts
from halohop.sampling.batch import Seeds
from halohop.sampling.collect import collect
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.draw import Rules
from halohop.store.requests import RowQuery
from halohop.store.tables import EdgeTable, GraphTables
from halohop.testing import checks, graphs
from halohop.testing.oracle import Oracle, OracleBatch
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, EDGE_ID, NODE, RAW_ID
from tests.support.divisions import DIVISIONS, divided

RELATIONS = {
    ("author", "writes", "paper"): 120,
    ("paper", "cites", "paper"): 200,
    ("paper", "by", "author"): 90,
    ("author", "reads", "paper"): 0,
    ("none", "is", "paper"): 0,
}

GRAPHS = {
    "ring": graphs.ring(30),
    "star": graphs.star(39),
    "outward_star": graphs.star(39, outward=True),
    "isolated": graphs.isolated(10),
    "multi_edges": graphs.multi_edges(7, 4),
    "power_law": graphs.power_law(80, 11, shuffled_ids=True),
    "typed": graphs.typed({"paper": 40, "author": 25, "lonely": 3, "none": 0}, RELATIONS),
}


def with_weights_and_times(tables: GraphTables) -> GraphTables:
    """Weights with zeros, times with ties: of the edges of every relation but the second one, and of every node."""
    generator = torch.Generator().manual_seed(3)

    def times(count: int) -> torch.Tensor:
        return torch.randint(20, (count,), generator=generator)

    nodes = {
        name: replace(table, columns=table.columns | {"seen": times(table.num_nodes)}) for name, table in tables.nodes.items()
    }
    edges = dict(tables.edges)
    for relation, table in list(edges.items())[:1] + list(edges.items())[2:]:
        weights = torch.rand(table.num_edges, generator=generator) * (torch.arange(table.num_edges) % 3)
        edges[relation] = replace(table, columns=table.columns | {"weight": weights, "when": times(table.num_edges)})
    return GraphTables(nodes=nodes, edges=edges)


WEIGHED = {name: with_weights_and_times(GRAPHS[name]) for name in ("multi_edges", "power_law", "typed", "isolated")}

in_parts, weighed_in_parts = divided(GRAPHS, halo=("raw_id",)), divided(WEIGHED, halo=("seen", "raw_id"))


def sampled(
    graph: Graph,
    fanouts: Fanouts,
    node_type: str,
    raw: list[int],
    epoch: int,
    index: int,
    times: list[int] | None = None,
    **options,
) -> OracleBatch:
    """What the product makes of it, with its columns checked against the ids, in the oracle's words."""
    ids = torch.tensor(raw, dtype=torch.int64)
    seeds = Seeds(
        node_type=node_type,
        gid=graph.locate(ids, node_type),
        input_id=torch.arange(len(raw)),
        epoch=epoch,
        index=index,
        time=None if times is None else torch.tensor(times, dtype=torch.int64),
    )
    batch = collect(graph, NeighborSampler(graph, fanouts, **options).sample(seeds))
    return OracleBatch(
        nodes={name: block.columns[RAW_ID].tolist() for name, block in batch.nodes.items()},
        edges={
            relation: list(zip(*block.ends_bid.tolist(), block.columns[EDGE_ID].tolist(), strict=True))
            for relation, block in batch.edges.items()
        },
        num_sampled_nodes={name: list(block.num_sampled) for name, block in batch.nodes.items()},
        num_sampled_edges={relation: list(block.num_sampled) for relation, block in batch.edges.items()},
        trees=None if batch.nodes[node_type].tree is None else {name: b.tree.tolist() for name, b in batch.nodes.items()},
    )


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(
    ("fanout", "options"),
    [
        ([2, 2], {}),
        ([3, 2, 1], {"rules": Rules(expand="all")}),
        ([2, 2], {"rules": Rules(replace=True)}),
        ([2, 2], {"rules": Rules(disjoint=True)}),
        ([-1, 1], {"seed": 2**63}),
        ([0], {}),
        ([100, 0, 2], {"seed": -1}),
        ([], {}),
        ([2, 2], {"rules": Rules(labor=True)}),
        ([3, 2, 1], {"rules": Rules(labor=True, layer_dependency=True, expand="all")}),
    ],
)
def test_batches_are_the_oracles(name, num_parts, shard_each, fanout, options):
    tables, graph = GRAPHS[name], in_parts(name, num_parts, shard_each)
    node_type = next(iter(tables.nodes))
    fanouts = Fanouts.uniform(fanout, graph.schema)
    oracle = Oracle(tables, fanouts.per_relation, **options)
    _, raw = graph.select(None, node_type)
    for index, seeds in enumerate([raw[:6], raw[-1:], raw[[4, 2, 4, 4]], raw[:0], raw]):
        ids = seeds.tolist()
        got = sampled(graph, fanouts, node_type, ids, 1, index, **options)
        assert got == oracle.batch(node_type, ids, epoch=1, index=index)


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("name", WEIGHED)
@pytest.mark.parametrize(
    ("fanout", "rules"),
    [
        ([2, 2], Rules(weight="weight")),
        ([3, 2, 1], Rules(weight="weight", expand="all")),
        ([2, 2], Rules(weight="weight", replace=True)),
        ([70, -1], Rules(weight="weight", disjoint=True)),
        ([2, 3], Rules(time="when", disjoint=True)),
        ([2, 3], Rules(time="when", disjoint=True, replace=True, expand="all")),
        ([2, -1], Rules(time="when", disjoint=True, last=True)),
        ([2, 3], Rules(time="when", disjoint=True, weight="weight")),
        ([2, 3], Rules(time="seen", disjoint=True)),
        ([2, 3], Rules(time="seen", disjoint=True, last=True)),
        ([2, 3], Rules(time="when", time_window=4, disjoint=True)),
        ([2, 3], Rules(time="seen", time_window=6.5, disjoint=True, last=True)),
        ([2, 2], Rules(weight="weight", labor=True)),
        ([2, 3], Rules(weight="weight", labor=True, disjoint=True)),
        ([2, 3], Rules(time="when", disjoint=True, labor=True)),
        ([2, 3], Rules(time="seen", disjoint=True, weight="weight", labor=True, layer_dependency=True)),
    ],
    ids=str,
)
def test_batches_by_weight_and_time_are_the_oracles(name, num_parts, shard_each, fanout, rules):
    tables, graph = WEIGHED[name], weighed_in_parts(name, num_parts, shard_each)
    node_type = next(iter(tables.nodes))
    fanouts = Fanouts.uniform(fanout, graph.schema)
    oracle = Oracle(tables, fanouts.per_relation, rules=rules)
    _, raw = graph.select(None, node_type)
    for index, seeds in enumerate([raw[:6], raw[-1:], raw[[4, 2, 4, 4]], raw[:0], raw[:40]]):
        ids = seeds.tolist()
        times = [7 * place % 23 - 1 for place in range(len(ids))] if rules.time else None
        got = sampled(graph, fanouts, node_type, ids, 1, index, times, rules=rules)
        assert got == oracle.batch(node_type, ids, epoch=1, index=index, times=times)


def sorted_by_time(tables: GraphTables, *, by: str) -> GraphTables:
    """The edges of every relation in the order of their times, or of those of their sources."""
    edges = {}
    for relation, table in tables.edges.items():
        sources = tables.nodes[relation[0]].columns["seen"][table.src.long()]
        order = torch.argsort(sources if by == "seen" else table.columns.get(by, sources), stable=True)
        columns = {name: column[order] for name, column in table.columns.items()}
        edges[relation] = EdgeTable(src=table.src[order], dst=table.dst[order], columns=columns)
    return GraphTables(nodes=tables.nodes, edges=edges)


@pytest.mark.parametrize("spoilt", [False, True])
@pytest.mark.parametrize("by", ["when", "seen"])
@pytest.mark.parametrize("name", ["power_law", "typed"])
@pytest.mark.parametrize("num_parts", [1, 3])
def test_lists_in_the_order_of_time_are_the_oracles_too(name, num_parts, by, spoilt):
    """Also where one list of one partition alone is not in order: the promise is of all of them."""
    tables = sorted_by_time(WEIGHED[name], by=by)
    if spoilt:
        relation, table = next((key, table) for key, table in tables.edges.items() if table.num_edges)
        busiest = (table.dst == table.dst.mode().values).nonzero().view(-1)
        order = torch.arange(table.num_edges)
        order[busiest] = busiest.flip(0)
        columns = {name: column[order] for name, column in table.columns.items()}
        moved = EdgeTable(src=table.src[order], dst=table.dst[order], columns=columns)
        tables = GraphTables(nodes=tables.nodes, edges=tables.edges | {relation: moved})
    node_type = next(relation[2] for relation, table in tables.edges.items() if table.num_edges)
    graph = partitioned(tables, num_parts, seed=num_parts, halo=("seen",))
    fanouts = Fanouts.uniform([2, 3], graph.schema)
    for last in (False, True):
        rules = Rules(time=by, time_window=None if last else 5, disjoint=True, last=last)
        oracle = Oracle(tables, fanouts.per_relation, rules=rules)
        ids = graph.select(None, node_type)[1].tolist()
        times = [7 * place % 23 - 1 for place in range(len(ids))]
        got = sampled(graph, fanouts, node_type, ids, 1, 0, times, rules=rules)
        assert got == oracle.batch(node_type, ids, epoch=1, index=0, times=times)


def test_an_empty_partition_elsewhere_hides_no_times():
    tables = GRAPHS["ring"]
    tables = replace(tables, nodes={NODE: replace(tables.nodes[NODE], columns={"seen": torch.arange(30)})})
    build = build_parts(tables, {NODE: torch.zeros(30, dtype=torch.int32)}, 2)
    graph = local_graph(build.schema, build.book, {0: next(build.parts)})
    fanouts, rules = Fanouts.uniform([-1], graph.schema), Rules(time="seen", disjoint=True)
    assert sampled(graph, fanouts, NODE, [5], 0, 0, [3], rules=rules).nodes[NODE] == [5, 3]


def test_times_of_nodes_on_other_hosts_are_refused():
    graph = partitioned(WEIGHED["power_law"], 2, shard_each=True)
    _, raw = graph.select()
    rules = Rules(time="seen", disjoint=True)
    with pytest.raises(SchemaError, match=r"'seen' of the sources is not stored along .* halo=\('seen',\)"):
        sampled(
            graph,
            Fanouts.uniform([2], graph.schema),
            NODE,
            raw[:4].tolist(),
            0,
            0,
            [9] * 4,
            rules=rules,
        )


def test_raw_ids_of_nodes_on_other_hosts_are_refused():
    graph = partitioned(GRAPHS["power_law"], 2, shard_each=True)
    with pytest.raises(SchemaError, match=r"'raw_id' of the sources .* halo=\('raw_id',\), on the command line --halo raw_id"):
        sampled(graph, Fanouts.uniform([2], graph.schema), NODE, graph.select()[1][:4].tolist(), 0, 0, rules=Rules(labor=True))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"expand": "some"}, "neither 'new' nor 'all'"),
        ({"last": True}, "no times are named"),
        ({"time": "when"}, "disjoint=True"),
        ({"time_window": 3}, "time_window=3 is given, but no times"),
        ({"time": "when", "time_window": -1, "disjoint": True}, "time_window=-1 is no span of time"),
        ({"time": "when", "time_window": float("nan"), "disjoint": True}, "time_window=nan is no span of time"),
        ({"time": "when", "time_window": "a day", "disjoint": True}, "time_window='a day' is no span of time"),
        ({"time": "when", "time_window": True, "disjoint": True}, "time_window=True is no span of time"),
        ({"labor": True, "replace": True}, "labor draws without replacement"),
        ({"labor": True, "time": "when", "last": True, "disjoint": True}, "no matter of chance; leave out labor"),
        ({"layer_dependency": True}, "layer_dependency is a matter of labor alone"),
        ({"time": "when", "last": True, "weight": "weight", "disjoint": True}, "no matter of chance"),
    ],
)
def test_rules_that_exclude_each_other_are_refused(rules, message):
    with pytest.raises(InputError, match=message):
        Rules(**rules)


@pytest.mark.parametrize(("rules", "named"), [(Rules(weight="wait"), "wait"), (Rules(time="then", disjoint=True), "then")])
def test_columns_that_nobody_has_are_refused(rules, named):
    graph = partitioned(WEIGHED["power_law"], 1)
    with pytest.raises(InputError, match=f"{named}.*when"):
        NeighborSampler(graph, Fanouts.uniform([1], graph.schema), rules=rules)


def test_relations_have_their_own_fanouts():
    tables = GRAPHS["typed"]
    per_relation = dict.fromkeys(tables.edges, (1, 0)) | {("paper", "by", "author"): (0, -1)}
    graph = partitioned(tables, 3)
    fanouts = Fanouts.by_relation(per_relation, graph.schema)
    seeds = graph.select(None, "paper")[1][:5].tolist()
    got = sampled(graph, fanouts, "paper", seeds, 0, 0)
    assert got == Oracle(tables, per_relation).batch("paper", seeds, epoch=0, index=0)
    assert got.num_sampled_edges["paper", "by", "author"][1] > 0


@pytest.mark.parametrize("num_parts", [1, 3])
@pytest.mark.parametrize("name", ["power_law", "typed"])
def test_columns_are_those_of_the_ids(name, num_parts):
    tables = GRAPHS[name]
    graph = partitioned(tables, num_parts)
    gid, _ = graph.select(None, next(iter(tables.nodes)))
    seeds = Seeds(node_type=next(iter(tables.nodes)), gid=gid[:20], input_id=torch.arange(20), epoch=0, index=0)
    batch = collect(graph, NeighborSampler(graph, Fanouts.uniform([3, 3], graph.schema)).sample(seeds))
    checks.check_batch(
        tables,
        nodes={name: block.columns[RAW_ID] for name, block in batch.nodes.items()},
        edges={relation: block.ends_bid for relation, block in batch.edges.items()},
        edge_ids={relation: block.columns[EDGE_ID] for relation, block in batch.edges.items()},
        node_columns={name: without(block.columns, RAW_ID) for name, block in batch.nodes.items()},
        edge_columns={relation: without(block.columns, EDGE_ID) for relation, block in batch.edges.items()},
    )


@pytest.mark.parametrize("num_parts", [1, 3])
@pytest.mark.parametrize("name", ["multi_edges", "power_law", "typed", "isolated"])
def test_edge_ids_come_with_the_hops(name, num_parts, monkeypatch):
    """The same ids as with the rows, and the rows are then asked for without them."""
    graph = partitioned(GRAPHS[name], num_parts)
    node_type = next(iter(graph.schema.nodes))
    gid, _ = graph.select(None, node_type)
    seeds = Seeds(node_type=node_type, gid=gid[:20], input_id=torch.arange(len(gid[:20])), epoch=0, index=0)
    later, along = (
        NeighborSampler(graph, Fanouts.uniform([3, 3], graph.schema), edge_ids=edge_ids).sample(seeds)
        for edge_ids in (False, True)
    )
    expected = collect(graph, later)
    asked: list[RowQuery] = []
    fetch = graph.fetch_stored
    monkeypatch.setattr(graph, "fetch_stored", lambda request: (asked.extend(request.queries), fetch(request))[1])
    found = collect(graph, along)
    for relation, block in found.edges.items():
        assert block.columns.keys() == expected.edges[relation].columns.keys()
        assert all(torch.equal(column, expected.edges[relation].columns[key]) for key, column in block.columns.items())
        assert block.columns[EDGE_ID].dtype == torch.int64
    assert not any(EDGE_ID in query.columns for query in asked)


def without(columns: dict[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    return {key: column for key, column in columns.items() if key != name}


@pytest.mark.data
@pytest.mark.full
def test_aifb_in_any_number_of_partitions(pyg_root):
    pytest.importorskip("rdflib")
    pytest.importorskip("pandas")
    tables = load_source(f"pyg:Entities/AIFB?root={pyg_root}&hetero=true")
    expected = None
    for num_parts in (1, 2, 3, 8):
        graph = partitioned(tables, num_parts, seed=num_parts)
        fanouts = Fanouts.uniform([5, 3], graph.schema)
        got = sampled(graph, fanouts, "v", list(range(0, 8000, 211)), 2, 5, seed=1)
        expected = expected or Oracle(tables, fanouts.per_relation, seed=1).batch(
            "v", list(range(0, 8000, 211)), epoch=2, index=5
        )
        assert got == expected


def test_one_sampler_serves_many_threads():
    tables = GRAPHS["power_law"]
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
    graph = partitioned(GRAPHS["star"], 2)
    fanouts = Fanouts.uniform([3], graph.schema)

    def drawn(epoch: int, index: int, seed: int) -> tuple[int, ...]:
        return tuple(sampled(graph, fanouts, NODE, [0], epoch, index, seed=seed).nodes[NODE][1:])

    assert len({drawn(epoch, index, seed) for epoch in (0, 1) for index in (0, 1) for seed in (0, 1)}) == 8
    again = Fanouts.uniform([3, 3], graph.schema)
    edges = sampled(graph, again, NODE, [0], 0, 0, rules=Rules(expand="all")).edges[EDGE]
    assert edges[:3] != edges[3:]
