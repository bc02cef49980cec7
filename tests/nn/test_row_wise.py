"""What is said of an operation is true: with fewer rows, those that are left are the same."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

import halohop
from halohop.nn import fuse
from halohop.nn.row_wise import name_of

Between = Callable[[Tensor], Any]

KEPT: dict[str, Between] = {
    "operators": lambda h: 1 - 2 * h / 3 + h**2 - (-h).abs(),
    "in place": lambda h: h.clone().add_(1).mul_(h).relu_(),
    "activations": lambda h: F.gelu(F.elu(h)) + F.leaky_relu(h) + F.prelu(h, torch.ones(4)) + F.softplus(h).tanh().sigmoid(),
    "dropout": lambda h: F.dropout(h, 0.0, training=True),
    "rows' sums": lambda h: h / h.sum(1, keepdim=True).clamp(min=1) + h.mean(-1, keepdim=True) + h.norm(dim=1, keepdim=True),
    "softmax": lambda h: h.softmax(-1) + F.log_softmax(h, dim=1) + F.normalize(h),
    "layer norm": lambda h: F.layer_norm(h, (4,)) + F.layer_norm(h, [4], torch.ones(4)),
    "heads": lambda h: (h.view(-1, 2, 2) * torch.ones(2, 1)).flatten(1) + h.reshape(-1, 4),
    "columns": lambda h: torch.cat([h[:, 2:], h[:, :2]], dim=-1) + torch.cat(h.chunk(2, dim=1)[::-1], 1),
    "a column": lambda h: h * h[:, 0].unsqueeze(1) + h.select(1, 1).unsqueeze(-1),
    "matrices": lambda h: F.linear(h, torch.ones(4, 4), torch.ones(4)) + h @ torch.ones(4, 4),
    "stack": lambda h: torch.stack([h, h * 2]).sum(0) + torch.stack([h, -h], dim=0).max(dim=0)[0] + torch.stack([h, h], 1).sum(1),
    "choice": lambda h: torch.where(h > 0, h, -h).masked_fill(h < -1, 0),
    "dtype": lambda h: h.to(torch.float64).float().type_as(h) if h.dtype == torch.float64 else h.double().float(),
    "width": lambda h: h / h.size(1) + h.dim() + h.size(-1),
    "greatest": lambda h: h + h.max(1, keepdim=True)[0] + h.topk(2, dim=1)[0].sum(1, keepdim=True),
    "evaluated batch norm": lambda h: F.batch_norm(h, torch.zeros(4), torch.ones(4)),
}
NOT_KEPT: dict[str, Between] = {
    "sum": lambda h: h + h.sum(),
    "sum along rows": lambda h: h + h.sum(0),
    "sum of a stack's rows": lambda h: h + torch.stack([h, h]).sum(1)[0],
    "all of a stack": lambda h: h + torch.stack([h, h]).sum(),
    "softmax": lambda h: h.softmax(0),
    "normalize": lambda h: F.normalize(h, dim=0),
    "layer norm": lambda h: F.layer_norm(h, h.shape),
    "batch norm": lambda h: F.batch_norm(h, None, None, training=True),
    "order": lambda h: h + h.sort(0)[0],
    "cumsum": lambda h: h.cumsum(0),
    "roll": lambda h: h.roll(1, 0),
    "flip": lambda h: h.flip(0),
    "last row": lambda h: h + h[-1],
    "rows from the end": lambda h: h + h[torch.tensor([-1])],
    "every other row": lambda h: h + h[::2].sum(0),
    "a mask": lambda h: h + h[h[:, 0] > 0].sum(0),
    "places of a condition": lambda h: h + len(torch.where(h > 0)[0]),
    "number of rows": lambda h: h * h.shape[0],
    "number of rows by len": lambda h: h * len(h),
    "number of numbers": lambda h: h * h.numel(),
    "product with itself": lambda h: h + (h @ h.t()).sum(1, keepdim=True),
    "linear of itself": lambda h: h + F.linear(h, h).sum(1, keepdim=True),
    "attention": lambda h: F.scaled_dot_product_attention(h, h, h),
    "rows as columns": lambda h: h.view(4, -1).softmax(1).view(-1, 4),
    "a number": lambda h: h * float(h.detach().abs().max()),
    "python": lambda h: h * sum(h.flatten().tolist()),
    "numpy": lambda h: h + torch.from_numpy(h.detach().numpy().sum(0)),
    "written": lambda h: torch.zeros(200, 4).index_copy(0, torch.arange(h.size(0)), h)[: h.size(0)] + h.mean(),
}


class Model(nn.Module):
    def __init__(self, between: Between) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convs, self.between = nn.ModuleList([SAGEConv(4, 4), SAGEConv(4, 4)]), between

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.between(self.convs[1](self.between(self.convs[0](x, edge_index)), edge_index))


@pytest.fixture(scope="module")
def batch() -> Any:
    torch.manual_seed(0)
    data = Data(x=torch.randn(60, 4), edge_index=torch.randint(60, (2, 300)))
    return next(iter(halohop.NeighborLoader(data, [3, 2], batch_size=6, num_workers=0)))


@pytest.mark.parametrize("name", KEPT)
def test_rows_that_are_kept_apart(name: str, batch: Any) -> None:
    plain, seeds = Model(KEPT[name]), fuse(Model(KEPT[name]), rows="seeds")
    found = seeds(batch.x, batch.edge_index)
    assert len(found) == 6
    torch.testing.assert_close(found, plain(batch.x, batch.edge_index)[:6])


@pytest.mark.parametrize("name", NOT_KEPT)
def test_operations_that_read_other_rows(name: str, batch: Any) -> None:
    """The model gives all rows, as PyG's does."""
    plain, seeds = Model(NOT_KEPT[name]), fuse(Model(NOT_KEPT[name]), rows="seeds")
    torch.testing.assert_close(seeds(batch.x, batch.edge_index), plain(batch.x, batch.edge_index))


@pytest.mark.parametrize("take", [lambda h: h[:3].sum(0), lambda h: h[torch.tensor([0, 5])], lambda h: h[:2].mean()])
def test_the_first_rows_may_be_mixed(take: Between, batch: Any) -> None:
    class Reads(Model):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            out: Tensor = take(super().forward(x, edge_index))
            return out

    seeds = fuse(Reads(torch.relu), rows="seeds")
    torch.testing.assert_close(seeds(batch.x, batch.edge_index), Reads(torch.relu)(batch.x, batch.edge_index))
    assert seeds._seed_layers == {True: 2}


def test_names_of_others_are_not_those_of_torch() -> None:
    def normalize(x: Tensor) -> Tensor:
        return x - x.mean(0)

    assert name_of(F.normalize) == "normalize"
    assert name_of(normalize) != "normalize"
    assert name_of(torch.Tensor.__rsub__) == "rsub"
    assert name_of(torch.Tensor.add_) == "add"
    assert name_of(torch.ops.aten.relu) != "relu"
