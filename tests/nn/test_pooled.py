"""What is computed in memory that is used again is what torch computes, and so are its gradients."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

import halohop
from halohop.nn import fuse, pooled
from halohop.ops.pool import layer_pool

LARGE = 10_001  # rows of 128 columns, 5 MiB, in several parts of which the last is shorter


TOLERANCES = {torch.float32: {"rtol": 1e-4, "atol": 1e-3}}
"""Of sums of ten thousand numbers, which are added in another order."""


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooled, "_LARGE", 0)


def given(dtype: torch.dtype, rows: int = LARGE, wide: int = 64, narrow: int = 128) -> tuple[Tensor, Tensor, Tensor]:
    made = torch.Generator().manual_seed(0)
    shapes = ((rows, wide), (narrow, wide), (narrow,))
    first, second, third = (torch.randn(shape, generator=made).to(dtype).requires_grad_() for shape in shapes)
    return first, second, third


PAIRS: list[tuple[Callable[..., Tensor], Callable[..., Tensor]]] = [
    (pooled.linear, F.linear),
    (lambda rows, weight, bias: pooled.linear(rows, weight), lambda rows, weight, bias: F.linear(rows, weight)),
    (
        lambda rows, weight, bias: pooled.sum_of_products((rows, weight), (rows.cos(), weight.sin()), bias=bias),
        lambda rows, weight, bias: F.linear(rows, weight, bias) + F.linear(rows.cos(), weight.sin()),
    ),
    (lambda rows, weight, bias: pooled.relu(rows) * weight[0], lambda rows, weight, bias: torch.relu(rows) * weight[0]),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("ours", "torchs"), PAIRS, ids=["with bias", "without bias", "sum of two", "relu"])
def test_results_and_gradients_are_those_of_torch(
    ours: Callable[..., Tensor], torchs: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    found = []
    for function in (ours, torchs):
        tensors = given(dtype)
        out = function(*tensors)
        out.sin().sum().backward()
        found.append([out, *(tensor.grad for tensor in tensors)])
    for one, other in zip(*found, strict=True):
        if other is None:
            assert one is None
        else:
            torch.testing.assert_close(one, other, **TOLERANCES.get(dtype, {}))


@pytest.mark.parametrize("needed", [(True, False, False), (False, True, False), (False, False, True), (True, True, True)])
@pytest.mark.usefixtures("everything_is_large")
def test_gradients_of_gradients(needed: tuple[bool, bool, bool]) -> None:
    tensors = [one.detach().requires_grad_(need) for one, need in zip(given(torch.float64, 5, 3, 4), needed, strict=True)]

    def product(*tensors: Tensor) -> Tensor:
        rows, weight, bias = tensors
        return pooled.relu(pooled.sum_of_products((rows, weight), (rows.sin(), weight), bias=bias)).square()

    assert torch.autograd.gradcheck(product, tensors)
    assert torch.autograd.gradgradcheck(product, tensors)


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_where_relu_has_a_corner(create_graph: bool) -> None:
    found = []
    for function in (pooled.relu, torch.relu):
        rows = torch.tensor([[-1.0, 0.0, 2.0, float("nan")]], requires_grad=True)
        (grad,) = torch.autograd.grad(function(rows).sqrt().sum(), rows, create_graph=create_graph)
        found.append(grad.detach())
        if create_graph:
            grad[0, 2].backward()
            assert rows.grad is not None
            found[-1] = torch.cat([found[-1], rows.grad])
    torch.testing.assert_close(*found, equal_nan=True)


@pytest.mark.parametrize("frozen", ["rows", "weight"])
def test_only_what_a_gradient_needs_is_kept(frozen: str) -> None:
    """What no gradient needs may be changed before the backward pass."""
    rows, weight, bias = given(torch.float32)
    constant, other = (rows, weight) if frozen == "rows" else (weight, rows)
    constant.requires_grad_(False)
    out = pooled.linear(rows, weight, bias)
    with torch.no_grad():
        other.mul_(2)
    out.sum().backward()
    assert constant.grad is None
    assert other.grad is not None


@pytest.mark.parametrize("shape", [(1,), (1, 128), (LARGE, 128), (LARGE, 1), ()])
def test_biases_of_other_shapes(shape: tuple[int, ...]) -> None:
    found = []
    for function in (pooled.linear, F.linear):
        rows, weight, _ = given(torch.float32)
        bias = torch.ones(shape, requires_grad=True)
        out = function(rows, weight, bias)
        out.sum().backward()
        found.append([out, bias.grad])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_rows_that_do_not_fit_are_refused() -> None:
    weight = torch.ones(128, 4)
    with pytest.raises(RuntimeError, match="must match"):
        pooled.sum_of_products((torch.ones(8192, 4), weight), (torch.ones(9000, 4), weight))


def test_transforms_of_functions() -> None:
    rows, weight, bias = given(torch.float32)

    def function(*tensors: Tensor) -> Tensor:
        return pooled.relu(pooled.linear(*tensors))

    def of_torch(*tensors: Tensor) -> Tensor:
        return torch.relu(F.linear(*tensors))

    stacked = torch.stack([weight.detach(), -weight.detach()])
    for ours, torchs in zip(
        (torch.vmap(function, (None, 0, None))(rows, stacked, bias), batched(pooled.relu, pooled.linear)),
        (torch.vmap(of_torch, (None, 0, None))(rows, stacked, bias), batched(torch.relu, F.linear)),
        strict=True,
    ):
        torch.testing.assert_close(ours, torchs, **TOLERANCES[torch.float32])
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(weight.detach(), torch.ones_like(weight))
        tangent = torch.autograd.forward_ad.unpack_dual(pooled.linear(rows, dual, bias)).tangent
        torch.testing.assert_close(tangent, F.linear(rows, torch.ones_like(weight)))


def batched(relu: Callable[..., Tensor], linear: Callable[..., Tensor]) -> Tensor:
    rows, weight, bias = given(torch.float32)
    out = relu(linear(rows, weight, bias))
    (grads,) = torch.autograd.grad(out, weight, torch.ones(3, *out.shape), is_grads_batched=True)
    return grads


@pytest.mark.usefixtures("everything_is_large")
def test_special_numbers_and_empty_rows() -> None:
    rows = torch.tensor([[float("nan"), -0.0, float("inf"), -float("inf")]])
    torch.testing.assert_close(pooled.relu(rows), torch.relu(rows), equal_nan=True)
    assert pooled.relu(rows[:0]).shape == (0, 4)
    assert pooled.linear(rows[:0], torch.ones(3, 4), torch.ones(3)).shape == (0, 3)
    assert pooled.linear(torch.ones(2, 0), torch.ones(3, 0)).tolist() == [[0.0] * 3] * 2


class Marked(Tensor):
    """A tensor of a user's own class."""


