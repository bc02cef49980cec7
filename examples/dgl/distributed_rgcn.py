"""Distributed R-GCN on a graph of several types: the pattern of DGL's distributed example, over halohop.

Types with features have them multiplied into the hidden width. Each node of the others has a vector in a `DistEmbedding`, which
lies with the partitions and is trained there by `SparseAdam`, while DistributedDataParallel sees the layers only.

    python partition.py --dataset synthetic-hetero:tiny --num_parts 2 --out typed
    python distributed_rgcn.py --part_config typed/graph.json
    torchrun --nproc-per-node 2 distributed_rgcn.py --part_config typed/graph.json
"""

import argparse
from contextlib import nullcontext

import torch as th
import torch.nn as nn
import torch.nn.functional as F

import halohop
import halohop.dgl as dgl
from halohop.dgl.dataloading import NeighborSampler
from halohop.dgl.distributed import DistEmbedding, DistGraph, DistNodeDataLoader, node_split
from halohop.dgl.nn import GraphConv, HeteroGraphConv, WeightBasis


class RelGraphConvLayer(nn.Module):
    """Sums of neighbours by relation, each times a matrix that is a sum of a few learned ones, and the node itself."""

    def __init__(self, in_feat, out_feat, rel_names, num_bases):
        super().__init__()
        self.rel_names = rel_names
        self.conv = HeteroGraphConv(
            {rel: GraphConv(in_feat, out_feat, norm="right", weight=False, bias=False) for rel in rel_names}
        )
        self.basis = WeightBasis((in_feat, out_feat), num_bases, len(rel_names))
        self.loop = nn.Linear(in_feat, out_feat)

    def forward(self, block, inputs):
        weights = dict(zip(self.rel_names, self.basis(), strict=True))
        found = self.conv(block, inputs, mod_kwargs={rel: {"weight": weight} for rel, weight in weights.items()})
        own = {ntype: rows[: block.num_dst_nodes(ntype)] for ntype, rows in inputs.items()}
        return {ntype: self.loop(rows) + found.get(ntype, 0) for ntype, rows in own.items()}


class RGCN(nn.Module):
    def __init__(self, g, widths, n_hidden, n_classes, n_layers, num_bases, dropout):
        super().__init__()
        rel_names = sorted(set(g.etypes))
        self.project = nn.ModuleDict({ntype: nn.Linear(width, n_hidden) for ntype, width in widths.items()})
        sizes = [n_hidden] * n_layers + [n_classes]
        self.layers = nn.ModuleList(RelGraphConvLayer(sizes[i], sizes[i + 1], rel_names, num_bases) for i in range(n_layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, blocks, feats, vectors):
        h = {ntype: self.project[ntype](rows) for ntype, rows in feats.items()} | vectors
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(block, h)
            if number != len(self.layers) - 1:
                h = {ntype: self.dropout(F.relu(rows)) for ntype, rows in h.items()}
        return h


def inputs_of(g, embeddings, input_nodes):
    """Features of the types that have them, and vectors of the others."""
    feats = {ntype: g.nodes[ntype].data["feat"][ids] for ntype, ids in input_nodes.items() if ntype not in embeddings}
    return feats, {ntype: embedding(input_nodes[ntype]) for ntype, embedding in embeddings.items()}


@th.no_grad()
def evaluate(g, model, embeddings, loader, category):
    """The share of right answers among the nodes of all ranks."""
    model.eval()
    counts = th.zeros(2)
    for input_nodes, seeds, blocks in loader:
        found = model(blocks, *inputs_of(g, embeddings, input_nodes))[category].argmax(1)
        counts += th.tensor([float((found == g.nodes[category].data["label"][seeds[category]]).sum()), float(len(found))])
    model.train()
    if th.distributed.is_initialized():
        th.distributed.all_reduce(counts)
    return float(counts[0] / counts[1])


def main(args):
    dgl.distributed.initialize(args.ip_config)
    ranks = halohop.World.detect()
    if ranks.size > 1:
        th.distributed.init_process_group(backend="gloo")
    g = DistGraph(args.graph_name, args.part_config)
    category = next(ntype for ntype in g.ntypes if "train_mask" in g.nodes[ntype].data)
    data, pb = g.nodes[category].data, g.get_partition_book()
    splits = {name: {category: node_split(data[f"{name}_mask"], pb, ntype=category)} for name in ("train", "val", "test")}

    th.manual_seed(args.seed)
    embeddings = {
        ntype: DistEmbedding(
            g.num_nodes(ntype),
            args.num_hidden,
            f"{ntype}_emb",
            halohop.init.xavier_uniform(),
            g.get_node_partition_policy(ntype),
        )
        for ntype in g.ntypes
        if "feat" not in g.nodes[ntype].data
    }
    widths = {ntype: g.nodes[ntype].data["feat"].shape[1] for ntype in g.ntypes if ntype not in embeddings}
    fanouts = [int(fanout) for fanout in args.fan_out.split(",")]
    n_classes = int(data["label"][:].max()) + 1
    module = RGCN(g, widths, args.num_hidden, n_classes, len(fanouts), args.num_bases, args.dropout)
    model = th.nn.parallel.DistributedDataParallel(module) if ranks.size > 1 else module
    optimizer = th.optim.Adam(module.parameters(), lr=args.lr)
    sparse = dgl.distributed.optim.SparseAdam(list(embeddings.values()), lr=args.sparse_lr) if embeddings else None

    sampler = NeighborSampler(fanouts)
    how = {"batch_size": args.batch_size, "drop_last": False}
    train_loader = DistNodeDataLoader(g, splits["train"], sampler, shuffle=True, **how)
    for epoch in range(args.num_epochs):
        total, count = 0.0, 0
        with model.join() if ranks.size > 1 else nullcontext():
            for input_nodes, seeds, blocks in train_loader:
                logits = model(blocks, *inputs_of(g, embeddings, input_nodes))[category]
                loss = F.cross_entropy(logits, data["label"][seeds[category]])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if sparse is not None:
                    sparse.step()
                total, count = total + loss.item(), count + 1
        val = evaluate(g, module, embeddings, DistNodeDataLoader(g, splits["val"], sampler, **how), category)
        if g.rank() == 0:
            print(f"epoch {epoch} loss {total / max(count, 1):.4f} val accuracy {val:.4f}", flush=True)
    test = evaluate(g, module, embeddings, DistNodeDataLoader(g, splits["test"], sampler, **how), category)
    if g.rank() == 0:
        print(f"test accuracy {test:.4f}", flush=True)
    dgl.distributed.exit_client()
    if ranks.size > 1:
        th.distributed.destroy_process_group()


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--graph_name", default="graph")
parser.add_argument("--ip_config", default="ip_config.txt")
parser.add_argument("--part_config", default=None, help="by default what DGL_CONF_PATH names, as `halohop launch` does")
parser.add_argument("--num_epochs", type=int, default=5)
parser.add_argument("--num_hidden", type=int, default=32)
parser.add_argument("--num_bases", type=int, default=4)
parser.add_argument("--fan_out", default="10,10", help="edges of each node and relation, the input's layer first")
parser.add_argument("--batch_size", type=int, default=256)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--sparse_lr", type=float, default=0.02)
parser.add_argument("--dropout", type=float, default=0.2)
parser.add_argument("--seed", type=int, default=0)

if __name__ == "__main__":
    main(parser.parse_args())
