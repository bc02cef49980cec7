"""Divides a data set into partitions: ``python partition.py --dataset synthetic:small --num_parts 2 --out data``."""

import argparse

from data import load

import halohop.dgl as dgl

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--dataset", default="synthetic:small")
parser.add_argument("--graph_name", default="graph")
parser.add_argument("--num_parts", type=int, default=2)
parser.add_argument("--part_method", default="metis", help="metis, random, ...")
parser.add_argument("--out", default="data")

if __name__ == "__main__":
    args = parser.parse_args()
    g = load(args.dataset)
    how = {"part_method": args.part_method}
    if g.is_homogeneous:
        how |= {"balance_ntypes": g.ndata["train_mask"], "balance_edges": True}
    dgl.distributed.partition_graph(g, args.graph_name, args.num_parts, args.out, **how)
    print(f"{args.out}/{args.graph_name}.json: {g.num_nodes()} nodes and {g.num_edges()} edges in {args.num_parts} partitions")
