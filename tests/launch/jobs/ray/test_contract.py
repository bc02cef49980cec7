"""The engine for Ray keeps the contract of engines, on a cluster of three nodes."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.contracts.engine import AttachedContract
from tests.support.launches import Launches
from tests.support.ray_cluster import Nodes

pytestmark = [pytest.mark.timeout(400), pytest.mark.full, pytest.mark.xdist_group("ray")]


class RayLaunches(Launches):
    """Launchers beside the cluster, whose nodes are all on this machine."""

    engine = "ray"
    hosts = 2
    names = (f"{socket.gethostname()}-0", f"{socket.gethostname()}-1")
    options = ("max_failures = 0", "deadline = 300")

    def __init__(self, nodes: Nodes, folder: Path, parts: Path) -> None:
        super().__init__(folder, parts)
        self._nodes = nodes

    def popen(self, arguments: Sequence[object], env: Mapping[str, str]) -> subprocess.Popen[str]:
        pipe, own = subprocess.PIPE, self._nodes.env | {"RAY_ADDRESS": self._nodes.address, **env}
        words = [sys.executable, *map(str, arguments)]
        return subprocess.Popen(words, cwd=self.folder, env=own, stdout=pipe, stderr=pipe, text=True, start_new_session=True)

    def processes(self) -> list[int]:
        return self._nodes.launched()

    def listening(self, port: int) -> AbstractContextManager[object]:
        return socket.create_server(("", port))


@pytest.fixture
def launches(nodes: Nodes, tmp_path: Path, ray_parts: Path) -> Iterator[Launches]:
    one = RayLaunches(nodes, tmp_path, ray_parts)
    yield one
    one.close()


class TestRay(AttachedContract):
    pass
