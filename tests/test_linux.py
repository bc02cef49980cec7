"""What only Linux has, and that a laptop's work is done without it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from halohop import linux

SHIM = Path(__file__).parent / "support" / "no_linux"
LAPTOP = """
import os, sys
import torch
from torch_geometric.data import Data
import halohop
from halohop.errors import InputError
from halohop.testing.graphs import ring

assert sys.platform == "darwin" and not os.path.exists("/proc/self"), "nothing is simulated"
data = Data(x=torch.arange(40.0).view(20, 2), edge_index=torch.stack([torch.arange(20), (torch.arange(20) + 1) % 20]))
seen = [batch.input_id for batch in halohop.NeighborLoader(data, [2, 2], batch_size=4, num_workers=2)]
assert torch.cat(seen).tolist() == list(range(20))
halohop.partition(ring(200), "parts", num_parts=2, method="random")
halohop.partition(ring(200), "parts", num_parts=2, method="random", overwrite=True)  # in the place of what is there
with halohop.open("parts") as graph:
    assert sum(batch.batch_size for batch in halohop.NeighborLoader(graph, [2], batch_size=50)) == 200
try:
    for batch in halohop.NeighborLoader(data, [2], batch_size=4, num_workers=2, run="processes"):
        raise AssertionError("worker processes need Linux")
except InputError as error:
    assert "needs Linux 5.3 or newer" in str(error), error
"""


def test_on_linux_each_call_does_what_it_says(tmp_path: Path) -> None:
    assert linux.boot_id()
    assert linux.seconds_since_boot() > 0
    assert linux.namespace("net").startswith("net:[")
    assert linux.start_time(os.getpid()) == linux.start_time("self") != ""
    assert linux.start_time(2**30) == ""
    assert 1024 <= linux.first_ephemeral_port() < 65536
    assert (os.getpid(), os.getppid()) in {(process, parent) for process, parent, _ in linux.parents()}
    descriptor = linux.memory_file("test", 8192)
    assert os.fstat(descriptor).st_size == 8192
    os.close(descriptor)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    with (tmp_path / "file").open("w+b") as stream:
        linux.reserve(stream.fileno(), 5000)
        assert os.fstat(stream.fileno()).st_size == 5000
        linux.forget_pages(stream.fileno())
        link.unlink()
        link.symlink_to("/etc/hostname")
        assert linux.path_of_open_file(stream.fileno(), link) == tmp_path / "file"


def test_mappings_are_those_of_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(5000))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    (found,) = (each for each in linux.mappings() if each.path == str(tmp_path / "x.npy"))
    assert found.begin <= mapped.ctypes.data < found.end
    assert found.inode == (tmp_path / "x.npy").stat().st_ino


@pytest.fixture
def elsewhere(tmp_path: Path):
    """Runs Python in a folder without what only Linux has."""
    if os.geteuid() != 0:
        pytest.skip("only root can hide /proc")

    def run(*args: str) -> str:
        hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        env = os.environ | {"PYTHONPATH": f"{SHIM}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        ended = subprocess.run(
            [*hidden, sys.executable, *args], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run


@pytest.mark.timeout(600)
def test_a_laptop_does_its_work_without_linux(elsewhere) -> None:
    elsewhere("-c", LAPTOP)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_commands_of_a_laptop_run_without_linux(elsewhere, tmp_path: Path) -> None:
    source = "synthetic:powerlaw?nodes=2000&edges=16000&features=8&classes=4"
    elsewhere("-m", "halohop", "partition", source, "parts", "--parts", "2")
    elsewhere("-m", "halohop", "train", "parts", "--epochs", "1", "--trainers", "2", "--out", "run")
    elsewhere("-m", "halohop", "infer", "parts", "--checkpoint", "run/checkpoint", "--out", "predictions")
    assert len(list(tmp_path.glob("predictions/*"))) > 0