@pytest.mark.parametrize(
    "made",
    [
        lambda rows: rows.as_subclass(Marked),
        lambda rows: rows.bfloat16(),
        lambda rows: rows[:8],
        lambda rows: rows.to("meta"),
    ],
    ids=["class", "dtype", "small", "device"],
)
def test_other_tensors_are_torchs(made: Callable[[Tensor], Tensor]) -> None:
    rows, weight, _ = (tensor.detach() for tensor in given(torch.float32))
    before = layer_pool().statistics()
    out = pooled.linear(made(rows), weight.to(made(rows).device, made(rows).dtype))
    assert out.shape[1] == 128
    after = layer_pool().statistics()
    assert (after["made"], after["reused"]) == (before["made"], before["reused"])


def test_under_autocast_torch_chooses_the_dtype() -> None:
    rows, weight, bias = given(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert pooled.linear(rows, weight, bias).dtype == torch.bfloat16


def test_results_are_not_written_to_again_while_anything_refers_to_them() -> None:
    rows, weight, bias = (tensor.detach() for tensor in given(torch.float32))
    part = pooled.linear(rows, weight, bias)[7]
    kept = part.clone()
    for _ in range(3):
        pooled.relu(-pooled.linear(rows, weight, bias))
    assert torch.equal(part, kept)


def test_results_may_be_changed_in_place() -> None:
    rows, weight, bias = given(torch.float32)
    out = pooled.linear(rows, weight, bias)
    out += 1
    out.relu_().sum().backward()
    expected = given(torch.float32)
    (F.linear(*expected) + 1).relu().sum().backward()
    for one, other in zip((rows, weight, bias), expected, strict=True):
        torch.testing.assert_close(one.grad, other.grad, **TOLERANCES[torch.float32])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(64, 128), SAGEConv(128, 128), SAGEConv(128, 4)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv in self.convs[:2]:
            x = conv(x, edge_index).relu()
        out: Tensor = self.convs[2](x, edge_index)
        return out


def large_batch() -> Data:
    data = Data(x=torch.randn(20_000, 64), edge_index=torch.randint(0, 20_000, (2, 200_000)))
    loader = halohop.NeighborLoader(data, [8, 8, 4], torch.arange(256), batch_size=256, num_workers=0)
    batch: Data = next(iter(loader))
    return batch


def test_steps_take_the_memory_of_the_steps_before_and_learn_what_torch_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    batch = large_batch()
    plain, made, losses = Model(), [], []
    monkeypatch.setattr(pooled, "_LARGE", 1 << 16)
    for model in (fuse(copy.deepcopy(plain), rows="seeds"), plain):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(batch.x, batch.edge_index)[:256].square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            made.append(layer_pool().statistics()["made"])
    torch.testing.assert_close(losses[:5], losses[5:])
    assert made[2] == made[4] > 0, "the third step and those after it are as large as the second"


def test_the_memory_of_all_rows_is_given_back() -> None:
    """The first pass of a model learns what the seeds need, and computes all rows for that."""
    batch = large_batch()
    model, idle = fuse(Model(), rows="seeds"), []
    for _ in range(3):
        model(batch.x, batch.edge_index).square().mean().backward()
        idle.append(layer_pool().statistics()["idle_bytes"])
    assert max(idle[1:]) < idle[0]


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:`torch.jit.trace` is deprecated")
@pytest.mark.filterwarnings("ignore:`torch.jit.trace_method` is deprecated")
def test_traced_programs_have_the_operations_of_torch() -> None:
    rows, weight, bias = (tensor.detach() for tensor in given(torch.float32))
    traced = torch.jit.trace(lambda *tensors: pooled.relu(pooled.linear(*tensors)), (rows, weight, bias), check_trace=False)
    torch.testing.assert_close(traced(-rows, weight, bias), F.linear(-rows, weight, bias).relu())
