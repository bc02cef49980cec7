"""Clients that ask all servers, a path for each, and divide the seeds, since they have one worker_key."""

import argparse

import torch
import torch.multiprocessing as mp

import halohop.glt as glt

NUM_SERVERS, NUM_CLIENTS = 2, 3


def run(rank, root, port):
    if rank < NUM_SERVERS:
        dataset = glt.distributed.DistDataset()
        dataset.load(f"{root}/ogbn-products-partitions", rank, graph_mode="CPU")
        glt.distributed.init_server(NUM_SERVERS, rank, dataset, "localhost", port, NUM_CLIENTS)
        return glt.distributed.wait_and_shutdown_server()
    client_rank = rank - NUM_SERVERS
    glt.distributed.init_client(NUM_SERVERS, NUM_CLIENTS, client_rank, "localhost", port)
    paths = [f"{root}/ogbn-products-train-partitions/partition{part}.pt" for part in range(NUM_SERVERS)]
    loader = glt.distributed.DistNeighborLoader(
        data=None,
        num_neighbors=[15, 10],
        input_nodes=paths,
        batch_size=16,
        shuffle=True,
        with_edge=True,
        collect_features=True,
        worker_options=glt.distributed.RemoteDistSamplingWorkerOptions(
            server_rank=list(range(NUM_SERVERS)), buffer_size="128MB", prefetch_size=2, worker_key="train"
        ),
    )
    for epoch in range(2):
        steps, seeds = 0, []
        for batch in loader:
            assert batch.x.shape == (len(batch.node), 100)
            assert len(batch.edge) == batch.edge_index.shape[1]
            steps, seeds = steps + 1, [*seeds, *batch.batch.tolist()]
        print(f"client {client_rank} epoch {epoch} steps {steps} seeds {' '.join(map(str, seeds))}", flush=True)
    return glt.distributed.shutdown_client()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root")
    parser.add_argument("--ports", type=int, nargs=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    mp.spawn(run, args=(args.root, args.ports[0]), nprocs=NUM_SERVERS + NUM_CLIENTS)
