"""Lookups with a gradient: shapes, dtypes, devices, ids and gids, and what backward leaves behind."""

import copy
import gc
import pickle
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import halohop
from halohop import DistEmbedding, Graph
from halohop.errors import IdError, InputError
from halohop.optim import SparseSGD
from halohop.testing.graphs import ring
from halohop.testing.worlds import partitioned

NODES = 20


@pytest.fixture
def graph() -> Iterator[Graph]:
    with partitioned(ring(NODES, raw_id=torch.arange(NODES) * 10), 2) as graph:
        yield graph


def test_ids_of_any_shape_give_rows_in_that_shape(graph: Graph) -> None:
    embedding = DistEmbedding(graph, None, 3, "learned", node_type="node")
    ids = torch.tensor([[30, 0], [30, 190]], dtype=torch.int32)
    rows = embedding(ids)
    assert rows.shape == (2, 2, 3)
    assert torch.equal(rows[0, 0], rows[1, 0])
    assert torch.equal(rows.reshape(4, 3), embedding.weight[ids.reshape(-1).long()])
    assert embedding(torch.tensor(30)).shape == (3,)
    assert embedding(torch.empty(0, 4, dtype=torch.int64)).shape == (0, 4, 3)
    assert torch.equal(embedding(gid=graph.locate(ids.reshape(-1))).view(2, 2, 3), rows)
    assert list(embedding.parameters()) == []
    assert repr(embedding) == "DistEmbedding(20, 3, name='learned')"


def test_rows_begin_as_those_of_torch_normally_distributed(graph: Graph) -> None:
    rows = DistEmbedding(graph, 4000, 4, "learned").weight[torch.arange(4000)]
    assert abs(float(rows.mean())) < 0.05
    assert abs(float(rows.std()) - 1) < 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_gradients_of_every_lookup_come_together(graph: Graph, dtype: torch.dtype) -> None:
    embedding = DistEmbedding(graph, None, 3, "learned", halohop.init.constant(2.0), dtype=dtype, node_type="node")
    optimizer = SparseSGD([embedding], lr=0.5)
    first, second = embedding(torch.tensor([30, 30, 0])), embedding(torch.tensor([[0]]))
    assert first.dtype == dtype
    (first.sum() + 2 * second.sum()).backward()
    first_again = embedding(torch.tensor([10]))
    first_again.sum().backward()
    optimizer.step()
    rows = embedding.weight[torch.tensor([30, 0, 10, 20])]
    assert rows.dtype == dtype
    assert rows[:, 0].tolist() == [2 - 0.5 * 2, 2 - 0.5 * 3, 2 - 0.5, 2.0]


def test_rows_may_be_changed_in_place_and_backward_come_twice(graph: Graph) -> None:
    embedding = DistEmbedding(graph, None, 3, "learned", halohop.init.constant(1.0), node_type="node")
    optimizer = SparseSGD([embedding], lr=1.0)
    loss = embedding(torch.tensor([0])).mul_(3.0).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    optimizer.step()
    assert embedding.weight[torch.tensor([0])].tolist() == [[1.0 - 2 * 3.0] * 3]


def test_nothing_is_kept_of_a_lookup_without_gradient_or_backward(graph: Graph) -> None:
    embedding = DistEmbedding(graph, None, 3, "learned", node_type="node")
    with torch.no_grad():
        rows = embedding(torch.tensor([0, 10]))
    assert not rows.requires_grad
    assert not embedding.gradients.looked_up
    dropped = embedding(torch.tensor([0, 10]))
    gone = weakref.ref(dropped.grad_fn)
    del dropped
    gc.collect()
    assert gone() is None
    assert not embedding.gradients.there


def test_empty_places_of_padded_batches_are_zeros_without_a_gradient(graph: Graph) -> None:
    embedding = DistEmbedding(graph, None, 3, "learned", halohop.init.constant(1.0), node_type="node")
    optimizer = SparseSGD([embedding], lr=1.0)
    loader = halohop.NeighborLoader(graph, [2], torch.tensor([0, 10, 50]), batch_size=2, gids=True, pad="bound", run="inline")
    batch = next(iter(loader))
    rows = embedding(gid=batch.n_gid)
    assert torch.equal(rows.detach(), batch.node_mask[:, None].expand(-1, 3).float())
    rows.sum().backward()
    optimizer.step()
    touched = embedding.weight[torch.arange(NODES) * 10][:, 0] == 0
    assert set((touched.nonzero().view(-1) * 10).tolist()) == set(batch.n_id[batch.node_mask].tolist())


