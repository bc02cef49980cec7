"""GraphSAGE with servers: each client asks the server of its rank, which reads the client's seeds from a path of its own."""

import argparse

import torch
import torch.nn.functional as F
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE

import halohop.glt as glt


def run_server_proc(server_rank, num_servers, num_clients, root, port):
    dataset = glt.distributed.DistDataset()
    dataset.load(
        root_dir=f"{root}/ogbn-products-partitions",
        partition_idx=server_rank,
        graph_mode="CPU",
        whole_node_label_file=f"{root}/ogbn-products-label/label.pt",
    )
    glt.distributed.init_server(
        num_servers=num_servers,
        server_rank=server_rank,
        dataset=dataset,
        master_addr="localhost",
        master_port=port,
        num_clients=num_clients,
    )
    glt.distributed.wait_and_shutdown_server()


def run_client_proc(client_rank, num_servers, num_clients, root, port, training_port):
    glt.distributed.init_client(
        num_servers=num_servers,
        num_clients=num_clients,
        client_rank=client_rank,
        master_addr="localhost",
        master_port=port,
    )
    current_ctx = glt.distributed.get_context()
    torch.distributed.init_process_group(
        backend="gloo",
        rank=current_ctx.rank,
        world_size=current_ctx.world_size,
        init_method=f"tcp://localhost:{training_port}",
    )
    target_server_rank = client_rank % current_ctx.num_servers()
    gpus = glt.distributed.request_server(target_server_rank, func=torch.cuda.device_count)
    train_loader = glt.distributed.DistNeighborLoader(
        data=None,
        num_neighbors=[10, 5],
        input_nodes=f"{root}/ogbn-products-train-partitions/partition{target_server_rank}.pt",
        batch_size=32,
        shuffle=True,
        collect_features=True,
        to_device=torch.device("cpu"),
        worker_options=glt.distributed.RemoteDistSamplingWorkerOptions(
            server_rank=target_server_rank,
            num_workers=max(gpus, 1),
            worker_devices=[torch.device("cpu")],
            worker_concurrency=4,
            master_addr="localhost",
            master_port=training_port + 1,
            buffer_size="256MB",
            prefetch_size=2,
        ),
    )
    torch.manual_seed(0)
    model = DistributedDataParallel(GraphSAGE(100, 64, num_layers=2, out_channels=8))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(4):
        total = 0.0
        with Join([model]):
            for batch in train_loader:
                optimizer.zero_grad()
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                loss = F.cross_entropy(out, batch.y[: batch.batch_size])
                loss.backward()
                optimizer.step()
                total += float(loss)
        print(f"client {client_rank} epoch {epoch} loss {total / len(train_loader):.4f}", flush=True)
    torch.distributed.destroy_process_group()
    glt.distributed.shutdown_client()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root")
    parser.add_argument("--ports", type=int, nargs=2)
    args = parser.parse_args()
    mp_context = torch.multiprocessing.get_context("spawn")
    roles = [(run_server_proc, (rank, 2, 2, args.root, args.ports[0])) for rank in range(2)]
    roles += [(run_client_proc, (rank, 2, 2, args.root, *args.ports)) for rank in range(2)]
    procs = [mp_context.Process(target=target, args=words) for target, words in roles]
    for proc in procs:
        proc.start()
    for proc in procs:
        proc.join()
    raise SystemExit(max(abs(proc.exitcode) for proc in procs))
