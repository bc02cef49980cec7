"""Servers in processes of their own, and hosts in network namespaces, each with a file system view of its own folder."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from halohop.testing.graphs import ring
from halohop.testing.worlds import environment
from tests.support.forked import Forked
from tests.support.hosts import Host, joined_or_skipped


@pytest.fixture
def network() -> Iterator[list[Host]]:
    """Four hosts that reach each other, and nothing else."""
    with joined_or_skipped(4) as hosts:
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


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small graph in two partitions."""
    from halohop import partition

    path = tmp_path_factory.mktemp("serve") / "parts"
    partition(ring(600), path, num_parts=2, method="random")
    return path


@pytest.fixture
def start(parts) -> Iterator[Any]:
    """Starts a server and waits until it says where it answers."""
    running: list[Forked] = []

    def begin(
        partitions: str, listen: str = "127.0.0.1:0", peers: str = "", *more: str, path: Path = parts
    ) -> tuple[Forked, str]:
        options = ["--partitions", partitions, "--listen", listen, "--peers", peers, *more]
        process = Forked("halohop.__main__", ["serve", str(path), *options], environment())
        running.append(process)
        line = process.stderr.readline()
        told = f"serving partitions {', '.join(partitions.split(','))} of {path} at tcp://127.0.0.1:"
        if not line.startswith(told):
            process.kill()
            pytest.fail(line + process.stderr.read())
        return process, line.split()[-1]

    yield begin
    for process in running:
        process.kill()
        process.wait(60)
        process.close()