def test_gids_of_batches_are_not_located_again(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    embedding = DistEmbedding(graph, None, 3, "learned", node_type="node")
    batch = next(iter(halohop.NeighborLoader(graph, [2], torch.tensor([0, 10]), gids=True, run="inline")))
    expected = embedding(batch.n_id)
    monkeypatch.setattr(type(graph), "locate", None)
    assert torch.equal(embedding(gid=batch.n_gid), expected)


def test_ids_may_be_overwritten_before_backward_and_gradients_may_not_be_before_the_step(graph: Graph) -> None:
    embedding = DistEmbedding(graph, None, 3, "learned", halohop.init.constant(1.0), node_type="node")
    optimizer = SparseSGD([embedding], lr=1.0)
    gid = graph.locate(torch.tensor([30]))
    rows = embedding(gid=gid)
    gid.fill_(int(graph.locate(torch.tensor([50]))))
    rows.sum().backward()
    optimizer.step()
    assert embedding.weight[torch.tensor([30, 50])][:, 0].tolist() == [0.0, 1.0]
    grads = torch.ones(1, 3)
    embedding(torch.tensor([30])).backward(grads)
    grads.zero_()
    with pytest.raises(InputError, match="changed in place after backward"):
        optimizer.step()


def test_a_graph_that_is_kept_brings_gradients_to_the_next_step(graph: Graph) -> None:
    embedding = DistEmbedding(graph, None, 3, "learned", halohop.init.constant(1.0), node_type="node")
    optimizer = SparseSGD([embedding], lr=0.25)
    loss = embedding(torch.tensor([30])).sum()
    for _ in range(2):
        loss.backward(retain_graph=True)
        optimizer.step()
    assert embedding.weight[torch.tensor([30])][0, 0] == 0.5


def test_rows_without_entries_are_trained_as_others(graph: Graph) -> None:
    embedding = DistEmbedding(graph, None, 0, "learned", node_type="node")
    optimizer = SparseSGD([embedding])
    embedding(torch.tensor([30, 30])).sum().backward()
    optimizer.step()
    assert optimizer.steps == {"learned": 1}


@pytest.mark.full
def test_compiled_models_look_rows_up_as_others(graph: Graph) -> None:
    embedding = DistEmbedding(graph, None, 3, "learned", halohop.init.constant(1.0), node_type="node")
    optimizer = SparseSGD([embedding], lr=0.5)
    model = torch.compile(torch.nn.Sequential(embedding, torch.nn.Identity()), backend="eager")
    for number, ids in enumerate((torch.tensor([30]), torch.tensor([0, 30])), 1):
        model(ids).sum().backward()
        optimizer.step()
        assert embedding.weight[torch.tensor([30])][0, 0] == 1 - 0.5 * number


def test_models_with_a_table_are_not_copied_or_pickled(graph: Graph) -> None:
    model = torch.nn.Sequential(DistEmbedding(graph, None, 3, "learned", node_type="node"))
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(InputError, match="table 'learned' is not copied or pickled"):
            copied(model)


def test_lookups_that_cannot_work(graph: Graph) -> None:
    embedding = DistEmbedding(graph, None, 3, "learned", node_type="node")
    with pytest.raises(IdError, match="the first is 7"):
        embedding(torch.tensor([10, 7]))
    with pytest.raises(InputError, match="integers"):
        embedding(torch.tensor([1.0]))
    with pytest.raises(InputError, match="integers"):
        embedding(gid=torch.tensor([1.5]))
    with pytest.raises(InputError, match="a list; give a tensor"):
        embedding([10, 20])
    with pytest.raises(IdError, match="the first is 20"):
        embedding(gid=torch.tensor([20]))
    with pytest.raises(InputError, match="needs ids, or gid"):
        embedding()
    with pytest.raises(InputError, match="float"):
        DistEmbedding(graph, None, 3, "whole", dtype=torch.int64, node_type="node")


@pytest.mark.parametrize("device", ["nowhere", "cuda", 3.5])
def test_devices_that_are_not_there_are_named(graph: Graph, device: Any) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has one")
    embedding = DistEmbedding(graph, None, 2, "learned", node_type="node")
    with pytest.raises(InputError, match=f"device={device!r} cannot have rows: .*; leave it out"):
        embedding(torch.tensor([0]), device=device)
    assert not embedding.gradients.looked_up
