"""What kernels of a GPU found wrong, as the host says it, and what is free there."""

import pytest
import torch

from halohop.errors import IdError, InputError
from halohop.ops.device import DevicePool, Fault
from tests.support.pretend_gpu import PretendPool


def test_what_is_wrong_is_said_once():
    pool = PretendPool()
    pool.faults[Fault.ORDER :].fill_(7)
    with pytest.raises(InputError, match=r"^excluded falls to entry 7; give it sorted$"):
        pool.check()
    pool.check()


def test_a_row_that_is_not_there_is_said_before_all_else():
    pool = PretendPool()
    pool.faults[Fault.ROW :].fill_(-3)
    with pytest.raises(IdError, match=r"^row -3 is not there$"):
        pool.check()


def test_what_torch_keeps_idle_is_free(monkeypatch):
    """A second loader, after the first has trained, has as much room as the first."""
    pool = DevicePool.__new__(DevicePool)
    pool.device = torch.device("cuda", 0)
    for name, found in {"mem_get_info": (10, 80), "memory_reserved": 60, "memory_allocated": 25}.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, found=found: found)
    assert pool.free_bytes() == 10 + 60 - 25
