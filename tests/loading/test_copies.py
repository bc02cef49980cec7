"""Copies of loaders, and what workers know of themselves."""

import copy
import inspect

import pytest
import torch
from torch.utils.data import get_worker_info
from torch_geometric.data import Data

import halohop


def loader(**options: object) -> halohop.NeighborLoader:
    torch.manual_seed(0)
    data = Data(edge_index=torch.randint(40, (2, 300)), x=torch.randn(40, 2))
    return halohop.NeighborLoader(data, [2], torch.arange(30), batch_size=5, **options)


def rest_of(batches: object) -> list[list[int]]:
    return [batch.n_id.tolist() for batch in batches]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("make", [loader, lambda **how: halohop.LinkNeighborLoader(loader().data, [2], batch_size=80, **how)])
def test_a_copy_goes_on_where_the_loader_stands(copied, make):
    first = make(shuffle=True, seed=3)
    list(first)
    batches = iter(first)
    next(batches)
    other = copied(first)
    assert type(other) is type(first)
    assert other.data is first.data
    assert rest_of(other) == rest_of(batches)
    assert rest_of(other) == rest_of(first)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_has_the_functions_that_were_set_later(copied):
    first, begun = loader(num_workers=1, transform=lambda batch: "before"), []
    first.transform, first.worker_init_fn = lambda batch: "after", begun.append
    assert list(copied(first)) == ["after"] * 6
    assert begun == [0]


def test_the_signature_of_a_class_is_read_once(monkeypatch: pytest.MonkeyPatch):
    class Mine(halohop.NeighborLoader):
        pass

    read, signature = [], inspect.signature
    monkeypatch.setattr(inspect, "signature", lambda kind: read.append(kind) or signature(kind))
    data = loader().data
    names = [Mine(data, [2], torch.arange(3)).__dict__["__pl_saved_arg_names"] for _ in range(2)]
    assert names == [("data", "num_neighbors", "input_nodes")] * 2
    assert read.count(Mine) == 1


def info(batch: Data) -> tuple[int, int] | None:
    found = get_worker_info()
    return None if found is None else (found.id, found.num_workers)


def test_transforms_in_processes_know_their_worker():
    found = list(loader(run="processes", num_workers=2, transform=info))
    assert set(found) <= {(0, 2), (1, 2)}
    assert len(found) == 6
    assert get_worker_info() is None
    assert set(loader(run="threads", num_workers=2, transform=info)) == {None}
