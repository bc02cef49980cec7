"""Batches of clusters are the oracle's, whatever the partitions, ranks and workers."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from halohop import ClusterLoader, partition
from halohop import open as open_graph
from halohop.errors import InputError, SchemaError
from halohop.loading.seeds import ShuffledPlan
from halohop.testing import graphs
from halohop.testing.oracle_sets import as_oracle_batch, cluster_nodes, set_batch
from halohop.testing.worlds import hosts, partitioned
from halohop.typing import NODE
from halohop.world import World
from tests.support.divisions import DIVISIONS, divided

GRAPHS = {
    "one_node": graphs.ring(1),
    "isolated": graphs.isolated(10),
    "power_law": graphs.power_law(90, 9, shuffled_ids=True),
    "typed": graphs.typed(
        {"paper": 40, "author": 25, "none": 0},
        {("author", "writes", "paper"): 120, ("paper", "cites", "paper"): 200, ("none", "is", "paper"): 0},
    ),
}


in_parts = divided(GRAPHS)


@pytest.mark.parametrize(("num_parts", "shard_each"), DIVISIONS)
@pytest.mark.parametrize("name", GRAPHS)
def test_batches_are_the_oracles(name, num_parts, shard_each):
    """Numbers with gaps; some clusters have nodes of one type alone."""
    tables = GRAPHS[name]
    generator = torch.Generator().manual_seed(3)
    clusters = {kind: torch.randint(12, (table.num_nodes,), generator=generator) * 5 for kind, table in tables.nodes.items()}
    numbers = sorted({int(number) for column in clusters.values() for number in column})
    graph = in_parts(name, num_parts, shard_each)
    given = clusters if len(clusters) > 1 else clusters[NODE].int().numpy()
    loader = ClusterLoader(graph, given, batch_size=3, shuffle=True, seed=8, run="inline")
    assert (loader.num_clusters, len(loader)) == (len(numbers), -(-len(numbers) // 3))
    for epoch in range(2):
        plan = ShuffledPlan(num_seeds=len(numbers), batch_size=3, shuffle=True, seed=8)
        for batch, share in zip(loader, plan.epoch(epoch), strict=True):
            drawn = [numbers[position] for position in share.positions.tolist()]
            nodes = cluster_nodes(tables, {kind: column.tolist() for kind, column in clusters.items()}, drawn)
            assert as_oracle_batch(tables, batch) == set_batch(tables, nodes)


def test_rows_come_along_and_nothing_that_means_seeds():
    torch.manual_seed(0)
    data = Data(x=torch.randn(50, 3), edge_index=torch.randint(50, (2, 300)), edge_attr=torch.randn(300), y=torch.arange(50) % 3)
    data.train_mask = torch.rand(50) < 0.5
    for batch in ClusterLoader(data, "y", batch_size=2):
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.train_mask, data.train_mask[batch.n_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        _, _, mask = subgraph(batch.n_id, data.edge_index, return_edge_mask=True)
        assert sorted(batch.e_id.tolist()) == mask.nonzero().view(-1).tolist()
        assert "input_id" not in batch
        assert "batch_size" not in batch


@pytest.mark.parametrize("run", ["threads", "processes"])
def test_workers_make_the_same_batches_from_disk_and_memory(run, tmp_path):
    tables = GRAPHS["power_law"]
    partition(tables, tmp_path / "parts", num_parts=3, method="random")
    with open_graph(tmp_path / "parts") as graph:
        loader = ClusterLoader(graph, "y", batch_size=2, shuffle=True, seed=1, run=run, num_workers=2)
        expected = ClusterLoader(partitioned(tables, 1), "y", batch_size=2, shuffle=True, seed=1, run="inline")
        for _ in range(2):
            assert [as_oracle_batch(tables, batch) for batch in loader] == [as_oracle_batch(tables, batch) for batch in expected]
        assert loader.statistics()["batches"] == 4


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_share_the_clusters(size):
    graph = partitioned(GRAPHS["power_law"], 2)
    seen = []
    for rank in range(size):
        world = World(rank=rank, size=size, local_rank=rank, local_size=size)
        loader = ClusterLoader(graph, torch.arange(90) % 11, batch_size=2, shuffle=True, world=world, run="inline")
        seen += [raw for batch in loader for raw in batch.n_id.tolist()]
    assert sorted(seen) == graph.select()[1].tolist()


@pytest.mark.parametrize("name", ["one_node", "isolated", "power_law", "typed"])
def test_metis_divides_the_graph_and_not_its_partitions(name, caplog):
    tables, found = GRAPHS[name], []
    for num_parts, shard_each in ((1, False), (2, True), (8, False)):
        graph = partitioned(tables, num_parts, shard_each=shard_each)
        loader = ClusterLoader(graph, 5, seed=4, run="inline")
        found.append([as_oracle_batch(tables, batch) for batch in loader])
        assert "into 5 clusters with METIS" in caplog.text
        caplog.clear()
    assert found[0] == found[1] == found[2]
    for kind, table in tables.nodes.items():
        seen = [raw for batch in found[0] for raw in batch.nodes[kind]]
        assert len(seen) == len(set(seen)) == table.num_nodes


@pytest.mark.parametrize("name", ["power_law", "typed"])
def test_what_metis_has_found_can_be_used_again(name):
    tables = GRAPHS[name]
    first = ClusterLoader(partitioned(tables, 2), 6, run="inline")
    again = ClusterLoader(partitioned(tables, 3, seed=1), first.clusters, run="inline")
    assert first.num_clusters == again.num_clusters == 6
    assert [as_oracle_batch(tables, batch) for batch in first] == [as_oracle_batch(tables, batch) for batch in again]


def test_hosts_make_the_same_clusters(tmp_path):
    """Each asks the others for the edges that METIS needs, and for the rest of its batches."""
    tables = GRAPHS["power_law"]
    partition(tables, tmp_path / "parts", num_parts=3, method="random")
    expected = [as_oracle_batch(tables, batch) for batch in ClusterLoader(partitioned(tables, 1), 5, batch_size=2)]
    with hosts(tmp_path / "parts", [[0], [1, 2]]) as opened:
        for graph in opened:
            assert [as_oracle_batch(tables, batch) for batch in ClusterLoader(graph, 5, batch_size=2)] == expected


def test_going_on_in_the_middle_of_an_epoch():
    loaders = [ClusterLoader(GRAPHS_DATA, [0, 1, 2, 3], shuffle=True, seed=2, run="inline") for _ in range(3)]
    whole = [batch.n_id.tolist() for batch in loaders[0]]
    begun = iter(loaders[1])
    assert [next(begun).n_id.tolist() for _ in range(3)] == whole[:3]
    loaders[2].load_state_dict(loaders[1].state_dict())
    assert [batch.n_id.tolist() for batch in loaders[2]] == whole[3:]


def test_metis_cuts_few_edges():
    """Of eight rings nearly all edges stay within the clusters."""
    rings = torch.arange(160) // 20 * 20
    edge_index = torch.stack([torch.arange(160), rings + (torch.arange(160) + 1) % 20])
    shuffled = torch.randperm(160, generator=torch.Generator().manual_seed(0))
    data = Data(edge_index=shuffled[edge_index], num_nodes=160)
    assert sum(batch.num_edges for batch in ClusterLoader(data, 8)) > 130


def test_an_own_order_of_clusters():
    loader = ClusterLoader(GRAPHS_DATA, np.array([2, 0, 2, 1]), batch_sampler=[[2, 0], [1]])
    assert [batch.n_id.tolist() for batch in loader] == [[0, 2, 1], [3]]
    assert loader([1, 2]).n_id.tolist() == [3, 0, 2]
    assert repr(loader) == "ClusterLoader()"


GRAPHS_DATA = Data(edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), x=torch.eye(4))


def test_the_picture_in_the_documentation():
    data = Data(edge_index=torch.tensor([[1, 2, 3, 3, 4, 0, 4], [0, 0, 0, 1, 1, 2, 3]]), num_nodes=5)
    batch = ClusterLoader(data, [0, 1, 0, 1, 2], batch_size=2)([1, 0])
    assert (batch.n_id.tolist(), batch.e_id.tolist()) == ([1, 3, 0, 2], [3, 0, 1, 2, 5])


def test_transforms():
    def drop_edges(output):
        output.row, output.col, output.edge = output.row[:0], output.col[:0], output.edge[:0]
        return output

    loader = ClusterLoader(GRAPHS_DATA, [0, 0, 0, 0], transform=lambda batch: batch.num_edges)
    assert list(loader) == [4]
    (batch,) = ClusterLoader(GRAPHS_DATA, [0, 0, 0, 0], transform_sampler_output=drop_edges)
    assert (batch.num_edges, batch.n_id.tolist()) == (0, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("clusters", "error", "message"),
    [
        (torch.tensor([0, 1, -1, 0]), InputError, "hold -1"),
        (torch.zeros(3, dtype=torch.int64), InputError, "each of 4 nodes"),
        (torch.zeros(4), InputError, "float32"),
        (torch.zeros(4, dtype=torch.bool), InputError, "bool"),
        ("community", SchemaError, r"no 'community'; columns: \['x'\]"),
        ("x", InputError, "float32"),
        (0, InputError, "clusters=0"),
        (2.5, InputError, "clusters=2.5"),
        ({"paper": torch.zeros(4)}, InputError, "paper"),
        ([[0], [1, 2]], InputError, "cannot be read as numbers"),
    ],
)
def test_what_divides_no_nodes_is_refused(clusters, error, message):
    with pytest.raises(error, match=message):
        ClusterLoader(GRAPHS_DATA, clusters)


def test_one_tensor_divides_one_type():
    graph = partitioned(GRAPHS["typed"], 1)
    with pytest.raises(InputError, match="dict of tensors"):
        ClusterLoader(graph, torch.zeros(65, dtype=torch.int64))
    with pytest.raises(InputError, match=r"\['paper'\].*divide all"):
        ClusterLoader(graph, {"paper": torch.zeros(40, dtype=torch.int64)})
