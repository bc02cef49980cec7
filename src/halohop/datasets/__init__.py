"""Sources of graphs: every one returns `halohop.store.tables.GraphTables`."""

from halohop.datasets.npz import read_npz
from halohop.datasets.ogb import ogb_node
from halohop.datasets.rdf import aifb, read_ntriples, read_rdf
from halohop.datasets.spec import EdgeFiles, GraphFiles, NodeFiles, load_spec
from halohop.datasets.splits import random_masks
from halohop.datasets.synthetic import synthetic, synthetic_hetero
from halohop.datasets.tables import read_tables

__all__ = [
    "EdgeFiles",
    "GraphFiles",
    "NodeFiles",
    "aifb",
    "load_spec",
    "ogb_node",
    "random_masks",
    "read_npz",
    "read_ntriples",
    "read_rdf",
    "read_tables",
    "synthetic",
    "synthetic_hetero",
]
