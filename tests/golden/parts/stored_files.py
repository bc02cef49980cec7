"""Tiny files of each format that halohop writes: partitions, runs, checkpoints, tables, predictions. Later code must read them.

They are not compared byte for byte, because they hold times, and weights that differ between computers. See `stored`.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData

import halohop

NODES, EDGES = 40, 160
TRAINING = {"epochs": 1, "fanout": (2, 2), "hidden": 4, "batch_size": 8, "workers": 1, "eval_fanout": (2, 2), "cache": None}
FOLDERS = ["one", "two", "float16", "int8", "typed", "replicas", "sums"]
"""Partitioned graphs."""

RUNS = {"run": "one", "typed_run": "typed", "links_run": "one"}
"""Runs, and the graphs that they train on."""

OF_A_RUN = {
    "run": {},
    "typed_run": {"target": "paper"},
    "links_run": {"task": "link", "eval_negatives": 3, "time_attr": "edge_time"},
}


def _masks(count: int) -> dict[str, torch.Tensor]:
    place = torch.arange(count) % 5
    return {"train_mask": place < 3, "val_mask": place == 3, "test_mask": place == 4}


def _edges(sources: int, destinations: int, count: int) -> torch.Tensor:
    number = torch.arange(count)
    return torch.stack([(number * 7 + number // 9) % sources, (number * number * 3 + number) % destinations])


def graph() -> Data:
    """Numbers that each computer makes the same; features are fractions that float16 holds."""
    node, edge = torch.arange(NODES), torch.arange(EDGES)
    x = ((node[:, None] * 5 + torch.arange(4) * 11) % 33 - 16) / 8
    found = Data(x=x, y=node * 3 % 4, time=1_600_000_000 + node * 86_400, **_masks(NODES))
    found.edge_index = _edges(NODES, NODES, EDGES)
    found.weight, found.edge_time = (edge % 7 + 1) / 4, edge * edge
    return found


def typed_graph() -> HeteroData:
    """Authors have no features: they learn vectors."""
    found, plain = HeteroData(), graph()
    found["paper"].x, found["paper"].y = plain.x, plain.y
    for name, mask in _masks(NODES).items():
        found["paper"][name] = mask
    found["author"].num_nodes = 24
    found["author", "writes", "paper"].edge_index = _edges(24, NODES, EDGES)
    found["paper", "rev_writes", "author"].edge_index = _edges(24, NODES, EDGES).flip(0)
    found["paper", "cites", "paper"].edge_index = _edges(NODES, NODES, 90)
    return found


@contextlib.contextmanager
def quiet_folder() -> Iterator[Path]:
    """A new working directory, so that files name no folder of anyone."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def build_graphs() -> None:
    """Partitions in the working directory."""
    halohop.partition(graph(), "one", num_parts=1, method="range")
    halohop.partition(graph(), "two", num_parts=2, method="random", halo=["y"])
    halohop.partition(graph(), "float16", num_parts=2, method="random", feature_dtype="float16")
    halohop.partition(graph(), "int8", num_parts=2, method="random", feature_dtype="int8")
    halohop.partition(typed_graph(), "typed", num_parts=2, method="random")
    shutil.copytree("two", "replicas")
    halohop.add_replicas("replicas", halohop.Replicas(ratio=0.5, fanouts=[2, 2], batch_size=8))
    halohop.partition(graph(), "sums", num_parts=2, method="random", weight_sums=["weight"])


def config_of(run: str, **changed: Any) -> Any:
    from halohop.recipes.config import TrainConfig

    return TrainConfig(**{"parts": RUNS.get(run, "one"), "out": run, **TRAINING, **OF_A_RUN.get(run, {}), **changed})


def build_runs() -> None:
    """Runs, predictions and tables in the working directory, which has the graphs."""
    from halohop.recipes.config import InferConfig
    from halohop.recipes.inference import infer
    from halohop.recipes.train import train

    for run, parts in RUNS.items():
        train(config_of(run))
        infer(InferConfig(parts=parts, checkpoint=f"{run}/checkpoint", out=f"{run}_predictions", embeddings=True, workers=1))
    with halohop.open("two") as opened:
        numbers = halohop.DistTensor(opened, (None, 2), torch.int64, "numbers", node_type="node")
        numbers[torch.arange(NODES)] = torch.arange(2 * NODES).view(NODES, 2)
        rows = halohop.DistTensor(opened, (5,), torch.float16, "rows")
        rows[torch.tensor([3, 1])] = torch.tensor([0.5, -2.0], dtype=torch.float16)
        opened.tables.save("tables", step=3)
        opened.tables.export("numbers", "numbers.npy")


def launch() -> None:
    """The run folder of a job."""
    words = [f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}" for name, value in TRAINING.items()]
    trained = [word for pair in words for word in ("--train", pair.replace("_", "-").replace("None", "none"))]
    command = [sys.executable, "-W", "ignore", "-m", "halohop", "launch", "--data", "one", "--out", "launched", *trained]
    subprocess.run(command, check=True, timeout=300)


def make() -> dict[str, Any]:
    with quiet_folder() as folder:
        build_graphs()
        build_runs()
        launch()
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".html"]
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}
