"""Sources of graphs: every one returns `halohop.store.tables.GraphTables`. `halohop.load_source` finds the one for a word."""

from halohop.datasets.arrays import read_arrays
from halohop.datasets.direction import add_reverses, directions
from halohop.datasets.edge_splits import random_edge_masks, timed_edge_masks
from halohop.datasets.exports.dgl import write_dgl
from halohop.datasets.imports.dgl import dgl_owners, read_dgl
from halohop.datasets.imports.glt import glt_owners, read_glt
from halohop.datasets.imports.imported import Imported, Owners
from halohop.datasets.imports.restricted import load_tensor
from halohop.datasets.ogb import ogb_node
from halohop.datasets.part_config import PartConfig, read_part_config, writing_part_config
from halohop.datasets.powerlaw import PowerLaw, power_law
from halohop.datasets.scale import normalize_rows, scales
from halohop.datasets.spec import EdgeFiles, GraphFiles, NodeFiles, load_spec
from halohop.datasets.splits import random_masks, time_masks
from halohop.datasets.staging import Staging
from halohop.datasets.synthetic import synthetic, synthetic_hetero
from halohop.datasets.tables import read_tables

__all__ = [
    "EdgeFiles",
    "GraphFiles",
    "Imported",
    "NodeFiles",
    "Owners",
    "PartConfig",
    "PowerLaw",
    "Staging",
    "add_reverses",
    "dgl_owners",
    "directions",
    "glt_owners",
    "load_spec",
    "load_tensor",
    "normalize_rows",
    "ogb_node",
    "power_law",
    "random_edge_masks",
    "random_masks",
    "read_arrays",
    "read_dgl",
    "read_glt",
    "read_part_config",
    "read_tables",
    "scales",
    "synthetic",
    "synthetic_hetero",
    "time_masks",
    "timed_edge_masks",
    "write_dgl",
    "writing_part_config",
]
