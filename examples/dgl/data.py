"""A data set as a graph of DGL's: what the scripts beside this file start from.

``python data.py --dataset products --out data.pkl`` writes what the multi-GPU tutorial reads.
"""

import argparse
import pickle
from pathlib import Path

import torch

import halohop
import halohop.dgl as dgl


def load(dataset: str) -> dgl.DGLGraph:
    """The graph of a data set, with ``feat``, ``label`` and the masks of nodes.

    Args:
        dataset: what `halohop.load_source` knows, such as "synthetic:small", "ogb:ogbn-products" or "pyg:Planetoid/Cora".
    """
    tables = halohop.load_source(dataset)
    counts = {name: table.num_nodes for name, table in tables.nodes.items()}
    ends = {relation: (table.src.long(), table.dst.long()) for relation, table in tables.edges.items()}
    if len(counts) == len(ends) == 1:
        g = dgl.graph(*ends.values(), num_nodes=next(iter(counts.values())))
        frames = {next(iter(counts)): g.ndata}
    else:
        g = dgl.heterograph(ends, counts)
        frames = {name: g.nodes[name].data for name in counts}
    for name, table in tables.nodes.items():
        for column, rows in table.columns.items():
            frames[name][{"x": "feat", "y": "label"}.get(column, column)] = rows
    return g


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="synthetic:small")
    parser.add_argument("--out", default="data.pkl")
    args = parser.parse_args()
    g = load(args.dataset)
    splits = [g.ndata.pop(f"{name}_mask").nonzero().view(-1) for name in ("train", "val", "test")]
    labels, features = g.ndata.pop("label"), g.ndata.pop("feat")
    with Path(args.out).open("wb") as file:
        pickle.dump((g, features, labels, *splits), file)
    print(f"{args.out}: {g.num_nodes()} nodes, {g.num_edges()} edges, {[len(ids) for ids in splits]} in the splits")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
