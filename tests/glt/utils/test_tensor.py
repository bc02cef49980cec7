"""What is done to all tensors in nested data."""

import numpy as np
import torch

from halohop.glt import utils
from halohop.glt.typing import GraphPartitionData


def test_arrays_become_tensors() -> None:
    data = {"a": np.arange(2), "b": (torch.ones(2), [np.zeros(1)]), "c": "text"}
    found = utils.convert_to_tensor(data, dtype=torch.float16)
    assert found["c"] == "text"
    assert [found["a"].dtype, found["b"][0].dtype, found["b"][1][0].dtype] == [torch.float16] * 3
    assert utils.convert_to_tensor(data)["a"].dtype == torch.int64


def test_shared_and_squeezed() -> None:
    data = {"a": [torch.ones(2, 1)]}
    assert utils.share_memory(data)["a"][0].is_shared()
    assert utils.squeeze(data)["a"][0].shape == (2,)


def test_named_tuples_stay_what_they_are() -> None:
    part = GraphPartitionData((torch.ones(1), torch.ones(2)), torch.arange(3))
    shared = utils.share_memory(part)
    assert isinstance(shared, GraphPartitionData)
    assert shared.eids.is_shared()
    assert shared.edge_index[1].is_shared()
    assert shared.weights is None


def test_where_ids_stand() -> None:
    ids = torch.tensor([5, 0, 3])
    assert utils.id2idx(ids)[ids].tolist() == [0, 1, 2]
    assert utils.id2idx([]).tolist() == []


def test_equal_on_the_same_device() -> None:
    assert utils.tensor_equal_with_device(torch.ones(2), torch.ones(2))
    assert not utils.tensor_equal_with_device(torch.ones(2), torch.zeros(2))
    assert not utils.tensor_equal_with_device(torch.ones(2), torch.ones(2, device="meta"))
