"""One cluster of Ray's for all tests of a session that need one."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from halohop.datasets import synthetic
from halohop.partitioning.building.build import partition
from tests.support.ray_cluster import Nodes


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    """A cluster of three nodes; a test that removes one adds another."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'halohop[ray]'")
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # sockets lie there, whose names must be short
    cluster = Nodes(folder)
    yield cluster
    cluster.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def ray_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic graph of 1000 nodes in four partitions."""
    parts = tmp_path_factory.mktemp("ray") / "parts"
    partition(synthetic("tiny"), parts, num_parts=4, method="random")
    return parts
