"""Jobs on hosts with real ssh servers, in network namespaces."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from halohop.datasets import synthetic
from halohop.partitioning.building.build import partition
from tests.support.launches import Launches
from tests.support.sshd import Cluster, ssh_hosts


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two hosts, ``a`` and ``b``."""
    with ssh_hosts(2, tmp_path_factory.mktemp("ssh")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "parts"
    partition(synthetic("tiny"), path, num_parts=2, method="random")
    return path


class SshLaunches(Launches):
    """Launchers on the cluster's own host, which has no ssh server."""

    engine = "ssh"

    def __init__(self, cluster: Cluster, folder: Path, parts: Path) -> None:
        super().__init__(folder, parts)
        self.cluster = cluster

    def popen(self, arguments: Sequence[object], env: Mapping[str, str]) -> subprocess.Popen[str]:
        return self.cluster.here.start(*arguments, env=dict(env))

    def processes(self) -> list[int]:
        launchers = {process.pid for process in self._running if process.poll() is None}
        return [number for number in self.cluster.left() if number not in launchers]

    def start(self, *run: object, more: str = "", table: str = "", config: Path | None = None) -> subprocess.Popen[str]:
        """As of `Launches`; `config` is of ssh."""
        command = f"command = 'ssh -F {config or self.cluster.config}'"
        return super().start(*run, more=more, table=f"{command}\n{table}")

    @contextmanager
    def listening(self, port: int) -> Iterator[object]:
        code = f"import socket; s = socket.create_server(('', {port})); print('up', flush=True); s.accept()"
        listener = self.cluster.hosts[0].start("-c", code)
        assert listener.stdout is not None
        assert listener.stdout.readline() == "up\n"
        yield
        listener.kill()
        listener.communicate(timeout=20)


@pytest.fixture
def launches(cluster: Cluster, tmp_path: Path, parts: Path) -> Iterator[SshLaunches]:
    one = SshLaunches(cluster, tmp_path, parts)
    yield one
    one.close()
