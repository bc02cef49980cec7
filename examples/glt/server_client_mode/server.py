"""Servers of GraphSAGE on ogbn-products, each with a partition; client.py trains with their batches.

    python server.py --node_rank=0 --master_addr=localhost
    python server.py --node_rank=1 --master_addr=localhost

The folder has what partition_ogbn_dataset.py wrote. Several hosts need a token: HALOHOP_TOKEN, the same on all.
"""

import argparse
from pathlib import Path

import torch

import halohop.glt as glt


def run_server_proc(local_rank: int, args: argparse.Namespace, dataset: glt.distributed.DistDataset) -> None:
    rank = args.node_rank * args.num_server_procs_per_node + local_rank
    glt.distributed.init_server(
        num_servers=args.num_server_nodes * args.num_server_procs_per_node,
        num_clients=args.num_client_nodes * args.num_client_procs_per_node,
        server_rank=rank,
        dataset=dataset,
        master_addr=args.master_addr,
        master_port=args.server_client_master_port,
        server_group_name="dist-train-supervised-sage-server",
    )
    print(f"-- [Server {rank}] Waiting for clients ...", flush=True)
    glt.distributed.wait_and_shutdown_server()
    print(f"-- [Server {rank}] Exited.", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="ogbn-products")
    parser.add_argument("--dataset_root_dir", default="", help="relative to this script: ../../../../data/DATASET")
    parser.add_argument("--num_server_dataset_partitions", type=int, default=2)
    parser.add_argument("--num_server_nodes", type=int, default=2)
    parser.add_argument("--num_client_nodes", type=int, default=2)
    parser.add_argument("--node_rank", type=int, default=0, help="of this node among those with servers")
    parser.add_argument("--num_server_procs_per_node", type=int, default=1)
    parser.add_argument("--num_client_procs_per_node", type=int, default=2)
    parser.add_argument("--master_addr", default="localhost", help="of server node 0")
    parser.add_argument("--server_client_master_port", type=int, default=11110)
    args = parser.parse_args()

    root = Path(__file__).resolve().parent / (args.dataset_root_dir or f"../../../../data/{args.dataset}")
    dataset = glt.distributed.DistDataset()
    dataset.load(
        root_dir=root / f"{args.dataset}-partitions",
        partition_idx=args.node_rank % args.num_server_dataset_partitions,
        graph_mode="ZERO_COPY" if torch.cuda.is_available() else "CPU",
        whole_node_label_file=root / f"{args.dataset}-label" / "label.pt",
    )
    torch.multiprocessing.spawn(run_server_proc, (args, dataset), nprocs=args.num_server_procs_per_node)


if __name__ == "__main__":
    main()
