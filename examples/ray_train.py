"""Ray: the graph on servers that Ray starts again when they die, trainers by Ray Train, and a checkpoint with the loader's place.

    python examples/ray_train.py        # on a node of a cluster; alone it starts a small one on this machine

Kill a server or a trainer while it runs: every batch is the same.
"""

import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
import torch.nn.functional as F
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch_geometric.nn.models import GraphSAGE

import halohop
from halohop.datasets import synthetic
from halohop.launch.jobs.ray import GraphService

SHARED = Path("runs/ray").absolute()  # a folder that all nodes see
EPOCHS, SAVE_EVERY = 3, 10


def train(config: dict[str, Any]) -> None:
    """One trainer; Ray calls it in each worker, and again in all of them when one was lost."""
    world = halohop.World.detect()
    with config["graph"].open() as graph:
        loader = halohop.NeighborLoader(graph, [10, 5], "train", batch_size=32, shuffle=True, seed=0, world=world)
        torch.manual_seed(0)
        model = prepare_model(GraphSAGE(in_channels=32, hidden_channels=64, num_layers=2, out_channels=8))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        step = 0
        if checkpoint := ray.train.get_checkpoint():
            with checkpoint.as_directory() as folder:
                state = torch.load(Path(folder) / "state.pt", weights_only=True)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            loader.load_state_dict(state["loader"])
            step = state["step"]
        while step < EPOCHS * len(loader):
            for batch in loader:  # after load_state_dict: the rest of the epoch
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                loss = F.cross_entropy(out, batch.y[: batch.batch_size])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                if step % SAVE_EVERY == 0 or step == EPOCHS * len(loader):
                    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                    save(state | {"loader": loader.state_dict(), "step": step}, loss.item(), world)


def save(state: dict[str, Any], loss: float, world: halohop.World) -> None:
    """All ranks report; rank 0 brings the checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, Path(folder) / "state.pt")
        saved = Checkpoint.from_directory(folder) if world.rank == 0 else None
        ray.train.report({"loss": loss, "step": state["step"]}, checkpoint=saved)


def main() -> None:
    """Two servers, each with one half of the partitions and a copy of the other, and two trainers."""
    halohop.partition(synthetic("tiny"), SHARED / "parts", num_parts=2, overwrite=True)
    ray.init(log_to_driver=False)
    with GraphService(SHARED / "parts", servers=2, replicas=2, num_cpus=0.5, strategy="SPREAD") as service:
        trainer = TorchTrainer(
            train,
            train_loop_config={"graph": service.reference()},
            scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
            run_config=RunConfig(storage_path=str(SHARED), failure_config=FailureConfig(max_failures=3)),
        )
        metrics = trainer.fit().metrics
    assert metrics is not None
    print(f"step {metrics['step']}: loss {metrics['loss']:.3f}")


if __name__ == "__main__":
    main()
