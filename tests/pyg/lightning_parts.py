"""What the tests of Lightning are made of. They import it when they run: it takes seconds, and few processes need it."""

from typing import Any

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from lightning.pytorch.plugins.environments import LightningEnvironment
from torch_geometric.data import Data
from torch_geometric.data.lightning import LightningLinkData, LightningNodeData
from torch_geometric.nn import GraphSAGE

__all__ = ["Classifier", "LightningLinkData", "LightningNodeData", "Links", "pl", "trainer"]


class Classifier(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = GraphSAGE(8, 16, 2, 3)
        self.seen: list[list[int]] = []

    def loss(self, batch: Data) -> torch.Tensor:
        out = self.net(batch.x, batch.edge_index)[: batch.batch_size]
        return F.cross_entropy(out, batch.y[: batch.batch_size])

    def training_step(self, batch: Data, index: int) -> torch.Tensor:
        self.seen.append(batch.input_id.tolist())
        return self.loss(batch)

    def validation_step(self, batch: Data, index: int) -> None:
        self.log("loss", self.loss(batch), batch_size=len(batch.input_id))

    def test_step(self, batch: Data, index: int) -> None:
        self.validation_step(batch, index)

    def predict_step(self, batch: Data, index: int) -> torch.Tensor:
        return batch.n_id[: batch.batch_size]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters())


class Links(Classifier):
    def loss(self, batch: Data) -> torch.Tensor:
        src, dst = self.net(batch.x, batch.edge_index)[batch.edge_label_index]
        return F.binary_cross_entropy_with_logits((src * dst).sum(-1), batch.edge_label)


def trainer(**options: Any) -> pl.Trainer:
    silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    options = {"max_epochs": 2, "accelerator": "cpu", "plugins": [LightningEnvironment()]} | silent | options
    return pl.Trainer(**options)  # whatever else is installed
