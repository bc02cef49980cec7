"""Where scripts want things to lie, on a machine without a GPU."""

import warnings

import pytest
import torch

from halohop.errors import InputError
from halohop.glt.data import Dataset
from halohop.glt.loader import NeighborLoader
from halohop.glt.modes import device_of, seed_of

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
EDGES = torch.tensor([[0, 1], [1, 0]])


@without_gpu
def test_the_default_mode_says_once_that_neighbours_are_drawn_on_the_cpu() -> None:
    with pytest.warns(UserWarning, match="graph_mode changes nothing here: there is no GPU"):
        Dataset().init_graph(EDGES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Dataset().init_graph(EDGES)
        Dataset().init_graph(EDGES, graph_mode="cpu", device=0)  # GLT heeds no device there, either


@without_gpu
@pytest.mark.parametrize(
    ("message", "how"),
    [
        (r"graph_mode='CUDA' needs a GPU", {"graph_mode": "CUDA"}),
        (r"device=0 is a GPU, and torch finds none here", {"device": 0}),
        (r"device=device\(type='cuda', index=1\) is a GPU", {"device": torch.device("cuda", 1)}),
    ],
)
def test_a_gpu_that_is_asked_for_must_be_there(message: str, how: dict[str, object]) -> None:
    with pytest.raises(InputError, match=message):
        Dataset().init_graph(EDGES, **how)  # type: ignore[arg-type]


@without_gpu
def test_a_device_of_batches_or_features_must_be_there() -> None:
    dataset = Dataset()
    dataset.init_graph(EDGES, graph_mode="CPU")
    with pytest.raises(InputError, match="device='cuda:0' is a GPU, and torch finds none here; leave it out"):
        NeighborLoader(dataset, [1], torch.tensor([0]), device="cuda:0")
    with pytest.raises(InputError, match="device=0 is a GPU"):
        dataset.init_node_features(torch.eye(2), device=0)
    dataset.init_node_features(torch.eye(2), device=0, with_gpu=False)
    assert NeighborLoader(dataset, [1], torch.tensor([0])).device == device_of("cpu") == device_of(None)


def test_a_seed_that_is_left_out_is_torchs() -> None:
    torch.manual_seed(11)
    assert (seed_of(None), seed_of(0)) == (11, 0)
