"""A small graph of many relations: thousands of small files, each of which costs little."""

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from halohop.partitioning.building.build import partition
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from tests.support.deadlines import within

RELATIONS, PARTS = 60, 8


def typed() -> GraphTables:
    chance = torch.Generator().manual_seed(1)
    nodes = {
        f"type {number}": NodeTable(num_nodes=300, columns={"x": torch.rand(300, 4, generator=chance)}) for number in range(7)
    }
    edges = {}
    for number in range(RELATIONS):
        src, dst = torch.randint(0, 300, (2, 500), generator=chance)
        edges[(f"type {number % 7}", f"relation {number}", f"type {number % 5}")] = EdgeTable(src=src, dst=dst)
    return GraphTables(nodes=nodes, edges=edges)


@pytest.mark.xdist_group("alone")
@pytest.mark.full
def test_many_small_files_take_little_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is opened once to write it and once to see it, and they reach the disk together."""
    opened: Counter[str] = Counter()
    original = os.open

    def counted(path: Any, *arguments: Any, **options: Any) -> int:
        opened[Path(path).suffix] += 1
        return original(path, *arguments, **options)

    tables = typed()
    partition(tables, tmp_path / "first", num_parts=PARTS, method="random")  # which loads kernels
    began = time.process_time()
    partition(tables, tmp_path / "second", num_parts=PARTS, method="random")
    assert time.process_time() - began < within(1.5)
    monkeypatch.setattr(os, "open", counted)
    partition(tables, tmp_path / "third", num_parts=PARTS, method="random")
    files = sum(1 for _ in (tmp_path / "third").rglob("*.npy"))
    assert files >= 3 * RELATIONS * PARTS
    assert opened[".npy"] <= 3 * files  # written, seen, synced
