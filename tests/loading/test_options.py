"""Options of the loaders: what cannot work is refused when the loader is made, by the option's name."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop.errors import InputError


def loader(**options: object) -> halohop.NeighborLoader:
    data = Data(edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), x=torch.eye(4))
    return halohop.NeighborLoader(data, [1], batch_size=2, **options)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        *(
            ("timeout", value, "is not a finite number of seconds; give 0 or more")
            for value in (-1, "5", float("nan"), float("inf"))
        ),
        *(("prefetch_factor", value, "is not a whole number") for value in (2.5, "3", [2])),
        *(("backlog_bytes", value, "is not a whole number") for value in (1e9, "1GB")),
        *((name, -1, "is below 0; give 0 or more") for name in ("prefetch_factor", "num_workers", "backlog_bytes")),
    ],
)
def test_numbers_that_cannot_work_are_refused_by_name(option, value, message):
    with pytest.raises(InputError, match=rf"^{option}=.* {message}"):
        loader(**{option: value})


@pytest.mark.parametrize(
    "options", [{"timeout": np.float32(7)}, {"prefetch_factor": np.int64(3)}, {"prefetch_factor": 0}], ids=str
)
def test_numbers_that_work(options):
    assert len(list(loader(num_workers=1, **options))) == 2


class Endless:
    def __iter__(self):
        return iter([0, 1])


@pytest.mark.parametrize("option", ["sampler", "batch_sampler"])
@pytest.mark.parametrize(
    "order", [Endless(), iter([0, 1]), 3, (number for number in (0, 1))], ids=["class", "iterator", "int", "generator"]
)
def test_orders_without_a_length_are_refused_by_name(option, order):
    with pytest.raises(InputError, match=rf"^{option} is a {type(order).__name__} without a length; give a list"):
        loader(**{option: order})
