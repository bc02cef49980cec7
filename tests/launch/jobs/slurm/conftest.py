"""A real Slurm: a controller and three nodes in network namespaces."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from halohop import partition
from halohop.datasets import synthetic
from tests.support import slurm
from tests.support.slurm import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if (reason := slurm.missing()) is not None:
        pytest.skip(reason)
    try:
        with slurm.cluster(tmp_path_factory.mktemp("slurm"), "node1", "node2", "node3") as made:
            yield made
    except subprocess.CalledProcessError as error:
        pytest.skip(f"Slurm does not start here: {error.cmd}: {error.stderr.strip()}")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "parts"
    partition(synthetic("tiny"), path, num_parts=4)
    return path
