"""A server that splits its nodes at random, and a client that trains on the split, and looks up what it needs to know."""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphSAGE

import halohop.glt as glt
from halohop.glt.distributed import DistServer, RemoteDistSamplingWorkerOptions
from halohop.glt.typing import Split


def run_server_proc(rank, world_size, root, port):
    dataset = glt.distributed.DistDataset(edge_dir="out")
    dataset.load(f"{root}/ogbn-products-partitions", rank, "CPU", whole_node_label_file=f"{root}/label.pt")
    torch.manual_seed(rank)
    dataset.random_node_split(0.2, 0.2)
    glt.distributed.init_server(world_size, rank, dataset, "localhost", port, num_clients=1)
    glt.distributed.wait_and_shutdown_server()


def batches_of(split, servers):
    options = RemoteDistSamplingWorkerOptions(server_rank=servers, num_workers=1, prefetch_size=4)
    return glt.distributed.DistNeighborLoader(
        None, [10, 5], split, batch_size=64, shuffle=True, collect_features=True, worker_options=options
    )


def run_client_proc(num_servers, port):
    glt.distributed.init_client(num_servers, 1, 0, "localhost", port)
    servers = list(range(num_servers))
    num_parts, _, node_types, _ = glt.distributed.request_server(0, DistServer.get_dataset_meta)
    sizes = [glt.distributed.async_request_server(rank, DistServer.get_tensor_size, None).wait() for rank in servers]
    print(f"{num_parts} partitions of {node_types}, {sum(size[0] for size in sizes)} nodes", flush=True)
    train_loader, test_loader = batches_of(Split.train, servers), batches_of(Split.test, servers)
    torch.manual_seed(0)
    model = GraphSAGE(int(sizes[0][1]), 64, num_layers=2, out_channels=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(4):
        total = 0.0
        for batch in train_loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            total += float(loss)
        print(f"client 0 epoch {epoch} loss {total / len(train_loader):.4f}", flush=True)
    right = count = 0
    for batch in test_loader:
        out = model(batch.x, batch.edge_index)[: batch.batch_size].argmax(dim=-1)
        right += int((out == batch.y[: batch.batch_size]).sum())
        count += batch.batch_size
    print(f"test accuracy {right / count:.3f} of {count}", flush=True)
    glt.distributed.shutdown_client()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root")
    parser.add_argument("--ports", type=int, nargs=2)
    args = parser.parse_args()
    mp_context = torch.multiprocessing.get_context("spawn")
    servers = [mp_context.Process(target=run_server_proc, args=(rank, 2, args.root, args.ports[0])) for rank in range(2)]
    for server in servers:
        server.start()
    run_client_proc(2, args.ports[0])
    for server in servers:
        server.join()
    raise SystemExit(max(abs(server.exitcode) for server in servers))
