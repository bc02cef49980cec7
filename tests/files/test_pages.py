"""Which memory is a file's."""

from pathlib import Path

import numpy as np
import pytest
import torch

from halohop.files.pages import is_mapped


def test_mappings_of_files_are_known(tmp_path: Path) -> None:
    if not Path("/proc/self/maps").exists():
        pytest.skip("this system does not list mappings")
    np.save(tmp_path / "x.npy", np.zeros(1 << 20))
    mapped = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="c", allow_pickle=False))
    memory = torch.zeros(1 << 20)
    assert is_mapped(mapped.data_ptr())
    assert is_mapped(mapped[1000:].data_ptr())
    assert not is_mapped(memory.data_ptr())
    assert not is_mapped(0)
