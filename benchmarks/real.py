"""Real graphs for what synthetic ones cannot show: how well a graph divides, and what a model learns of it.

Coauthor CS and Amazon Computers (PyG's raw files, features divided by their sums), and the web graph cnr-2000 (both directions,
one page in ten to train on), as they lie in ``../shared/data``. Each is divided by METIS into 64 blocks; fewer blocks are runs of
them.
"""

import gzip
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

import halohop
from benchmarks.paths import GRAPHS, ROOT
from halohop.datasets.sources import load_source
from halohop.partitioning.assigners.division import AssignRequest, Division
from halohop.partitioning.assigners.metis import metis
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE

DATA = ROOT.parent / "shared" / "data"
NAMES = ("cs", "computers", "cnr")
MOST_BLOCKS = 64

_OF_PYG = {
    "cs": ("Coauthor/CS", "CS", "ms_academic_cs.npz"),
    "computers": ("Amazon/Computers", "Computers", "amazon_electronics_computers.npz"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InRunsOfBlocks:
    """METIS's blocks, joined to so many."""

    num_blocks: int

    def __call__(self, tables: GraphTables, request: AssignRequest) -> Division:
        made = metis(tables, replace(request, num_blocks=MOST_BLOCKS))
        assert made.block is not None
        joined = {name: block // (MOST_BLOCKS // self.num_blocks) for name, block in made.block.items()}
        return replace(made, block=joined, num_blocks=self.num_blocks)


def in_blocks(name: str, num_blocks: int, num_parts: int) -> Path:
    """The folder of a graph in so many blocks and partitions, which is made once."""
    folder = GRAPHS / name / f"parts-{num_parts}-blocks-{num_blocks}"
    if not folder.exists():
        print(f"dividing {name} into {num_parts} with {num_blocks} blocks, once", flush=True)
        halohop.partition(read(name), folder, num_parts=num_parts, method=InRunsOfBlocks(num_blocks=num_blocks))
    return folder


def read(name: str) -> GraphTables:
    """One of `NAMES`."""
    if name == "cnr":
        return _web_graph(DATA / "cnr2000" / "cnr-2000.graph-txt.gz")
    spec, folder, file = _OF_PYG[name]
    raw = GRAPHS / "pyg" / folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    if not (raw / file).exists():
        (raw / file).symlink_to(DATA / "amazon_coauthor" / file)
    return load_source(f"pyg:{spec}?root={GRAPHS / 'pyg'}", normalize=True)


def _web_graph(file: Path) -> GraphTables:
    """A graph as a line of destinations for every node, the first line being their number."""
    with gzip.open(file, "rt") as lines:
        num_nodes = int(next(lines))
        rows = [np.array(line.split(), dtype=np.int64) for line in lines]
    src = torch.arange(num_nodes).repeat_interleave(torch.tensor([len(row) for row in rows]))
    dst = torch.from_numpy(np.concatenate(rows))
    train = torch.rand(num_nodes, generator=torch.Generator().manual_seed(0)) < 0.1
    nodes = {NODE: NodeTable(num_nodes=num_nodes, columns={"train_mask": train})}
    return GraphTables(nodes=nodes, edges={EDGE: EdgeTable(src=torch.cat([src, dst]), dst=torch.cat([dst, src]))})
