"""What the ranks of `joined_rank` learn."""

import torch
from torch import Tensor, nn

DIM, EPOCHS, NODES, RANKS = 6, 2, 30, 2


class Head(nn.Module):
    """A small model whose parameters are the same in all processes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(DIM, 3)
        with torch.no_grad():
            self.layer.weight.copy_(torch.linspace(-1, 1, 3 * DIM).view(3, DIM))
            self.layer.bias.zero_()

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.layer(rows)
        return out


def batches(epoch: int, rank: int) -> list[tuple[Tensor, Tensor]]:
    """Ids and labels: six batches of rank 0, three of rank 1."""
    generator = torch.Generator().manual_seed(100 * epoch + rank)
    ids = torch.randint(NODES, (6 - 3 * rank, 8), generator=generator)
    return [(some, some % 3) for some in ids]
