import os
from pathlib import Path

import pytest
import torch

from halohop.store.mapped import shortened_files
from halohop.store.npy import map_array, write_array


def test_a_file_that_was_cut_while_it_is_mapped_is_named(tmp_path: Path) -> None:
    if not Path("/proc/self/maps").exists():
        pytest.skip("this system does not list mappings")

    def shortened() -> list[str]:  # tests before may have left such mappings
        return [file for file in shortened_files() if Path(file).parent == tmp_path]

    whole, cut, gone = (tmp_path / f"{name} with spaces.npy" for name in ("whole", "cut", "gone"))
    mapped = []
    for file in (whole, cut, gone):
        record = write_array(file, torch.arange(5000))
        mapped.append(map_array(file, record, torch.int64))
    assert shortened() == []
    os.truncate(cut, 9000)
    gone.unlink()
    gone.write_bytes(b"another file")
    assert shortened() == [str(cut)]
    del mapped
    assert shortened() == []
