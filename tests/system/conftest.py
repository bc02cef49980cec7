"""Hosts in network namespaces, each with a file system view of its own folder."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from halohop.testing.hosts import Host, joined


@pytest.fixture
def network() -> Iterator[list[Host]]:
    """Four hosts that reach each other, and nothing else."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need iproute2 and root")
    with ExitStack() as undo:
        try:
            hosts = undo.enter_context(joined(4))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
        yield hosts


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Three folders, each with the manifest and one partition of the same graph; the whole lies in tmp_path/"parts"."""
    from halohop import partition
    from halohop.datasets import synthetic

    whole = tmp_path / "parts"
    partition(synthetic("tiny"), whole, num_parts=3, method="metis", halo=("raw_id",))
    for host in range(3):
        folder = tmp_path / f"host-{host}"
        folder.mkdir()
        shutil.copy(whole / "manifest.json", folder)
        shutil.copytree(whole / f"part-{host:04d}", folder / f"part-{host:04d}")
    return [tmp_path / f"host-{host}" for host in range(3)]
