"""KaMinPar: few cut edges, every load even, the same each time; lists in memory and on disk."""

from pathlib import Path

import pytest
import torch

from halohop.errors import InputError
from halohop.partitioning.assigners import kaminpar as kaminpar_module
from halohop.partitioning.assigners.assign import assign
from halohop.partitioning.planning.budget import Budget
from tests.support.assigning import balances, clustered, cut, graph, mixed


def test_cut_balance_and_determinism(tmp_path: Path) -> None:
    tables = clustered()
    found = assign(tables, 4, "kaminpar").part
    assert max(balances(tables, found, 4)) <= 1.05 + 1e-6
    assert cut(tables, found) < 0.3  # at random: 0.75
    assert torch.equal(found["node"], assign(tables, 4, "kaminpar", memory=Budget(bytes=1), scratch=tmp_path).part["node"])
    assert list(tmp_path.iterdir()) == []


def test_types_loops_and_parallel_edges() -> None:
    tables = mixed()
    found = assign(tables, 3, "kaminpar").part
    assert max(balances(tables, found, 3)) <= 1.05 + 1e-6
    assert {name: len(part) for name, part in found.items()} == {"paper": 500, "author": 300}


@pytest.mark.parametrize("num_nodes", [0, 1, 3, 50])
def test_small_graphs_and_graphs_without_edges(num_nodes: int) -> None:
    rows = torch.arange(num_nodes)
    for src in (rows.roll(1), rows, rows[:0]):
        part = assign(graph(src, rows[: len(src)], num_nodes), 4, "kaminpar").part["node"]
        assert part.shape == (num_nodes,)
        assert part.dtype == torch.int32
        assert part.bincount(minlength=4).max() <= max(1.05 * num_nodes / 4, -(-num_nodes // 4))


def test_it_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kaminpar_module, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"halohop\[kaminpar\].*ldg"):
        assign(mixed(), 2, "kaminpar")
