"""Trains GraphSAGE on ogbn-products with batches that servers make (server.py).

    python client.py --node_rank=0 --master_addr=localhost
    python client.py --node_rank=1 --master_addr=localhost

Seeds are read by the servers, each from its own file; clients divide them, since their loaders have one `worker_key`.
"""

import argparse
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE

import halohop.glt as glt


def loader(args: argparse.Namespace, split: str, port: int, device: torch.device) -> glt.distributed.DistNeighborLoader:
    servers = args.num_server_nodes * args.num_server_procs_per_node
    folder = f"{args.dataset}-{split}-partitions"
    gpus = glt.distributed.request_server(0, torch.cuda.device_count)
    return glt.distributed.DistNeighborLoader(
        data=None,
        num_neighbors=[15, 10, 5],
        input_nodes=[f"{folder}/partition{part}.pt" for part in range(args.num_dataset_partitions)],
        batch_size=args.batch_size,
        shuffle=split == "train",
        collect_features=True,
        to_device=device,
        worker_options=glt.distributed.RemoteDistSamplingWorkerOptions(
            server_rank=[part % servers for part in range(args.num_dataset_partitions)],
            num_workers=max(gpus, 1),
            worker_devices=[torch.device("cuda", gpu) for gpu in range(gpus)] or [torch.device("cpu")],
            master_addr=args.master_addr,
            master_port=port,
            buffer_size="1GB",
            prefetch_size=2,
            worker_key=split,
        ),
    )


@torch.no_grad()
def test(model: Any, batches: Any) -> float:
    model.eval()
    right = torch.zeros(2, device=batches.to_device)
    for batch in batches:
        out = model.module(batch.x, batch.edge_index)[: batch.batch_size]
        right += torch.stack([(out.argmax(-1) == batch.y[: batch.batch_size].view(-1)).sum(), torch.tensor(batch.batch_size)])
    dist.all_reduce(right)
    return float(right[0] / right[1])


def run_client_proc(local_rank: int, args: argparse.Namespace) -> None:
    rank = args.node_rank * args.num_client_procs_per_node + local_rank
    num_clients = args.num_client_nodes * args.num_client_procs_per_node
    glt.distributed.init_client(
        num_servers=args.num_server_nodes * args.num_server_procs_per_node,
        num_clients=num_clients,
        client_rank=rank,
        master_addr=args.master_addr,
        master_port=args.server_client_master_port,
        client_group_name="dist-train-supervised-sage-client",
    )
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", rank % torch.cuda.device_count()) if cuda else torch.device("cpu")
    place = f"tcp://{args.master_addr}:{args.training_pg_master_port}"
    dist.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=num_clients, init_method=place)
    train_loader = loader(args, "train", args.train_loader_master_port, device)
    test_loader = loader(args, "test", args.test_loader_master_port, device)

    torch.manual_seed(0)
    model = DistributedDataParallel(GraphSAGE(args.in_channel, 256, num_layers=3, out_channels=args.out_channel).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        model.train()
        start, losses = time.time(), []
        for batch in train_loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size].view(-1))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        mean = sum(losses) / len(losses)
        print(f"-- [Client {rank}] Epoch: {epoch:03d}, Loss: {mean:.4f}, Epoch Time: {time.time() - start:.2f}", flush=True)
        if epoch == 0 or epoch > args.epochs // 2:
            print(f"-- [Client {rank}] Test Accuracy: {test(model, test_loader):.4f}", flush=True)
    dist.destroy_process_group()
    glt.distributed.shutdown_client()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="ogbn-products")
    parser.add_argument("--dataset_root_dir", default="", help="not needed: servers know the folder")
    parser.add_argument("--num_dataset_partitions", type=int, default=2)
    parser.add_argument("--num_server_nodes", type=int, default=2)
    parser.add_argument("--num_client_nodes", type=int, default=2)
    parser.add_argument("--node_rank", type=int, default=0, help="of this node among those with clients")
    parser.add_argument("--num_server_procs_per_node", type=int, default=1)
    parser.add_argument("--num_client_procs_per_node", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=512)
    parser.add_argument("--in_channel", type=int, default=100)
    parser.add_argument("--out_channel", type=int, default=47)
    parser.add_argument("--master_addr", default="localhost", help="of server node 0, and of client node 0")
    parser.add_argument("--server_client_master_port", type=int, default=11110)
    parser.add_argument("--training_pg_master_port", type=int, default=11111)
    parser.add_argument("--train_loader_master_port", type=int, default=11112)
    parser.add_argument("--test_loader_master_port", type=int, default=11113)
    args = parser.parse_args()
    torch.multiprocessing.spawn(run_client_proc, (args,), nprocs=args.num_client_procs_per_node)


if __name__ == "__main__":
    main()
