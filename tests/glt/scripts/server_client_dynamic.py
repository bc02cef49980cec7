"""Servers that start before it is known how many clients come, and clients that come one after the other."""

import argparse

import torch

import halohop.glt as glt


def run_server_proc(rank, world_size, root, port):
    dataset = glt.distributed.DistDataset()
    dataset.load(f"{root}/ogbn-products-partitions", rank, graph_mode="CPU")
    glt.distributed.init_server(world_size, rank, dataset, "localhost", port, is_dynamic=True)
    glt.distributed.wait_and_shutdown_server()


def run_client_proc(rank, num_clients, num_servers, root, port):
    glt.distributed.init_client(num_servers, num_clients, rank, "localhost", port, is_dynamic=True)
    loader = glt.distributed.DistNeighborLoader(
        None,
        [5, 5],
        f"{root}/ogbn-products-train-partitions/partition{rank}.pt",
        batch_size=32,
        worker_options=glt.distributed.RemoteDistSamplingWorkerOptions(server_rank=rank),
    )
    print(f"client {rank} seeds {sum(batch.batch_size for batch in loader)}", flush=True)
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
    for rank in (0, 0, 1):  # the first one comes back
        client = mp_context.Process(target=run_client_proc, args=(rank, 2, 2, args.root, args.ports[0]))
        client.start()
        client.join()
        assert client.exitcode == 0
    for server in servers:
        server.join()
    raise SystemExit(max(abs(server.exitcode) for server in servers))
