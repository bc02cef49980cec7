"""Hosts on one machine: network namespaces joined by a switch, each with a file system view of its own folder."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A network namespace with one address."""

    name: str
    address: str
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *arguments: object, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Runs Python with these arguments on the host."""
        command = ["ip", "netns", "exec", self.name, sys.executable, *map(str, arguments)]
        process = subprocess.Popen(
            command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.running.append(process)
        return process


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=20)


@pytest.fixture
def network() -> Iterator[list[Host]]:
    """Three hosts that reach each other, and nothing else."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need iproute2 and root")
    tag = f"hh{os.getpid()}"
    hosts = [Host(name=f"{tag}-{number}", address=f"10.99.0.{number + 1}") for number in range(3)]
    switch = f"{tag}-s"
    made: list[str] = []
    try:
        try:
            for name in (switch, *(host.name for host in hosts)):
                _ip("netns", "add", name)
                made.append(name)
            _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
            _ip("-n", switch, "link", "set", "bridge", "up")
            for number, host in enumerate(hosts):
                port = f"port{number}"
                _ip("-n", host.name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", switch)
                _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
                _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
                _ip("-n", host.name, "link", "set", "eth0", "up")
                _ip("-n", host.name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
        yield hosts
    finally:
        for host in hosts:
            for process in host.running:
                if process.poll() is None:
                    process.kill()
                process.communicate(timeout=20)
        for name in made:
            _ip("netns", "del", name)


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
