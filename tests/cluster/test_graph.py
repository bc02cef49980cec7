"""What a graph says of itself, whoever holds its partitions."""

import pytest
import torch
from torch_geometric.data import HeteroData

from halohop import connect, partition, serve
from halohop import open as open_graph
from halohop.cluster import graph as graph_module
from halohop.cluster.graph import in_memory
from halohop.datasets import synthetic
from halohop.errors import IdError, InputError, SchemaError
from halohop.testing import graphs
from halohop.testing.worlds import hosts, partitioned
from halohop.typing import NODE

TABLES = graphs.typed(
    {"paper": 40, "author": 25, "none": 0},
    {("author", "writes", "paper"): 120, ("paper", "by", "author"): 90, ("paper", "in", "none"): 0},
)


def test_counts_have_the_names_that_pyg_gives_them():
    graph = in_memory(TABLES)
    data = HeteroData({name: {"num_nodes": table.num_nodes} for name, table in TABLES.nodes.items()})
    for relation, table in TABLES.edges.items():
        data[relation].edge_index = torch.stack([table.src, table.dst])
    assert (graph.num_nodes, graph.num_edges, graph.metadata()) == (data.num_nodes, data.num_edges, data.metadata())
    assert (graph.node_types, graph.edge_types) == (data.node_types, data.edge_types)
    assert graph.num_nodes_dict == data.num_nodes_dict
    assert graph.num_edges_dict == {name: data[name].num_edges for name in data.edge_types}
    assert repr(graph) == (
        "Graph(nodes={paper: 40, author: 25, none: 0}, "
        "edges={author writes paper: 120, paper by author: 90, paper in none: 0}, partitions=1)"
    )
    assert in_memory(synthetic("tiny")).num_node_features == 32
    assert set(graph.num_node_features) == set(TABLES.nodes)


def check_degrees(graph):
    for relation, table in TABLES.edges.items():
        nodes = TABLES.nodes[relation[2]]
        expected = torch.bincount(table.dst, minlength=nodes.num_nodes)[torch.argsort(nodes.raw_id)]
        gid, _ = graph.select(None, relation[2])
        degrees = graph.degrees(relation, gid)
        assert degrees.dtype == torch.int64
        assert degrees.tolist() == expected.tolist()
        assert graph.degrees(relation, gid[:5].flip(0)).tolist() == expected[:5].flip(0).tolist()


@pytest.mark.parametrize("shard_each", [False, True])
@pytest.mark.parametrize("num_parts", [1, 2, 3, 8])
def test_degrees(num_parts, shard_each):
    check_degrees(partitioned(TABLES, num_parts, shard_each=shard_each))


def test_degrees_over_hosts(tmp_path):
    partition(TABLES, tmp_path / "parts", num_parts=4, method="random")
    with hosts(tmp_path / "parts", [[3, 0], [1, 2]]) as opened:
        for graph in opened:
            check_degrees(graph)


def check_edges(graph):
    """All in the order of the input, and some by their ids: any order, again and again, and none."""
    for relation, table in TABLES.edges.items():
        src_raw, dst_raw = (TABLES.nodes[name].raw_id for name in (relation[0], relation[2]))
        src_gid, dst_gid = (
            graph.locate(raw[ends], name)
            for raw, ends, name in ((src_raw, table.src, relation[0]), (dst_raw, table.dst, relation[2]))
        )
        for edge_id in (None, torch.randperm(len(table.src))[:50].repeat(2), torch.tensor([], dtype=torch.int32)):
            order = torch.arange(len(table.src)) if edge_id is None else edge_id.long()
            found = graph.edges(relation, edge_id)
            assert found.edge_id.tolist() == order.tolist()
            assert found.src_gid.tolist() == src_gid[order].tolist()
            assert found.dst_gid.tolist() == dst_gid[order].tolist()
        with pytest.raises(IdError, match=rf"2 of [23] edge ids .* {len(table.src)} edges .* the first is -1"):
            graph.edges(relation, torch.tensor([len(table.src), -1, -1, max(len(table.src) - 1, -1)]))


