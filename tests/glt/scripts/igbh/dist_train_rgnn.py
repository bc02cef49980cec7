"""R-GAT on a graph of IGBH's shape with a partition for each node, as MLPerf's reference trains it."""

import argparse

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GATConv, HeteroConv

import halohop.glt as glt


class RGNN(torch.nn.Module):
    def __init__(self, etypes, in_dim, h_dim, out_dim, num_layers, dropout, n_heads, node_type):
        super().__init__()
        self.node_type, self.dropout, self.lin = node_type, dropout, torch.nn.Linear(h_dim, out_dim)
        self.convs = torch.nn.ModuleList()
        for i in range(num_layers):
            dim = in_dim if i == 0 else h_dim
            conv = {etype: GATConv(dim, h_dim // n_heads, heads=n_heads, add_self_loops=False) for etype in etypes}
            self.convs.append(HeteroConv(conv))

    def forward(self, x_dict, edge_index_dict):
        for i, conv in enumerate(self.convs):
            x_dict = conv(x_dict, edge_index_dict)
            if i < len(self.convs) - 1:
                x_dict = {key: F.dropout(F.leaky_relu(x), p=self.dropout, training=self.training) for key, x in x_dict.items()}
        return self.lin(F.leaky_relu(x_dict[self.node_type]))


def partition(args):
    igbh = torch.load(f"{args.path}/igbh.pt")
    partitioner = glt.partition.RandomPartitioner(
        output_dir=f"{args.path}/partitions",
        num_parts=args.num_nodes,
        num_nodes={name: len(x) for name, x in igbh["x"].items()},
        edge_index={tuple(name.split("__")): edge_index for name, edge_index in igbh["edges"].items()},
        node_feat=igbh["x"],
        node_feat_dtype=torch.float16,
        edge_assign_strategy="by_dst" if args.edge_dir == "in" else "by_src",
    )
    partitioner.partition()
    torch.save(igbh["y"], f"{args.path}/paper_label.pt")
    for name in ("train_idx", "val_idx"):
        for node, ids in enumerate(igbh[name].split(len(igbh[name]) // args.num_nodes)):
            torch.save(ids.clone(), f"{args.path}/{name}{node}.pt")


def forward(model, batch):
    assert batch["paper"].x.dtype == torch.float16
    batch_size = batch["paper"].batch_size
    assert set(batch.num_sampled_nodes) == set(batch.node_types)
    x_dict = {node_name: node_feat.to(torch.float32) for node_name, node_feat in batch.x_dict.items()}
    return model(x_dict, batch.edge_index_dict)[:batch_size], batch["paper"].y[:batch_size]


@torch.no_grad()
def evaluate(model, dataloader):
    model.eval()
    counts = torch.zeros(2)
    for batch in dataloader:
        out, y = forward(model.module, batch)
        counts += torch.tensor([int((out.argmax(-1) == y).sum()), len(y)])
    torch.distributed.all_reduce(counts)
    model.train()
    return float(counts[0] / counts[1])


def run_training_proc(local_rank, args, dataset, train_idx, val_idx):
    world_size = args.num_nodes * args.num_training_procs
    glt.distributed.init_worker_group(world_size, args.node_rank * args.num_training_procs + local_rank, "igbh")
    current_ctx = glt.distributed.get_context()
    glt.utils.common.seed_everything(args.random_seed)
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.distributed.init_process_group(
        backend="nccl" if torch.cuda.is_available() else "gloo",
        rank=current_ctx.rank,
        world_size=current_ctx.world_size,
        init_method=f"tcp://{args.master_addr}:{args.training_pg_master_port}",
    )

    def loader(name, idx, shuffle, port):
        return glt.distributed.DistNeighborLoader(
            data=dataset,
            num_neighbors=[6, 4],
            input_nodes=(name, idx.split(len(idx) // args.num_training_procs)[local_rank]),
            batch_size=args.batch_size,
            shuffle=shuffle,
            edge_dir=args.edge_dir,
            collect_features=True,
            to_device=device,
            random_seed=args.random_seed,
            worker_options=glt.distributed.MpDistSamplingWorkerOptions(
                num_workers=1,
                worker_concurrency=2,
                master_addr=args.master_addr,
                master_port=port,
                channel_size="64MB",
                rpc_timeout=120,
            ),
        )

    train_loader = loader("paper", train_idx, True, args.train_loader_master_port)
    val_loader = loader("paper", val_idx, False, args.val_loader_master_port)
    in_dim = dataset.node_features["paper"].shape[1]
    etypes = dataset.get_edge_types()
    if args.edge_dir == "out":
        etypes = [glt.reverse_edge_type(etype) for etype in etypes]
    model = DistributedDataParallel(RGNN(etypes, in_dim, 32, 4, 2, 0.1, 4, "paper").to(device), find_unused_parameters=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    ckpt_dir = f"{args.path}/checkpoints"
    for epoch in range(args.epochs):
        losses = []
        for batch in train_loader:
            out, y = forward(model, batch)
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if current_ctx.rank == 0:
            print(f"Epoch {epoch:02d}, Loss: {sum(losses) / len(losses):.4f}", flush=True)
            glt.utils.save_ckpt(epoch, ckpt_dir, model.module, optimizer, epoch)
    accuracy = evaluate(model, val_loader)
    if current_ctx.rank == 0:
        assert glt.utils.load_ckpt(args.epochs - 1, ckpt_dir, model.module, optimizer) == args.epochs - 1
        print(f"Test: {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--path", required=True)
    parser.add_argument("--partition_only", action="store_true")
    parser.add_argument("--num_nodes", type=int, default=2)
    parser.add_argument("--node_rank", type=int, default=0)
    parser.add_argument("--num_training_procs", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--edge_dir", default="in")
    parser.add_argument("--random_seed", type=int, default=42)
    parser.add_argument("--master_addr", default="localhost")
    parser.add_argument("--training_pg_master_port", type=int, default=12111)
    parser.add_argument("--train_loader_master_port", type=int, default=12112)
    parser.add_argument("--val_loader_master_port", type=int, default=12113)
    args = parser.parse_args()
    if args.partition_only:
        partition(args)
    else:
        dataset = glt.distributed.DistDataset(edge_dir=args.edge_dir)
        dataset.load(
            root_dir=f"{args.path}/partitions",
            partition_idx=args.node_rank,
            graph_mode="CPU",
            feature_with_gpu=False,
            whole_node_label_file={"paper": f"{args.path}/paper_label.pt"},
        )
        idx = [torch.load(f"{args.path}/{name}{args.node_rank}.pt").share_memory_() for name in ("train_idx", "val_idx")]
        torch.multiprocessing.spawn(run_training_proc, args=(args, dataset, *idx), nprocs=args.num_training_procs, join=True)
