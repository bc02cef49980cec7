"""Loaders of one PyG object share its edges, sorted, as long as these are the same."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.pyg import structure
from halohop.pyg.structure import structure_of


def plain(**more):
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]])
    return Data(x=torch.arange(5.0).view(5, 1), edge_index=edge_index, w=torch.arange(6.0), time=torch.arange(6), **more)


def lists(data, names=(), edge_dir="in"):
    (edges,) = structure_of(data, names, edge_dir=edge_dir).part.edges.values()
    return edges


def test_a_second_loader_converts_nothing_and_takes_no_memory():
    data = plain()
    one, other = lists(data), lists(data, ["w", "time"])
    for name in ("indptr", "indices", "edge_id"):
        assert getattr(one, name).data_ptr() == getattr(other, name).data_ptr()
    assert one.columns == {}
    assert other.columns["w"].tolist() == data.w[other.edge_id.long()].tolist()
    assert other.ascending == {"w", "time"}


@pytest.mark.parametrize(
    "change",
    [
        lambda data: setattr(data, "edge_index", data.edge_index.clone()),
        lambda data: data.edge_index[0].copy_(torch.tensor([4, 3, 2, 1, 0, 1])),
        lambda data: data.edge_index.resize_(2, 3),
        lambda data: setattr(data, "x", torch.zeros(7, 1)),
    ],
    ids=["bound anew", "written", "fewer", "more nodes"],
)
def test_edges_that_have_changed_are_sorted_anew(change):
    data = plain()
    before = lists(data)
    change(data)
    after, fresh = lists(data), lists(Data(**data.to_dict()))
    assert after.indptr.data_ptr() != before.indptr.data_ptr()
    for name in ("indptr", "indices", "edge_id"):
        assert torch.equal(getattr(after, name), getattr(fresh, name))


def test_lists_of_out_edges_are_others():
    data = plain()
    assert lists(data, edge_dir="out").indptr.tolist() == [0, 2, 3, 4, 5, 6]
    assert lists(data).indptr.tolist() == [0, 1, 2, 4, 5, 6]


def test_changes_that_torch_does_not_count_are_seen_by_sorting_each_time():
    with torch.inference_mode():
        data = plain()
    assert lists(data).indptr.data_ptr() != lists(data).indptr.data_ptr()


def test_lists_go_with_the_object_and_do_not_hold_it():
    data = plain()
    kept, gone = weakref.ref(lists(data).indptr), weakref.ref(data)
    key = id(data)
    assert key in structure._SORTED
    assert kept() is not None
    loader = halohop.NeighborLoader(data, [2])
    del data, loader
    gc.collect()
    assert gone() is None
    assert kept() is None
    assert key not in structure._SORTED


def test_loaders_of_one_object_have_the_batches_of_loaders_of_copies():
    def loaders(data):
        graph = halohop.graph(data)
        yield halohop.NeighborLoader(data, [-1, 2], batch_size=2, seed=3)
        yield halohop.NeighborLoader(data, [2], batch_size=5, weight_attr="w", seed=3)
        yield halohop.NeighborLoader(graph, [2, 2], torch.tensor([3, 1]), batch_size=2, seed=4)
        yield halohop.LinkNeighborLoader(data, [2], neg_sampling="binary", batch_size=4, seed=3)

    data = plain()
    for number, loader in enumerate(loaders(data)):
        alone = list(loaders(plain()))[number]
        for batch, other in zip(loader, alone, strict=True):
            mine, theirs = batch.to_dict(), other.to_dict()
            assert mine.keys() == theirs.keys()
            for name, value in mine.items():
                assert torch.equal(value, theirs[name]) if isinstance(value, torch.Tensor) else value == theirs[name], name


def test_each_relation_is_sorted_by_its_own_ends():
    data = HeteroData()
    data["a"].x, data["b"].num_nodes = torch.zeros(3, 1), 2
    data["a", "to", "b"].edge_index = torch.tensor([[2, 1, 0], [0, 0, 1]])
    data["b", "of", "a"].edge_index = torch.tensor([[1, 0], [2, 0]], dtype=torch.int32)
    first, second = structure_of(data, (), edge_dir="in").part.edges, structure_of(data, (), edge_dir="in").part.edges
    assert [np.asarray(part.indptr).tolist() for part in first.values()] == [[0, 2, 3], [0, 1, 1, 2]]
    assert [np.asarray(part.indices).tolist() for part in first.values()] == [[2, 1, 0], [0, 1]]
    assert all(second[key].indices.data_ptr() == part.indices.data_ptr() for key, part in first.items())
