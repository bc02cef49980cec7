"""The engine for Slurm keeps the contract of engines, on a real Slurm."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.contracts.engine import EngineContract
from tests.support.launches import SubmittedLaunches
from tests.support.slurm import Cluster

pytestmark = [pytest.mark.full, pytest.mark.timeout(300), pytest.mark.xdist_group("alone")]


class SlurmLaunches(SubmittedLaunches):
    """Launchers on the login host that wait for their jobs."""

    engine = "slurm"
    names = ("node1", "node2")
    options = ("time = 30", "mem = '1000M'")
    own_logs = ("slurm-",)

    def __init__(self, cluster: Cluster, folder: Path, parts: Path) -> None:
        super().__init__(folder, parts)
        self.cluster = cluster

    def popen(self, arguments: Sequence[object], env: Mapping[str, str]) -> subprocess.Popen[str]:
        return self.cluster.login.start(*arguments, "--wait", env={**self.cluster.env, **env})

    def processes(self) -> list[int]:
        return [*self.cluster.processes()]


@pytest.fixture
def launches(cluster: Cluster, tmp_path: Path, parts: Path) -> Iterator[SlurmLaunches]:
    one = SlurmLaunches(cluster, tmp_path, parts)
    yield one
    one.close()


class TestSlurm(EngineContract):
    pass
