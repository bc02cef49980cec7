"""Rows of destinations and what they aggregate have the gradients of a slice and of the lists."""

import pytest
import torch

from halohop.nn import hops
from halohop.nn.own import own_and_reduced
from tests.support.hop_batches import batch_of, made


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("used", [(True, True), (True, False), (False, True)])
def test_gradients(reduce: str, used: tuple[bool, bool]) -> None:
    hop = hops(batch_of(made()))[1]

    def apart(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = torch.zeros(hop.num_dst, 3, dtype=x.dtype).index_add(0, hop.dst, x[hop.src])
        return x[: hop.num_dst], total if reduce == "sum" else total / hop.begins.diff().clamp(min=1)[:, None]

    x = torch.randn(hop.num_src, 3, dtype=torch.float64, requires_grad=True)
    found = []
    for outputs in (own_and_reduced(x, hop, reduce), apart(x)):  # type: ignore[arg-type]
        loss = sum((output.sin() ** 2).sum() for output, wanted in zip(outputs, used, strict=True) if wanted)
        (grad,) = torch.autograd.grad(loss, x, create_graph=True)  # type: ignore[arg-type]
        (second,) = torch.autograd.grad(grad.square().sum(), x)
        found.append([*outputs, grad, second])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
