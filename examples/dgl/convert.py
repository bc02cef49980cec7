"""Converts partitions that DGL wrote: ``python convert.py products/graph.json data``. DGL need not be installed.

Nodes stay in the partitions where they were; ids are those from before DGL renumbered, where DGL's pipeline has kept them, else
DGL's, within their type. DGL's ``feat`` is called ``x`` on disk, and ``label`` ``y``; `DistGraph` knows both names.
"""

import argparse
from pathlib import Path

import halohop
from halohop.datasets import read_dgl, writing_part_config

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("part_config", help="the file that DGL's partition_graph wrote")
parser.add_argument("out", help="a new folder")

if __name__ == "__main__":
    args = parser.parse_args()
    imported = read_dgl(args.part_config)
    name, owners = Path(args.part_config).stem, imported.owners
    with writing_part_config(args.out, name, "as DGL"):
        report = halohop.partition(imported.tables, args.out, num_parts=owners.num_parts, method=owners.part)
    print(f"{args.out}/{name}.json: {owners.num_parts} partitions, {report.cut:.1%} of the edges are cut")
