"""Sources of graphs: every one returns `halohop.store.tables.GraphTables`, those for link prediction within `LinkTables`."""

from halohop.datasets.arrays import read_arrays
from halohop.datasets.direction import add_reverses, directions
from halohop.datasets.links import EdgeSplit, LinkTables, random_edge_masks
from halohop.datasets.npz import read_npz
from halohop.datasets.ogb import ogb_node
from halohop.datasets.rdf import aifb, read_ntriples, read_rdf
from halohop.datasets.scale import normalize_rows, scales
from halohop.datasets.spec import EdgeFiles, GraphFiles, NodeFiles, load_spec
from halohop.datasets.splits import random_masks, time_masks
from halohop.datasets.synthetic import synthetic, synthetic_hetero
from halohop.datasets.tables import read_tables
from halohop.datasets.temporal import read_temporal
from halohop.datasets.triples import read_triples

__all__ = [
    "EdgeFiles",
    "EdgeSplit",
    "GraphFiles",
    "LinkTables",
    "NodeFiles",
    "add_reverses",
    "aifb",
    "directions",
    "load_spec",
    "normalize_rows",
    "ogb_node",
    "random_edge_masks",
    "random_masks",
    "read_arrays",
    "read_npz",
    "read_ntriples",
    "read_rdf",
    "read_tables",
    "read_temporal",
    "read_triples",
    "scales",
    "synthetic",
    "synthetic_hetero",
    "time_masks",
]
