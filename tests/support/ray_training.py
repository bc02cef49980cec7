"""A driver for a cluster of Ray's: `python -m tests.support.ray_training SETTINGS.json`. Every batch's hash goes to a file.

Its train loop is what users write: a graph by reference, a loader, a checkpoint of Ray's with the loader's state.
"""

import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import halohop

_COLUMNS = ("n_id", "e_id", "edge_index", "input_id", "x", "y")


def digest(batch: Any) -> str:
    """Of all that a batch holds."""
    mark = hashlib.sha256()
    for name in _COLUMNS:
        mark.update(batch[name].contiguous().numpy().tobytes())
    return mark.hexdigest()[:16]


def loader_of(graph: halohop.Graph, settings: Mapping[str, Any], world: halohop.World) -> halohop.NeighborLoader:
    """The loader of both the trainers and the process that they are compared with."""
    return halohop.NeighborLoader(
        graph, [10, 5], "train", batch_size=settings["batch_size"], shuffle=True, seed=3, world=world, num_workers=2
    )


def train(settings: dict[str, Any]) -> None:
    """One trainer: two epochs, a pause at each step, a checkpoint every few steps."""
    import ray.train
    from ray.train import Checkpoint
    from ray.train.torch import prepare_model
    from torch_geometric.nn.models import GraphSAGE

    world = halohop.World.detect()
    pause = threading.Event()
    with (
        settings["graph"].open() as graph,
        Path(settings["out"], f"batches-{world.rank}.txt").open("a") as said,
    ):
        loader = loader_of(graph, settings, world)
        columns = graph.schema.nodes["node"].columns
        torch.manual_seed(0)
        model = prepare_model(GraphSAGE(columns["x"].shape[0], 16, num_layers=2, out_channels=8))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        step = 0
        if checkpoint := ray.train.get_checkpoint():
            with checkpoint.as_directory() as folder:
                state = torch.load(Path(folder, "state.pt"), weights_only=True)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            loader.load_state_dict(state["loader"])
            step = state["step"]
        print(json.dumps({"begin": step, "pid": os.getpid()}), file=said, flush=True)
        steps = settings["epochs"] * len(loader)
        while step < steps:
            for batch in loader:
                loss = F.cross_entropy(model(batch.x, batch.edge_index)[: batch.batch_size], batch.y[: batch.batch_size])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                line = {"step": step, "hash": digest(batch), "loss": loss.item(), "time": time.time()}
                print(json.dumps(line), file=said, flush=True)
                step += 1
                pause.wait(settings["pause"])
                if step % settings["save_every"] == 0:
                    with tempfile.TemporaryDirectory() as folder:
                        if world.rank == 0:
                            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                            torch.save(state | {"loader": loader.state_dict(), "step": step}, Path(folder, "state.pt"))
                        saved = Checkpoint.from_directory(folder) if world.rank == 0 else None
                        ray.train.report({"step": step}, checkpoint=saved)


def main(settings: dict[str, Any]) -> None:
    """Trains with servers on the cluster; prints where they are, then that it is done."""
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from halohop.launch.jobs.ray import GraphService

    ray.init(address=settings["address"], log_to_driver=False)
    with GraphService(settings["parts"], servers=2, replicas=settings.get("replicas", 1), num_cpus=1, name="graph") as service:
        print(json.dumps({"servers": service.addresses}), flush=True)
        trainer = TorchTrainer(
            train,
            train_loop_config=settings | {"graph": service.reference()},
            scaling_config=ScalingConfig(num_workers=settings["trainers"], placement_strategy="SPREAD"),
            run_config=RunConfig(name="run", storage_path=settings["out"], failure_config=FailureConfig(max_failures=30)),
        )
        begun, ended = Path(settings["out"], "batches-0.txt"), threading.Event()
        used: dict[bool, float] = {False: 0.0, True: 0.0}

        def watch() -> None:
            while not ended.wait(0.1):
                used[begun.exists()] = max(used[begun.exists()], store_bytes())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            trainer.fit()
        finally:
            ended.set()
            watcher.join()
        print(json.dumps({"done": True, "store_before": used[False], "store_in_training": used[True]}), flush=True)


def store_bytes() -> float:
    """What all nodes' object stores hold now."""
    import ray

    name = "object_store_memory"
    return ray.cluster_resources().get(name, 0.0) - ray.available_resources().get(name, 0.0)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
