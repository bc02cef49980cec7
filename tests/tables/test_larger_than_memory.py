"""A table and its state of four times the memory that the process may have: the same bits as in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.full, pytest.mark.timeout(900), pytest.mark.xdist_group("alone")]

ROOT = Path(__file__).parents[2]


def group_of_limited_memory() -> bool:
    """Whether one can be made."""
    top = Path("/sys/fs/cgroup")
    group = (top / "memory" if (top / "memory").is_dir() else top) / f"halohop-test-{os.getpid()}"
    try:
        group.mkdir()
        limits = any((group / name).exists() for name in ("memory.max", "memory.limit_in_bytes"))
        group.rmdir()
    except OSError:
        return False
    return limits


def test_rows_and_state_on_disk_are_the_same_bits_in_a_quarter_of_their_size() -> None:
    if not group_of_limited_memory():
        pytest.skip("no control group with limited memory can be made here: no root, or none are mounted")
    options = ["--limit", "448MiB", "--rule", "adam", "--width", "64", "--batch", "20000", "--steps", "8"]
    command = [sys.executable, "-m", "benchmarks.table_on_disk", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["same bits"] is True
    assert found["exit code"] == 0
    assert found["peak of the group, MiB"] <= 448
