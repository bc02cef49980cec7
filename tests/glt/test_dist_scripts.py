"""Scripts of several processes as users of GLT write them run, changed by their import alone, and learn."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from halohop.testing.worlds import environment, free_addresses
from tests.glt import test_scripts
from tests.support.deadlines import within

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]
data = test_scripts.root


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, str(test_scripts.SCRIPTS / script), *map(str, arguments)]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment() | {"OMP_NUM_THREADS": "1"})


def end(*processes: subprocess.Popen[str]) -> str:
    """What processes have printed, which end well."""
    try:
        found = [process.communicate(timeout=within(120)) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0] * len(processes), "".join(err for _, err in found)
    return "".join(out for out, _ in found)


def ports(*names: str) -> list[str]:
    return [f"--{name}={address.split(':')[1]}" for name, address in zip(names, free_addresses(len(names)), strict=True)]


def assert_learned(printed: str, least: float) -> None:
    """The loss falls by a fifth, and the share of right answers is high."""
    losses = [float(loss) for loss in re.findall(r"Loss: ([0-9.]+)", printed)]
    assert losses[-1] < 0.8 * losses[0], printed
    (right,) = re.findall(r"(?:Test|Train): ([0-9.]+)", printed)
    assert float(right) > least, printed


@pytest.fixture
def root(data: Path, tmp_path: Path) -> Path:
    """The data, in a folder to write to."""
    for file in data.iterdir():
        (tmp_path / file.name).symlink_to(file)
    return tmp_path


@pytest.mark.parametrize("edge_dir", ["in", "out"])
def test_rgat_as_mlperf_has_it(root, edge_dir):
    """Two nodes, each with a partition, features of half precision, and checkpoints."""
    how = ["--path", root, "--edge_dir", edge_dir]
    end(start("igbh/dist_train_rgnn.py", *how, "--partition_only"))
    how += ports("training_pg_master_port", "train_loader_master_port", "val_loader_master_port")
    assert_learned(end(*(start("igbh/dist_train_rgnn.py", *how, "--node_rank", rank) for rank in range(2))), 0.5)


def test_weighted_links_of_uneven_ranks(root):
    """16 batches of one rank and 8 of the other, under DDP and Join."""
    how = ["--root", root, "--with_weight", *ports("training_pg_master_port", "loader_master_port")]
    printed = end(start("distributed/dist_sage_unsup.py", *how))
    assert_learned(printed, 0.6)
    assert set(re.findall(r"\[Trainer (\d)\] (\d+) batches", printed)) == {("0", "16"), ("1", "8")}


@pytest.mark.parametrize("book", [(), ("--range_book",)], ids=["dense", "range"])
def test_parts_in_memory(root, book):
    how = ["--root", root, *book, *ports("training_pg_master_port", "loader_master_port")]
    assert_learned(end(start("distributed/dist_in_memory.py", *how)), 0.6)
