"""What a split is called: one rule for tables, loaders and whatever else names one."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop.errors import SchemaError
from halohop.store.schema import find_split

EDGES = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])


def graph(split: str) -> Data:
    data = Data(edge_index=EDGES, train_mask=torch.arange(5) < 3, num_nodes=5)
    data[f"{split}_mask"] = torch.arange(5) > 2
    return data


@pytest.mark.parametrize("stored", ["val", "valid", "validation"])
@pytest.mark.parametrize("named", ["val", "valid", "validation"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_names_of_validation_are_one(tmp_path, stored, named, on_disk):
    data = graph(stored)
    if on_disk:
        halohop.partition(data, tmp_path / "parts", num_parts=2, method="random")
        data = halohop.open(tmp_path / "parts")
    batch = next(iter(halohop.NeighborLoader(data, [1], named, batch_size=5)))
    assert batch.n_id[: batch.batch_size].tolist() == [3, 4]
    found = halohop.placement.hotness(data, named, [1], batch_size=2)["node"]
    assert found[torch.tensor([3, 4])].min() > 0


def test_a_splits_own_name_comes_first():
    data = graph("valid")
    data.val_mask = torch.arange(5) == 0
    batch = next(iter(halohop.NeighborLoader(data, [1], "val", batch_size=5)))
    assert batch.n_id[: batch.batch_size].tolist() == [0]
    assert find_split(["valid", "val"], "validation") == "valid"


@pytest.mark.parametrize("named", ["test", "training_mask", "Valid", ""])
def test_names_of_no_split_are_refused(named):
    with pytest.raises(SchemaError, match=r"node type 'node' has no split .*; stored splits: \['train', 'valid'\]"):
        halohop.NeighborLoader(graph("valid"), [1], named)


def test_a_division_by_frequency_takes_the_same_names(tmp_path):
    parts = []
    for split in ("val", "valid"):
        out = tmp_path / split
        method = halohop.placement.Frequency(fanouts=[1], batch_size=2, split=split)
        halohop.partition(graph("val"), out, num_parts=2, method=method)
        with halohop.open(out) as opened:
            parts.append(np.asarray(opened.owners(torch.arange(5))).tolist())
    assert parts[0] == parts[1]
