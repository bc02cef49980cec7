"""One of two ranks under Lightning: writes the seeds that each way to load them has given to this rank."""

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader

import halohop
from tests.pyg.lightning_parts import Classifier, pl, trainer

NUM_NODES, NUM_TRAIN = 61, 41


def graph() -> Data:
    torch.manual_seed(1)
    data = Data(x=torch.randn(NUM_NODES, 8), y=torch.arange(NUM_NODES) % 3, edge_index=torch.randint(NUM_NODES, (2, 300)))
    data.train_mask = torch.arange(NUM_NODES) < NUM_TRAIN
    data.val_mask = ~data.train_mask
    return data


def of_pyg(data: Data, split: str | None, **how: Any) -> Any:
    return NodeLoader(data, halohop.HalohopSampler(data, [2]), data[f"{split}_mask"] if split else None, batch_size=5, **how)


def ours(**more: Any) -> Callable[..., Any]:
    return lambda data, split, **how: halohop.NeighborLoader(data, [2], split, batch_size=5, num_workers=1, **how, **more)


class Module(pl.LightningDataModule):
    def __init__(self, loader: Callable[..., Any]) -> None:
        super().__init__()
        self.data, self.loader = graph(), loader

    def train_dataloader(self) -> Any:
        return self.loader(self.data, "train", shuffle=True)

    def val_dataloader(self) -> Any:
        return self.loader(self.data, "val")

    def predict_dataloader(self) -> Any:
        return self.loader(self.data, None)


class Watching(Classifier):
    """Notes the seeds of each batch of training, and of evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.evaluated: list[list[int]] = []

    def training_step(self, batch: Data, index: int) -> torch.Tensor:
        self.seen.append(batch.n_id[: batch.batch_size].tolist())
        return self.loss(batch)

    def validation_step(self, batch: Data, index: int) -> None:
        self.evaluated.append(batch.n_id[: batch.batch_size].tolist())


def fitting() -> pl.Trainer:
    return trainer(devices=2, strategy="ddp", num_sanity_val_steps=0)


def seen(loader: Callable[..., Any], *, from_hooks: bool = True) -> dict[str, Any]:
    """The batches of both epochs, of the first evaluation, and of predictions."""
    model, module = Watching(), Module(loader)
    if from_hooks:
        fitting().fit(model, datamodule=module)
        predicted = fitting().predict(Watching(), datamodule=Module(loader))
    else:
        fitting().fit(model, module.train_dataloader(), module.val_dataloader())
        predicted = fitting().predict(Watching(), module.predict_dataloader())
    half, evaluated = len(model.seen) // 2, len(model.evaluated) // 2
    found = {"first": model.seen[:half], "second": model.seen[half:], "evaluated": model.evaluated[:evaluated]}
    return found | {"predicted": [batch.tolist() for batch in predicted]}


def main(out: str, rank: str) -> None:
    warnings.simplefilter("ignore")
    world = halohop.World(rank=int(rank), size=2, local_rank=int(rank), local_size=2)
    ways = {"pyg": of_pyg, "halohop": ours(), "world": ours(world=world), "everything": ours(world=None)}
    found = {name: seen(loader) for name, loader in ways.items()} | {"direct": seen(ours(), from_hooks=False)}
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
