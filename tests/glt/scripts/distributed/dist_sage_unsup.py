"""Unsupervised GraphSAGE with edges drawn by weight: each rank has its own edges, some more than others."""

import argparse

import torch
import torch.nn.functional as F
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE

import halohop.glt as glt


def run_training_proc(rank, args):
    glt.distributed.init_worker_group(args.num_procs, rank, "distributed-sage-unsupervised-trainer")
    ctx = glt.distributed.get_context()
    torch.distributed.init_process_group(
        "gloo", rank=ctx.rank, world_size=ctx.world_size, init_method=f"tcp://localhost:{args.training_pg_master_port}"
    )
    torch.manual_seed(0)
    dataset = glt.distributed.DistDataset()
    dataset.load(f"{args.root}/partitions", rank, graph_mode="CPU")
    edge_label_index = torch.load(f"{args.root}/edges{rank}.pt")
    loader = glt.distributed.DistLinkNeighborLoader(
        data=dataset,
        num_neighbors=[5, 3],
        batch_size=64,
        edge_label_index=edge_label_index,
        neg_sampling=glt.sampler.NegativeSampling("binary"),
        shuffle=True,
        with_weight=args.with_weight,
        collect_features=True,
        worker_options=glt.distributed.CollocatedDistSamplingWorkerOptions("localhost", args.loader_master_port, rpc_timeout=120),
    )
    model = DistributedDataParallel(GraphSAGE(12, 32, num_layers=2, out_channels=16))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        losses, right, count = [], 0, 0
        with Join([model]):
            for batch in loader:
                h = model(batch.x, batch.edge_index)
                src, dst = h[batch.edge_label_index[0]], h[batch.edge_label_index[1]]
                score = (src * dst).sum(dim=-1)
                loss = F.binary_cross_entropy_with_logits(score, batch.edge_label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                right, count = right + int(((score > 0) == batch.edge_label.bool()).sum()), count + len(score)
        if rank == 0:
            print(f"Epoch {epoch:02d}, Loss: {sum(losses) / len(losses):.4f}", flush=True)
    print(f"-- [Trainer {rank}] {len(loader)} batches", flush=True)
    torch.distributed.barrier()
    if rank == 0:
        print(f"Train: {right / count:.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--num_procs", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--with_weight", action="store_true")
    parser.add_argument("--training_pg_master_port", type=int, default=12211)
    parser.add_argument("--loader_master_port", type=int, default=12212)
    args = parser.parse_args()
    products = torch.load(f"{args.root}/products.pt")
    y, edge_index = products["y"], products["edge_index"]
    weights = torch.where(y[edge_index[0]] == y[edge_index[1]], 1.0, 0.05)
    glt.partition.RandomPartitioner(
        f"{args.root}/partitions", args.num_procs, len(y), edge_index, node_feat=products["x"], edge_weights=weights
    ).partition()
    for rank, own in enumerate(edge_index[:, :1500].split([1000, 500], dim=1)):
        torch.save(own.clone(), f"{args.root}/edges{rank}.pt")
    torch.multiprocessing.spawn(run_training_proc, args=(args,), nprocs=args.num_procs)
