"""`halohop.partition` takes graphs of PyG, and tables without PyG."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.errors import InputError
from halohop.launch.runs.source import partition_source

TABLES = """
import sys, torch, halohop
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
ring = EdgeTable(src=torch.arange(8), dst=torch.arange(1, 9) % 8)
tables = GraphTables(nodes={"node": NodeTable(num_nodes=8, columns={"x": torch.eye(8)})}, edges={("node", "to", "node"): ring})
halohop.partition(tables, sys.argv[1], num_parts=2)
assert not [name for name in sys.modules if name.startswith("torch_geometric")]
"""


@pytest.mark.parametrize(("sizes", "num_parts", "most"), [([3], 4, 3), ([3, 2], 6, 5), ([1, 0], 40, 1), ([0], 2, 1)])
def test_more_partitions_than_nodes_are_refused(tmp_path: Path, sizes: list[int], num_parts: int, most: int) -> None:
    data, nothing = HeteroData(), torch.empty(2, 0, dtype=torch.int64)
    for number, size in enumerate(sizes):
        data[f"type{number}"].num_nodes = size
        data[f"type{number}", "to", "type0"].edge_index = nothing
    with pytest.raises(InputError, match=rf"num_parts={num_parts}, but the graph has {sum(sizes)} nodes; give at most {most}"):
        halohop.partition(data, tmp_path / "parts", num_parts=num_parts, method="random")
    assert halohop.partition(data, tmp_path / "parts", num_parts=most, method="random").parts
    given = {f"type{number}": torch.zeros(size, dtype=torch.int64) for number, size in enumerate(sizes)}
    assert len(halohop.partition(data, tmp_path / "given", num_parts=num_parts, method=given).parts) == num_parts


def test_more_partitions_than_nodes_are_refused_by_the_command(tmp_path: Path) -> None:
    torch.save(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3), tmp_path / "graph.pt")
    console = Console(file=io.StringIO())
    with pytest.raises(InputError, match="num_parts=4, but the graph has 3 nodes"):
        partition_source(str(tmp_path / "graph.pt"), tmp_path / "parts", num_parts=4, method="random", seed=0, console=console)
    assert not (tmp_path / "parts").exists()


def test_tables_are_divided_without_importing_pyg(tmp_path: Path) -> None:
    """In a fresh interpreter: the import takes seconds."""
    source = str(Path(__file__).parents[2] / "src")
    command = [sys.executable, "-c", TABLES, str(tmp_path / "parts")]
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": source}, capture_output=True, timeout=60, text=True)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "parts" / "manifest.json").exists()
