"""Graphs of several types without any relation, and relations that are named by strings."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import ClusterData, NodeLoader, RandomNodeLoader

import halohop
from halohop.errors import SchemaError
from halohop.store.schema import Schema, TableSpec

BUYS, BACK = ("user", "buys", "item"), ("item", "rev_buys", "user")


def bare() -> HeteroData:
    data = HeteroData()
    data["user"].x, data["item"].x = torch.arange(10.0).view(5, 2), torch.randn(4, 2)
    return data


def joined() -> HeteroData:
    data = bare()
    data[BUYS].edge_index, data[BACK].edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([[1, 2, 3], [0, 1, 2]])
    return data


LOADERS = {
    "nodes": lambda data: halohop.NeighborLoader(data, [2], ("user", None), batch_size=3),
    "nodes, by relation": lambda data: halohop.NeighborLoader(data, {}, ("user", None), batch_size=3),
    "nodes, padded": lambda data: halohop.NeighborLoader(data, [2], ("user", None), batch_size=3, pad="bound"),
    "subgraphs": lambda data: halohop.SubGraphLoader(data, [2], ("user", None), batch_size=3),
    "HGT": lambda data: halohop.HGTLoader(data, [2], ("user", None), batch_size=3),
    "sampler": lambda data: NodeLoader(data, halohop.HalohopSampler(data, [2]), ("user", torch.arange(5)), batch_size=3),
}


@pytest.mark.parametrize("make", LOADERS.values(), ids=list(LOADERS))
def test_nodes_without_relations(make):
    data = bare()
    batches = list(make(data))
    assert [int((batch["user"].n_id >= 0).sum()) for batch in batches] == [3, 2]
    for batch in batches:
        own = batch["user"].n_id[batch["user"].n_id >= 0]
        assert torch.equal(batch["user"].x[: len(own)], data["user"].x[own])


def test_links_without_relations():
    pairs = torch.tensor([[0, 1], [1, 2]])
    batch = next(iter(halohop.LinkNeighborLoader(bare(), [2], (BUYS, pairs), batch_size=2)))
    assert torch.equal(batch["user"].n_id[batch[BUYS].edge_label_index[0]], pairs[0])


def test_relations_in_partitions_of_a_graph_without_any(tmp_path):
    halohop.partition(bare(), tmp_path / "parts", num_parts=2, method="random")
    batches = list(halohop.NeighborLoader(halohop.open(tmp_path / "parts"), [2], ("user", None), batch_size=3))
    assert [len(batch["user"].n_id) for batch in batches] == [3, 2]


def test_relations_named_by_strings_as_pyg_writes_them():
    data, numbers = joined(), {BUYS: [2, 1], BACK: [1, 0]}
    names = {"__".join(relation): fanouts for relation, fanouts in numbers.items()}
    for make in (
        lambda fanouts: halohop.NeighborLoader(data, fanouts, ("item", None), batch_size=4),
        lambda fanouts: NodeLoader(data, halohop.HalohopSampler(data, fanouts), ("item", torch.arange(4)), batch_size=4),
        lambda fanouts: halohop.LinkNeighborLoader(data, fanouts, BUYS, batch_size=4),
    ):
        one, other = next(iter(make(numbers))), next(iter(make(names)))
        for relation in numbers:
            assert torch.equal(one[relation].e_id, other[relation].e_id)
            assert torch.equal(one[relation].edge_index, other[relation].edge_index)


@pytest.mark.parametrize("wrong", ["user__buys", "user__sells__item", "user", 3, ("user", "item"), BUYS[::-1]], ids=str)
def test_relations_that_the_graph_does_not_have_are_refused_whole(wrong):
    with pytest.raises(SchemaError, match=r"unknown relation ('user|3|\('user|\('item)"):
        halohop.NeighborLoader(joined(), {wrong: [2]}, ("item", None))


def test_a_string_that_means_two_relations_is_refused():
    nothing = TableSpec(count=0, columns={})
    nodes = dict.fromkeys(("a__b", "a", "d"), nothing)
    schema = Schema(nodes=nodes, edges={("a__b", "c", "d"): nothing, ("a", "b__c", "d"): nothing})
    assert schema.relation(["a", "b__c", "d"]) == ("a", "b__c", "d")
    with pytest.raises(SchemaError, match="unknown relation 'a__b__c__d'"):
        schema.relation("a__b__c__d")


@pytest.mark.parametrize("make", [lambda graph: RandomNodeLoader(graph, 2), lambda graph: ClusterData(graph, 2)])
@pytest.mark.parametrize("stored", [False, True])
def test_pygs_loaders_over_a_graph_of_halohops_name_the_remedy(tmp_path, make, stored):
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    halohop.partition(data, tmp_path / "parts", num_parts=1, method="random")
    graph = halohop.open(tmp_path / "parts") if stored else halohop.graph(data)
    with pytest.raises(AttributeError, match=r"has no 'edge_index'; PyG's RandomNodeLoader and ClusterData take the Data itself"):
        make(graph)
    assert not hasattr(graph, "x")
