"""`halohop.partition` takes graphs of PyG, and tables without PyG."""

import os
import subprocess
import sys
from pathlib import Path

TABLES = """
import sys, torch, halohop
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
ring = EdgeTable(src=torch.arange(8), dst=torch.arange(1, 9) % 8)
tables = GraphTables(nodes={"node": NodeTable(num_nodes=8, columns={"x": torch.eye(8)})}, edges={("node", "to", "node"): ring})
halohop.partition(tables, sys.argv[1], num_parts=2)
assert not [name for name in sys.modules if name.startswith("torch_geometric")]
"""


def test_tables_are_divided_without_importing_pyg(tmp_path: Path) -> None:
    """In a fresh interpreter: the import takes seconds."""
    source = str(Path(__file__).parents[2] / "src")
    command = [sys.executable, "-c", TABLES, str(tmp_path / "parts")]
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": source}, capture_output=True, timeout=60, text=True)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "parts" / "manifest.json").exists()
