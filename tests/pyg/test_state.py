import torch
from torch_geometric.data import Data, HeteroData

from halohop import NeighborLoader
from halohop.pyg.state import is_now, state_of


def ring(**columns):
    return Data(edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), num_nodes=4, **columns)


def test_what_was_not_touched_is_as_it_was():
    data = ring(x=torch.rand(4, 2), name="ring")
    assert is_now(state_of(data), data)


def test_every_kind_of_change_is_seen():
    changes = {
        "bound anew": lambda data: setattr(data, "x", torch.rand(4, 2)),
        "written to": lambda data: data.x.add_(1),
        "added": lambda data: setattr(data, "y", torch.zeros(4)),
        "deleted": lambda data: data.pop("x"),
        "renamed": lambda data: setattr(data, "z", data.pop("x")),
        "other memory": lambda data: setattr(data.x, "data", torch.rand(4, 2)),
    }
    for name, change in changes.items():
        data = ring(x=torch.rand(4, 2))
        state = state_of(data)
        change(data)
        assert not is_now(state, data), name


def test_types_and_values_that_are_no_dense_tensors():
    data = HeteroData()
    data["a"].x = torch.eye(3).to_sparse()
    with torch.inference_mode():
        data["a"].y = torch.rand(3)
    data["a"].names = ["p", "q", "r"]
    state = state_of(data)
    assert is_now(state, data)
    data["b"].num_nodes = 2
    assert not is_now(state, data)


def test_a_batch_has_the_rows_of_a_column_whose_memory_was_replaced():
    data = ring(x=torch.zeros(4, 2))
    loader = NeighborLoader(data, [1], batch_size=4, num_workers=0)
    assert not next(iter(loader)).x.any()
    data.x.data = torch.ones(4, 2)
    assert next(iter(loader)).x.all()
