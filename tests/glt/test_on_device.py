"""GLT's modes where there is a GPU: on one that is pretended."""

from typing import Any

import pytest
import torch

from halohop.errors import InputError
from halohop.glt.data import Dataset, DeviceGroup
from halohop.glt.loader import NeighborLoader
from tests.support.pretend_gpu import home

NODES = 60
EDGES = torch.randint(NODES, (2, 300), generator=torch.Generator().manual_seed(0))
X = torch.rand(NODES, 16)


def loaded(mode: str, device: Any = None, **features: Any) -> Dataset:
    dataset = Dataset()
    dataset.init_graph(EDGES, graph_mode=mode, device=device)
    dataset.init_node_features(X, **features)
    dataset.init_node_labels(torch.arange(NODES))
    return dataset


def batches(dataset: Dataset, device: Any = None) -> list[Any]:
    return list(NeighborLoader(dataset, [3, 2], torch.arange(20), batch_size=10, seed=3, device=device, num_workers=0))


@pytest.fixture
def here() -> list[Any]:
    """The batches of the CPU."""
    return batches(loaded("CPU", with_gpu=False))


@pytest.fixture
def gpus(here: list[Any], pretended_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them, after the CPU's batches are made."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("mode", "ratio", "groups"),
    [
        ("CPU", 0.3, None),
        ("ZERO_COPY", 1.0, [DeviceGroup(0, [0])]),
        ("CUDA", 0.3, [DeviceGroup(0, [2, 3]), DeviceGroup(1, [0, 1])]),
        ("CUDA", 1.0, None),
    ],
    ids=str,
)
def test_modes_and_shares_of_rows_are_those_of_the_gpu(here: list[Any], mode: str, ratio: float, groups: Any) -> None:
    dataset = loaded(mode, split_ratio=ratio, device_group_list=groups)
    found = batches(dataset)
    options = dataset.halohop_graph.on_device.options
    assert (options.device, options.mode) == ("cuda:0", mode.lower())
    assert options.cache_devices == (("cuda:0", "cuda:1") if groups and len(groups) == 2 else ())
    rows = dataset.halohop_graph.on_device._rows._columns["node", "x"].num_hot
    assert abs(rows - ratio * NODES) <= 0.1 * NODES
    for one, other in zip(found, here, strict=True):
        for key in ("x", "y", "node", "edge_index", "batch"):
            assert one[key].is_cuda, key
            assert torch.equal(home(one[key]), other[key]), key


@pytest.mark.usefixtures("gpus")
def test_without_a_mode_or_a_share_the_cpu_makes_batches() -> None:
    assert loaded("CPU").halohop_graph.on_device is None
    assert loaded("CPU", split_ratio=0.5, with_gpu=False).halohop_graph.on_device is None


@pytest.mark.usefixtures("gpus")
def test_two_devices_in_one_loader_are_refused() -> None:
    dataset = loaded("CUDA", device=0)
    for device in ("cuda:1", 1, "cpu"):
        with pytest.raises(InputError, match=f"device={device!r}, but the graph of the Dataset is on cuda:0; give init_graph"):
            batches(dataset, device)
    assert batches(dataset, "cuda")[0].x.is_cuda
