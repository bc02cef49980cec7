"""What the ranks of `joined_rank` learn: a dense model and three tables, by two optimisers of tables."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

DIM, NODES, RANKS = 6, 30, 3
LENGTHS = ((4, 2, 0), (1, 3, 2), (2, 2, 2))
"""By epoch, how many batches each rank has."""
WAYS = ("model.join(), made first", "model.join(), holds the tables", "Join([model, first, others])")
"""How the ranks are joined, each with tables of its own."""
TABLES = ("one", "two", "three")


class Head(nn.Module):
    """A small model whose parameters are the same in all processes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(DIM, 3)
        with torch.no_grad():
            self.layer.weight.copy_(torch.linspace(-1, 1, 3 * DIM).view(3, DIM))
            self.layer.bias.zero_()

    def forward(self, rows: Sequence[Tensor]) -> Tensor:
        out: Tensor = self.layer(rows[0] + rows[1] * rows[2])
        return out


class Whole(nn.Module):
    """The same with its tables within."""

    def __init__(self, tables: Sequence[nn.Module]) -> None:
        super().__init__()
        self.head, self.tables = Head(), nn.ModuleList(tables)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.head([table(ids) for table in self.tables])
        return out


def optimizers(tables: Sequence[Any], adam: Callable[..., Any], adagrad: Callable[..., Any]) -> list[Any]:
    """Of the first table, and of the two others."""
    return [adam(tables[:1], lr=0.05), adagrad([{"params": tables[1:2], "lr": 0.2}, {"params": tables[2:]}], lr=0.1)]


def batches(epoch: int, rank: int) -> list[tuple[Tensor, Tensor]]:
    """Ids and labels."""
    generator = torch.Generator().manual_seed(100 * epoch + rank)
    ids = torch.randint(NODES, (LENGTHS[epoch][rank], 8), generator=generator)
    return [(some, some % 3) for some in ids]
