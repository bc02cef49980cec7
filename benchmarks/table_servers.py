"""What contestants of the benchmark of tables share: its sizes, and servers whose partitions hold the tables."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import torch

import halohop
from benchmarks.cluster import told
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE
from tests.support.hosts import Host

NUM_ROWS, WIDTH = 1_000_000, 64
BATCHES = 8
SECRET = {"HALOHOP_TOKEN": "a secret of this benchmark only"}


def divided(folder: str, parts: int) -> Path:
    """A graph of a million nodes and as many edges, in so many partitions, whose ids say nothing of where a node lies."""
    path = Path(folder) / "parts"
    nodes = torch.arange(NUM_ROWS)
    tables = GraphTables(nodes={NODE: NodeTable(num_nodes=NUM_ROWS)}, edges={EDGE: EdgeTable(src=nodes, dst=nodes.roll(1))})
    halohop.partition(tables, path, num_parts=parts, method="random")
    return path


def serve_tables(end: ExitStack, parts: Path, addresses: list[str], hosts: list[Host] | None = None) -> None:
    """A server for each partition, on this host or on hosts of their own; returns when all serve."""
    started = []
    for part, address in enumerate(addresses):
        others = ",".join(other for other in addresses if other != address)
        options = ["-m", "halohop", "serve", str(parts), "--partitions", str(part), "--listen", address, "--peers", others]
        if hosts is not None:
            started.append(hosts[part].start(*options, env=SECRET))
            continue
        command = [sys.executable, *options]
        server = subprocess.Popen(
            command, env=os.environ | SECRET, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        end.callback(server.wait, 20)
        end.callback(server.terminate)
        started.append(server)
    for server in started:
        lines = iter(told(server.stderr).readline, "")
        assert any(line.startswith("serving") for line in lines), "the server has ended"  # it may compile kernels first


def batches_of(touched: int, rank: int = 0) -> list[torch.Tensor]:
    """Distinct ids of rows, in any order; those of two ranks overlap by chance."""
    order = torch.Generator().manual_seed(rank)
    return [torch.randperm(NUM_ROWS, generator=order)[:touched] for _ in range(BATCHES)]