@pytest.mark.parametrize("shard_each", [False, True])
@pytest.mark.parametrize("num_parts", [1, 3, 8])
def test_edges(num_parts, shard_each):
    check_edges(partitioned(TABLES, num_parts, shard_each=shard_each))


def test_edges_of_one_partition() -> None:
    graph = partitioned(graphs.ring(40), 3)
    relation = next(iter(graph.schema.edges))
    found = [graph.edges(relation, part=part) for part in range(3)]
    assert sorted(torch.cat([each.edge_id for each in found]).tolist()) == list(range(graph.schema.edges[relation].count))
    assert all(set(graph.owners_of("node", each.dst_gid).tolist()) <= {part} for part, each in enumerate(found))
    with pytest.raises(InputError, match="part=3 is none of the partitions 0 to 2"):
        graph.edges(relation, part=3)


def test_edges_over_hosts_and_from_servers(tmp_path):
    partition(TABLES, tmp_path / "parts", num_parts=4, method="random")
    with hosts(tmp_path / "parts", [[3, 0], [1, 2]]) as opened:
        for graph in opened:
            check_edges(graph)
    with (
        serve(tmp_path / "parts", partitions=[0, 2]) as one,
        serve(tmp_path / "parts", partitions=[1, 3]) as other,
        connect([one.address, other.address]) as graph,
    ):
        check_edges(graph)


def check_owners(graph):
    for name, table in TABLES.nodes.items():
        raw = table.raw_id[torch.randperm(table.num_nodes)]
        owners = graph.owners(raw, name)
        assert owners.dtype == torch.int64
        bounds = graph.book.nodes[name]
        for part, gid in zip(owners.tolist(), graph.locate(raw, name).tolist(), strict=True):
            assert bounds[part] <= gid < bounds[part + 1]
    with pytest.raises(IdError, match="1 of 1 ids are not among the 40 nodes"):
        graph.owners(torch.tensor([-7]), "paper")
    with pytest.raises(SchemaError, match="unknown node type"):
        graph.owners(torch.tensor([1]), "editor")


@pytest.mark.parametrize("num_parts", [1, 3, 64])
def test_owners(num_parts):
    """Also of partitions that own nothing."""
    check_owners(partitioned(TABLES, num_parts))


def test_owners_over_hosts_and_from_servers(tmp_path):
    partition(TABLES, tmp_path / "parts", num_parts=4, method="random")
    with hosts(tmp_path / "parts", [[3, 0], [1, 2]]) as opened:
        for graph in opened:
            check_owners(graph)
    with serve(tmp_path / "parts") as server, connect([server.address]) as graph:
        check_owners(graph)


def test_degrees_of_no_relation():
    with pytest.raises(SchemaError, match="unknown relation"):
        partitioned(TABLES, 1).degrees(("a", "to", "b"), torch.zeros(0, dtype=torch.int64))


@pytest.mark.parametrize("raw", [torch.tensor(3), torch.tensor([[1], [2]]), torch.tensor([[1, 2]])])
def test_ids_that_are_no_list_are_refused(raw):
    with pytest.raises(InputError, match=r"shape \(.*must be one-dimensional"):
        in_memory(TABLES).locate(raw, "paper")


def test_a_graph_that_is_kept_leaves_with_the_process_that_multiprocessing_started(monkeypatch):
    """Whose function may fail, which the interpreter's end does not know; one that was closed is forgotten there."""
    known, forgotten = [], []

    def note(leave):
        known.append(leave)
        return lambda: forgotten.append(leave)

    monkeypatch.setattr(graph_module, "at_child_end", note)
    graph = in_memory(TABLES)
    graph.keep_until_exit()
    assert known == [graph.shut]
    assert forgotten == []
    graph.close()
    assert forgotten == [graph.shut]


def test_tables_whose_ids_are_gids_are_known_where_all_partitions_are(tmp_path):
    ring = graphs.ring(10)
    one, two = in_memory(ring), partitioned(ring, 2)
    assert one.identities >= {NODE}
    assert two.identities == frozenset()  # the random division has renumbered the nodes
    partition(ring, tmp_path, num_parts=2, method="random")
    assert open_graph(tmp_path).identities == frozenset()
