"""Stochastic training with several processes on one machine: DGL's multi-GPU tutorial, over halohop.

It differs from the tutorial by its import, by taking the CPU and gloo where there are no GPUs, and by its options.

    python data.py --dataset synthetic:small --out data.pkl
    python multi_gpu.py --data data.pkl --num_procs 2
"""

import argparse
import pickle
from pathlib import Path

import torch
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
import utils
from torch.nn.parallel import DistributedDataParallel
from utils import thread_wrapped_func

import halohop.dgl as dgl
import halohop.dgl.nn as dglnn
from halohop.collectives import free_port


def load_data(path):
    with Path(path).open("rb") as f:
        data = pickle.load(f)
    graph, node_features, node_labels, train_nids, valid_nids, test_nids = data
    utils.prepare_mp(graph)

    num_features = node_features.shape[1]
    num_classes = (node_labels.max() + 1).item()

    return graph, node_features, node_labels, train_nids, valid_nids, test_nids, num_features, num_classes


class MultiLayerNeighborSampler(dgl.dataloading.BlockSampler):
    def __init__(self, fanouts):
        super().__init__(len(fanouts), return_eids=False)
        self.fanouts = fanouts

    def sample_frontier(self, layer_id, g, seed_nodes):
        fanout = self.fanouts[layer_id]
        return dgl.sampling.sample_neighbors(g, seed_nodes, fanout)


def create_dataloader(rank, world_size, graph, nids, batch_size):
    partition_size = len(nids) // world_size
    partition_offset = partition_size * rank
    nids = nids[partition_offset : partition_offset + partition_size]

    sampler = MultiLayerNeighborSampler([4, 4, 4])
    return dgl.dataloading.NodeDataLoader(
        graph, nids, sampler, batch_size=batch_size, shuffle=True, drop_last=False, num_workers=0
    )


class SAGE(nn.Module):
    def __init__(self, in_feats, n_hidden, n_classes, n_layers):
        super().__init__()
        self.n_layers = n_layers
        self.n_hidden = n_hidden
        self.n_classes = n_classes
        self.layers = nn.ModuleList()
        self.layers.append(dglnn.SAGEConv(in_feats, n_hidden, "mean"))
        for _ in range(1, n_layers - 1):
            self.layers.append(dglnn.SAGEConv(n_hidden, n_hidden, "mean"))
        self.layers.append(dglnn.SAGEConv(n_hidden, n_classes, "mean"))

    def forward(self, bipartites, x):
        for i, (layer, bipartite) in enumerate(zip(self.layers, bipartites, strict=True)):
            x = layer(bipartite, x)
            if i != self.n_layers - 1:
                x = F.relu(x)
        return x


def init_model(rank, device, in_feats, n_hidden, n_classes, n_layers):
    model = SAGE(in_feats, n_hidden, n_classes, n_layers).to(device)
    ids = [rank] if device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=ids, output_device=rank if ids else None)


@thread_wrapped_func
def train(rank, world_size, data, args, port):
    # data is the output of load_data
    device = torch.device("cuda", rank) if args.gpus else torch.device("cpu")
    torch.distributed.init_process_group(
        backend="nccl" if args.gpus else "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        world_size=world_size,
        rank=rank,
    )
    torch.manual_seed(rank)
    if args.gpus:
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)

    graph, node_features, node_labels, train_nids, valid_nids, _, num_features, num_classes = data

    train_dataloader = create_dataloader(rank, world_size, graph, train_nids, args.batch_size)
    # We only use one worker for validation
    valid_dataloader = create_dataloader(0, 1, graph, valid_nids, args.batch_size)

    model = init_model(rank, device, num_features, args.num_hidden, num_classes, 3)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    torch.distributed.barrier()

    best_accuracy = 0
    for epoch in range(args.num_epochs):
        model.train()

        for step, (input_nodes, output_nodes, bipartites) in enumerate(train_dataloader):
            bipartites = [b.to(device) for b in bipartites]
            inputs = node_features[input_nodes].to(device)
            labels = node_labels[output_nodes].to(device)
            predictions = model(bipartites, inputs)

            loss = F.cross_entropy(predictions, labels)
            opt.zero_grad()
            loss.backward()
            opt.step()

            if rank == 0 and step % 10 == 0:
                print(f"Epoch {epoch:05d} Step {step:05d} Loss {loss.item():.04f}", flush=True)

        torch.distributed.barrier()

        if rank == 0:
            model.eval()
            right = []
            with torch.no_grad():
                for input_nodes, output_nodes, bipartites in valid_dataloader:
                    bipartites = [b.to(device) for b in bipartites]
                    inputs = node_features[input_nodes].to(device)
                    predictions = model.module(bipartites, inputs).argmax(1).cpu()
                    right.append(predictions == node_labels[output_nodes])
                accuracy = torch.cat(right).float().mean().item()
                print(f"Epoch {epoch} Validation Accuracy {accuracy:.4f}", flush=True)
                if best_accuracy < accuracy:
                    best_accuracy = accuracy
                    torch.save(model.module.state_dict(), args.best_model_path)

        torch.distributed.barrier()
    torch.distributed.destroy_process_group()


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", default="data.pkl")
parser.add_argument("--num_procs", type=int, default=torch.cuda.device_count() or 2)
parser.add_argument("--num_epochs", type=int, default=10)
parser.add_argument("--num_hidden", type=int, default=128)
parser.add_argument("--batch_size", type=int, default=1024)
parser.add_argument("--lr", type=float, default=0.001)
parser.add_argument("--best_model_path", default="model.pt")

if __name__ == "__main__":
    args = parser.parse_args()
    args.gpus = 0 < args.num_procs <= torch.cuda.device_count()
    port = free_port()
    procs = []
    data = load_data(args.data)
    for proc_id in range(args.num_procs):
        p = mp.Process(target=train, args=(proc_id, args.num_procs, data, args, port))
        p.start()
        procs.append(p)
    for p in procs:
        p.join()
    if failed := [p.exitcode for p in procs if p.exitcode]:
        raise SystemExit(failed[0])
