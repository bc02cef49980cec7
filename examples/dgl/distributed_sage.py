"""Distributed GraphSAGE: the program of DGL's guide, chapter 7, over halohop, with inference layer by layer.

It differs from the guide's by its import, and by what the guide leaves out: the options, the model, and an evaluation of the
whole graph, whose hidden layers are tables that lie with the partitions.

    python partition.py --dataset synthetic:small --num_parts 2 --out data
    python distributed_sage.py --part_config data/graph.json                                        # one process
    torchrun --nproc-per-node 2 distributed_sage.py --part_config data/graph.json                   # two
    python -m halohop.dgl.launch --workspace $PWD --num_trainers 1 --num_servers 0 --part_config data/graph.json \
        --ip_config ip_config.txt "python3 distributed_sage.py --ip_config ip_config.txt --part_config data/graph.json"
"""

import argparse
import time
from contextlib import nullcontext

import torch as th
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

import halohop
import halohop.dgl as dgl
from halohop.dgl.dataloading import MultiLayerFullNeighborSampler, NeighborSampler
from halohop.dgl.distributed import DistDataLoader, DistGraph, DistNodeDataLoader, DistTensor, node_split
from halohop.dgl.nn import SAGEConv


class SAGE(nn.Module):
    def __init__(self, in_feats, n_hidden, n_classes, n_layers, activation, dropout):
        super().__init__()
        sizes = [in_feats, *[n_hidden] * (n_layers - 1), n_classes]
        self.layers = nn.ModuleList(SAGEConv(sizes[i], sizes[i + 1], "mean") for i in range(n_layers))
        self.sizes, self.activation, self.dropout = sizes, activation, nn.Dropout(dropout)

    def forward(self, blocks, x):
        h = x
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(block, h)
            if number != len(self.layers) - 1:
                h = self.dropout(self.activation(h))
        return h

    @th.no_grad()
    def inference(self, g, x, batch_size, device):
        """The last layer's rows of all nodes. Each rank computes those of its nodes, layer by layer, and all read them."""
        nodes = node_split(th.ones(g.num_nodes(), dtype=th.bool), g.get_partition_book())
        for number, layer in enumerate(self.layers):
            y = DistTensor((g.num_nodes(), self.sizes[number + 1]), th.float32, f"h{number}", persistent=True)
            loader = DistNodeDataLoader(g, nodes, MultiLayerFullNeighborSampler(1), batch_size=batch_size)
            for input_nodes, output_nodes, (block,) in loader:
                h = layer(block.to(device), x[input_nodes].to(device))
                y[output_nodes] = (h if number == len(self.layers) - 1 else self.activation(h)).cpu()
            x = y
            g.barrier()
        return y


def load_subtensor(g, input_nodes, seeds):
    return g.ndata["feat"][input_nodes], g.ndata["label"][seeds].long()


def accuracy(g, pred, mask):
    """The share of right answers among the nodes of all ranks."""
    nodes = node_split(g.ndata[mask], g.get_partition_book())
    counts = th.tensor([float((pred[nodes].argmax(1) == g.ndata["label"][nodes]).sum()), float(len(nodes))])
    if th.distributed.is_initialized():
        th.distributed.all_reduce(counts)
    return float(counts[0] / counts[1])


def main(args):
    # initialize distributed contexts
    dgl.distributed.initialize(args.ip_config)
    if halohop.World.detect().size > 1:
        th.distributed.init_process_group(backend="gloo")
    # load distributed graph
    g = DistGraph(args.graph_name, args.part_config)
    pb = g.get_partition_book()
    # get training workload, i.e., training node IDs
    train_nid = node_split(g.ndata["train_mask"], pb, force_even=True)
    near = (pb.nid2partid(train_nid) == pb.partid).float().mean()
    print(f"rank {g.rank()}: {len(train_nid)} training nodes, {near:.0%} of them in partition {pb.partid}", flush=True)
    device = th.device("cpu")
    th.manual_seed(args.seed)

    # Create sampler
    fanouts = [int(fanout) for fanout in args.fan_out.split(",")]
    sampler = NeighborSampler(g, fanouts, dgl.distributed.sample_neighbors, device)

    dataloader = DistDataLoader(
        dataset=train_nid.numpy(),
        batch_size=args.batch_size,
        collate_fn=sampler.sample_blocks,
        shuffle=True,
        drop_last=False,
    )

    # Define model and optimizer
    n_classes = args.n_classes or int(g.ndata["label"][:].max()) + 1
    model = SAGE(g.ndata["feat"].shape[1], args.num_hidden, n_classes, len(fanouts), F.relu, args.dropout).to(device)
    module = model
    if th.distributed.is_initialized():
        model = th.nn.parallel.DistributedDataParallel(model)
    loss_fcn = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=args.lr)

    # training loop
    for epoch in range(args.num_epochs):
        start, total, count = time.perf_counter(), 0.0, 0
        model.train()
        with model.join() if th.distributed.is_initialized() else nullcontext():
            for blocks in dataloader:
                batch_inputs, batch_labels = load_subtensor(g, blocks[0].srcdata[dgl.NID], blocks[-1].dstdata[dgl.NID])
                batch_pred = model(blocks, batch_inputs)
                loss = loss_fcn(batch_pred, batch_labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total, count = total + loss.item(), count + 1
        seconds = time.perf_counter() - start
        print(f"rank {g.rank()}: epoch {epoch} loss {total / max(count, 1):.4f} ({count} steps, {seconds:.1f} s)", flush=True)

    module.eval()
    pred = module.inference(g, g.ndata["feat"], args.batch_size_eval, device)
    for mask in ("val_mask", "test_mask"):
        found = accuracy(g, pred, mask)
        if g.rank() == 0:
            print(f"{mask.removesuffix('_mask')} accuracy {found:.4f}", flush=True)
    dgl.distributed.exit_client()
    if th.distributed.is_initialized():
        th.distributed.destroy_process_group()


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--graph_name", default="graph")
parser.add_argument("--ip_config", default="ip_config.txt")
parser.add_argument("--part_config", default=None, help="by default what DGL_CONF_PATH names, as `halohop launch` does")
parser.add_argument("--n_classes", type=int, default=0)
parser.add_argument("--num_epochs", type=int, default=5)
parser.add_argument("--num_hidden", type=int, default=64)
parser.add_argument("--fan_out", default="10,25", help="edges of each node, from the seeds outwards")
parser.add_argument("--batch_size", type=int, default=512)
parser.add_argument("--batch_size_eval", type=int, default=2048)
parser.add_argument("--lr", type=float, default=0.003)
parser.add_argument("--dropout", type=float, default=0.5)
parser.add_argument("--seed", type=int, default=0)

if __name__ == "__main__":
    main(parser.parse_args())
