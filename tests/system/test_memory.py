"""Trainers of a host share the pages of a graph: a second one adds no copy, and opening copies nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from halohop import partition
from halohop.store.tables import EdgeTable, GraphTables, NodeTable

TOUCHER = Path(__file__).parent / "toucher.py"
MEGABYTE = 2**20


def proportional_bytes(pid: int, suffix: str) -> int:
    """The process's share of the pages mapped from files of that name (PSS: a page counts half if two map it)."""
    total, wanted = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            wanted = line.endswith(suffix)
        elif wanted and line.startswith("Pss:"):
            total += int(line.split()[1]) * 1024
    return total


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's /proc/PID/smaps")
def test_a_second_trainer_adds_no_copy(tmp_path):
    x = torch.randn(100_000, 256)
    ends = torch.randint(len(x), (2, 1000))
    tables = GraphTables(
        nodes={"node": NodeTable(num_nodes=len(x), columns={"x": x})},
        edges={("node", "to", "node"): EdgeTable(src=ends[0], dst=ends[1])},
    )
    partition(tables, tmp_path / "parts", num_parts=2, method="random")
    size = x.numel() * x.element_size()
    trainers = [
        subprocess.Popen(
            [sys.executable, str(TOUCHER), str(tmp_path / "parts")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        for trainer in trainers:
            assert trainer.stdout is not None
            opened, used = map(int, trainer.stdout.readline().split())
            assert opened < MEGABYTE
            assert used < size / 3  # the rows in flight and the ids, but no second x
        mapped = sum(proportional_bytes(trainer.pid, "/x.npy") for trainer in trainers)
        assert 0.99 * size < mapped < 1.05 * size
    finally:
        for trainer in trainers:
            trainer.communicate(timeout=60)
    assert [trainer.returncode for trainer in trainers] == [0, 0]
