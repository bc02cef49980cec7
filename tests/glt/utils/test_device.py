"""Devices, where there is no GPU."""

import pytest
import torch

from halohop.glt import utils


def test_without_a_gpu_everything_is_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert utils.get_available_device() == utils.assign_device() == torch.device("cpu")
    assert utils.get_available_device("cuda:1") == torch.device("cuda", 1)
    utils.ensure_device(torch.device("cpu"))


def test_gpus_are_assigned_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    first, second, third = (utils.assign_device() for _ in range(3))
    assert first == third != second
    assert {first.index, second.index} == {0, 1}
