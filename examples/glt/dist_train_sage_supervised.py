"""Supervised GraphSAGE on several nodes, each of which has a partition: the program of GLT's documents, over halohop.

It differs from GLT's by its import, by taking the CPU and gloo where there is no GPU, and by agreeing on the number of batches.

    python partition_ogbn_dataset.py --dataset=ogbn-products --num_partitions=2
    python dist_train_sage_supervised.py --num_nodes=2 --node_rank=0 --master_addr=localhost     # on node 0
    python dist_train_sage_supervised.py --num_nodes=2 --node_rank=1 --master_addr=localhost     # on node 1

Nodes on several machines need one secret: the same HALOHOP_TOKEN in the environment of each. Folders are relative to this script.
All trainers append their results to dist_sage_sup.txt.
"""

import argparse
import os
import time
from itertools import islice
from pathlib import Path

import torch
import torch.distributed
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE

import halohop.glt as glt


def report(line: str) -> None:
    """Prints a line, and appends it to the results, each in one piece."""
    print(f"{line}\n", end="", flush=True)
    with Path("dist_sage_sup.txt").open("a") as results:
        results.write(f"{line}\n")


@torch.no_grad()
def test(model, test_loader, device) -> float:
    """The share of all trainers' test nodes that is classified well."""
    model.eval()
    counts = torch.zeros(2, device=device)
    for batch in test_loader:
        found = model.module(batch.x, batch.edge_index)[: batch.batch_size].argmax(dim=-1)
        counts += torch.stack([(found == batch.y[: batch.batch_size]).sum(), torch.tensor(len(found), device=device)])
    torch.distributed.all_reduce(counts)
    return float(counts[0] / counts[1])


def run_training_proc(local_proc_rank, args, dataset, train_idx, test_idx) -> None:
    procs = args.num_training_procs
    glt.distributed.init_worker_group(
        world_size=args.num_nodes * procs,
        rank=args.node_rank * procs + local_proc_rank,
        group_name="distributed-sage-supervised-trainer",
    )
    current_ctx = glt.distributed.get_context()
    with_gpu = torch.cuda.is_available()
    gpus = [torch.device("cuda", i % torch.cuda.device_count()) for i in range(procs)] if with_gpu else None
    current_device = gpus[local_proc_rank] if gpus else torch.device("cpu")
    if not with_gpu:
        torch.set_num_threads(max(os.cpu_count() // procs, 1))

    torch.distributed.init_process_group(
        backend="nccl" if with_gpu else "gloo",
        rank=current_ctx.rank,
        world_size=current_ctx.world_size,
        init_method=f"tcp://{args.master_addr}:{args.training_pg_master_port}",
    )

    def loader(input_nodes, shuffle: bool, master_port: int) -> glt.distributed.DistNeighborLoader:
        return glt.distributed.DistNeighborLoader(
            data=dataset,
            num_neighbors=[15, 10, 5],
            input_nodes=input_nodes,
            batch_size=args.batch_size,
            shuffle=shuffle,
            collect_features=True,
            to_device=current_device,
            worker_options=glt.distributed.MpDistSamplingWorkerOptions(
                num_workers=2,
                worker_devices=gpus,
                worker_concurrency=4,
                master_addr=args.master_addr,
                master_port=master_port,
                channel_size="1GB",
                pin_memory=True,
            ),
        )

    train_idx = train_idx.split(train_idx.size(0) // procs)[local_proc_rank]
    train_loader = loader(train_idx, True, args.train_loader_master_port)
    test_loader = loader(test_idx.tensor_split(procs)[local_proc_rank], False, args.test_loader_master_port)

    if with_gpu:
        torch.cuda.set_device(current_device)
    model = GraphSAGE(args.in_channel, hidden_channels=256, num_layers=3, out_channels=args.out_channel).to(current_device)
    model = DistributedDataParallel(model, device_ids=[current_device.index] if with_gpu else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    steps = torch.tensor(len(train_loader), device=current_device)  # a node may have one seed more than another
    torch.distributed.all_reduce(steps, op=torch.distributed.ReduceOp.MIN)
    for epoch in range(args.epochs):
        model.train()
        start = time.time()
        for batch in islice(train_loader, int(steps)):
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size].log_softmax(dim=-1)
            loss = F.nll_loss(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
        end = time.time()
        torch.distributed.barrier()
        report(f"-- [Trainer {current_ctx.rank}] Epoch: {epoch:03d}, Loss: {loss:.4f}, Epoch Time: {end - start:.2f}")
        if epoch % 5 == 4 or epoch == args.epochs - 1:
            accuracy = test(model, test_loader, current_device)
            report(f"-- [Trainer {current_ctx.rank}] Epoch: {epoch:03d}, Test Accuracy: {accuracy:.4f}")

    train_loader.shutdown()
    test_loader.shutdown()  # as in GLT's, the end of the process ends its group: to destroy gloo's may wait without a deadline


def main() -> None:
    parser = argparse.ArgumentParser(description="Distributed training of supervised SAGE.")
    parser.add_argument("--dataset", default="ogbn-products", help="name of the data set")
    parser.add_argument("--dataset_root_dir", help="what partition_ogbn_dataset.py wrote (default: ../../../data/DATASET)")
    parser.add_argument("--in_channel", type=int, default=100, help="width of the features")
    parser.add_argument("--out_channel", type=int, default=47, help="number of classes")
    parser.add_argument("--num_dataset_partitions", type=int, default=2, help="partitions of the data set")
    parser.add_argument("--num_nodes", type=int, default=2, help="nodes that train")
    parser.add_argument("--node_rank", type=int, default=0, help="this node's number")
    parser.add_argument("--num_training_procs", type=int, default=2, help="trainers of each node")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=512)
    parser.add_argument("--master_addr", default="localhost", help="address of node 0")
    parser.add_argument("--training_pg_master_port", type=int, default=11111, help="where torch's process group meets")
    parser.add_argument("--train_loader_master_port", type=int, default=11112, help="where the loaders meet")
    parser.add_argument("--test_loader_master_port", type=int, default=11113, help="of the loader for tests, in GLT")
    args = parser.parse_args()

    root_dir = Path(__file__).resolve().parent / (args.dataset_root_dir or f"../../../data/{args.dataset}")
    data_pidx = args.node_rank % args.num_dataset_partitions
    print("--- Loading data partition ...", flush=True)
    dataset = glt.distributed.DistDataset()
    dataset.load(
        graph_dir=root_dir / f"{args.dataset}-partitions",
        partition_idx=data_pidx,
        graph_mode="ZERO_COPY",
        whole_node_label_file=root_dir / f"{args.dataset}-label" / "label.pt",
    )
    files = [root_dir / f"{args.dataset}-{name}-partitions" / f"partition{data_pidx}.pt" for name in ("train", "test")]
    train_idx, test_idx = (torch.load(file, weights_only=True).share_memory_() for file in files)
    print("--- Launching training processes ...", flush=True)
    mp.spawn(run_training_proc, (args, dataset, train_idx, test_idx), nprocs=args.num_training_procs)


if __name__ == "__main__":
    main()
