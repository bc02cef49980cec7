"""Each rank makes its part of the graph in memory, and GraphSAGE learns from all of them; books are dense or of ranges."""

import argparse

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE

import halohop.glt as glt


def own_part(args, rank):
    products = torch.load(f"{args.root}/products.pt")
    x, edge_index, num_nodes = products["x"], products["edge_index"], len(products["y"])
    half = num_nodes // 2
    if args.range_book:
        node_pb = glt.partition.RangePartitionBook([(0, half), (half, num_nodes)], rank)
        id2index = node_pb.id2index
        ids = torch.arange(num_nodes)[slice(0, half) if rank == 0 else slice(half, None)]
    else:
        node_pb = glt.partition.GLTPartitionBook(torch.arange(num_nodes) % 2)
        ids = torch.arange(rank, num_nodes, 2)
        id2index = glt.utils.id2idx(ids)
    edge_pb = glt.partition.GLTPartitionBook(node_pb[edge_index[0]])
    eids = torch.nonzero(edge_pb[torch.arange(edge_index.size(1))] == rank).view(-1)
    dataset = glt.distributed.DistDataset(2, rank, node_pb=node_pb, edge_pb=edge_pb, edge_dir="out")
    dataset.init_graph(edge_index=edge_index[:, eids], edge_ids=eids, layout="COO", graph_mode="CPU")
    dataset.init_node_features(node_feature_data=x[ids], id2idx=id2index, with_gpu=False)
    dataset.init_node_labels(node_label_data=products["y"])
    dataset.random_node_split(num_val=0.1, num_test=0.3)
    return dataset


def run_training_proc(rank, args):
    glt.distributed.init_worker_group(2, rank)
    torch.distributed.init_process_group(
        "gloo", rank=rank, world_size=2, init_method=f"tcp://localhost:{args.training_pg_master_port}"
    )
    torch.manual_seed(0)
    dataset = own_part(args, rank)

    def loader(idx, shuffle):
        options = glt.distributed.MpDistSamplingWorkerOptions(
            master_addr="localhost", master_port=args.loader_master_port, rpc_timeout=120
        )
        return glt.distributed.DistNeighborLoader(
            dataset, [8, 4], idx, batch_size=32, shuffle=shuffle, collect_features=True, worker_options=options
        )

    train_loader, test_loader = loader(dataset.train_idx, True), loader(dataset.test_idx, False)
    model = DistributedDataParallel(GraphSAGE(12, 32, num_layers=2, out_channels=4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        losses = []
        for batch in train_loader:
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if rank == 0:
            print(f"Epoch {epoch:02d}, Loss: {sum(losses) / len(losses):.4f}", flush=True)
    model.eval()
    counts = torch.zeros(2)
    with torch.no_grad():
        for batch in test_loader:
            out = model.module(batch.x, batch.edge_index)[: batch.batch_size]
            counts += torch.tensor([int((out.argmax(-1) == batch.y[: batch.batch_size]).sum()), len(out)])
    torch.distributed.all_reduce(counts)
    if rank == 0:
        print(f"Test: {float(counts[0] / counts[1]):.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--range_book", action="store_true")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--training_pg_master_port", type=int, default=12311)
    parser.add_argument("--loader_master_port", type=int, default=12312)
    args = parser.parse_args()
    torch.multiprocessing.spawn(run_training_proc, args=(args,), nprocs=2)
