"""One trainer without a model: goes through epochs of a partitioned graph.

Of every batch it prints a digest, and where the loader stands then: a STATE with which another run goes on. Each batch is waited
for until a line comes, or the end of the standard input.

python worker.py FOLDER EPOCHS THREADS METHOD [STATE [CALL_SECONDS]]
"""

import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist

import halohop
from halohop.transport import Limits


def digest(batch) -> str:
    summary = hashlib.sha256()
    for key, value in sorted(batch.to_dict().items()):
        summary.update(key.encode())
        summary.update(value.numpy().tobytes() if isinstance(value, torch.Tensor) else repr(value).encode())
    return summary.hexdigest()


def batches(graph: halohop.Graph, threads: int, method: str = "neighbor") -> halohop.NeighborLoader:
    return halohop.NeighborLoader(
        graph, [5, 5], input_nodes="train", batch_size=32, shuffle=True, seed=4, num_workers=threads, method=method
    )


def go_through(loader: halohop.NeighborLoader, epochs: int, state: str) -> None:
    if state:
        loader.load_state_dict(json.loads(state))
    while loader.state_dict()["epoch"] < epochs:
        for batch in loader:
            sys.stdin.readline()
            print(digest(batch), json.dumps(loader.state_dict()), flush=True)


def main(folder: str, epochs: int, threads: int, method: str, state: str = "", call_seconds: str = "5") -> None:
    world = halohop.World.from_env()
    store = None
    if world.rank == 0 and world.num_hosts > 1:
        store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=True, wait_for_workers=False)
    limits = Limits(call_seconds=float(call_seconds), attempt_seconds=0.5, connect_seconds=5)
    with halohop.open(folder, limits=limits, deadline=40) as graph:
        go_through(batches(graph, threads, method), epochs, state)
        print("remote rows", graph.statistics()["remote_rows"] > 0, flush=True)
    del store


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
