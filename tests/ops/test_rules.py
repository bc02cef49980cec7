"""Gradients change rows as the reference says, and as torch's own optimisers do."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import reference_rules

RULES = ("sgd", "adagrad", "rowwise_adagrad", "adam", "adam by row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """Rows, and the state of every rule."""

    rows: Tensor
    sums: Tensor
    row_sums: Tensor
    mean: Tensor
    square: Tensor
    row_steps: Tensor

    @classmethod
    def of(cls, num_rows: int, shape: tuple[int, ...], dtype: torch.dtype) -> "Arrays":
        kept = ops.gradient_dtype(dtype)
        entries = (num_rows, *shape)
        return cls(
            rows=torch.randn(entries, dtype=torch.float64).to(dtype),
            sums=torch.rand(entries, dtype=kept),
            row_sums=torch.rand(num_rows, dtype=kept),
            mean=torch.randn(entries, dtype=kept),
            square=torch.rand(entries, dtype=kept),
            row_steps=torch.randint(100, (num_rows,), dtype=torch.int32),
        )

    def all(self) -> list[Tensor]:
        return [self.rows, self.sums, self.row_sums, self.mean, self.square, self.row_steps]

    def copy(self) -> "Arrays":
        return Arrays(**{name: getattr(self, name).clone() for name in self.__dataclass_fields__})

    def step(
        self, door: object, rule: str, lid: Tensor, grads: Tensor | ops.SummedRows, scale: float = 1.0, **more: ops.Pool
    ) -> None:
        """One step of a rule, by the kernels or the reference."""
        run: Callable[..., None] = partial(getattr(door, f"step_{rule.removesuffix(' by row')}"), **more)
        match rule:
            case "sgd":
                run(self.rows, lid, grads, lr=0.1, scale=scale)
            case "adagrad":
                run(self.rows, self.sums, lid, grads, lr=0.1, eps=1e-10, scale=scale)
            case "rowwise_adagrad":
                run(self.rows, self.row_sums, lid, grads, lr=0.1, eps=1e-10, scale=scale)
            case _:
                steps = self.row_steps if rule == "adam by row" else None
                moments = self.mean, self.square
                constants = {"lr": 0.1, "eps": 1e-8, "beta1": 0.9, "beta2": 0.999}
                run(self.rows, *moments, lid, grads, **constants, step=7, row_steps=steps, scale=scale)


@given(
    st.sampled_from(RULES),
    st.sampled_from(ops.FLOATS),
    st.sampled_from([(), (0,), (1,), (3,), (8,), (2, 5), (67,)]),
    st.integers(0, 12),
    st.sampled_from([1.0, -1.0, 1 / 3]),
    st.integers(0, 2**32),
)
def test_kernels_have_the_bits_of_the_reference(
    rule: str, dtype: torch.dtype, shape: tuple[int, ...], touched: int, scale: float, seed: int
) -> None:
    torch.manual_seed(seed)
    arrays = Arrays.of(12, shape, dtype)
    expected = arrays.copy()
    lid = torch.randperm(12)[:touched]
    grads = torch.randn(touched, *shape, dtype=ops.gradient_dtype(dtype))
    arrays.step(ops, rule, lid, grads, scale)
    expected.step(reference_rules, rule, lid, grads, scale)
    for found, wanted in zip(arrays.all(), expected.all(), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("touched", [0, 1, 4000])
def test_a_row_is_changed_in_the_same_way_among_any_others(touched: int) -> None:
    """Whatever is asked for ahead, and however rows are divided among calls."""
    arrays, lid = Arrays.of(5000, (9,), torch.float32), torch.randperm(5000)[:touched]
    together, grads = arrays.copy(), torch.randn(touched, 9)
    for rule in RULES:
        together.step(ops, rule, lid, grads)
        for chosen in torch.arange(touched).tensor_split(3):
            arrays.step(ops, rule, lid[chosen], grads[chosen])
    for found, wanted in zip(arrays.all(), together.all(), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
@pytest.mark.parametrize("rule", RULES)
def test_gradients_that_lie_in_several_places_change_rows_alike(rule: str, dtype: torch.dtype) -> None:
    arrays = Arrays.of(40, (3,), dtype)
    expected = arrays.copy()
    gid = [torch.randperm(40)[:25], torch.randperm(40)[:25]]
    grads = [torch.randn(25, 3, dtype=ops.gradient_dtype(dtype)) for _ in gid]
    arrays.step(ops, rule, *ops.unite(gid, grads))
    expected.step(ops, rule, *ops.sum_by_id(gid, grads))
    for found, wanted in zip(arrays.all(), expected.all(), strict=True):
        assert torch.equal(found, wanted)
    with pytest.raises(InputError, match=r"grads must be torch\.float32 of shape"):
        ops.step_sgd(torch.zeros(40, 2), *ops.unite(gid, grads), lr=0.1)


@pytest.mark.parametrize("rule", RULES)
def test_threads_change_other_rows_at_once(rule: str) -> None:
    arrays, order, grads = Arrays.of(20_000, (8,), torch.float32), torch.randperm(20_000), torch.randn(20_000, 8)
    alone = arrays.copy()
    alone.step(ops, rule, order, grads)
    with ThreadPoolExecutor(4) as threads:
        done = [
            threads.submit(arrays.step, ops, rule, order[some], grads[some]) for some in torch.arange(20_000).tensor_split(16)
        ]
        for future in done:
            future.result(timeout=60)
    for found, wanted in zip(arrays.all(), alone.all(), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_of_two_bytes_are_read_and_rounded_as_torch_does(dtype: torch.dtype) -> None:
    """All that there are; subnormal, infinite and not a number among them."""
    codes = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    moves = torch.cat([torch.zeros(2**15), torch.randn(2**15) * 10 ** torch.randn(2**15)])
    rows, expected = codes.clone(), (codes.float() - moves).to(dtype)
    ops.step_sgd(rows, torch.arange(2**16), moves, lr=1.0)
    torch.testing.assert_close(rows, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("rule", ["sgd", "adagrad", "adam"])
def test_fifty_steps_are_those_of_torch(rule: str, maximize: bool) -> None:
    torch.manual_seed(0)
    arrays = Arrays.of(30, (7,), torch.float32)
    for state in (arrays.sums, arrays.mean, arrays.square):
        state.zero_()
    weight = torch.nn.Parameter(arrays.rows.clone())
    optimizer = {
        "sgd": lambda: torch.optim.SGD([weight], lr=0.1, maximize=maximize),
        "adagrad": lambda: torch.optim.Adagrad([weight], lr=0.1, maximize=maximize),
        "adam": lambda: torch.optim.SparseAdam([weight], lr=0.1, maximize=maximize),
    }[rule]()
    for step in range(1, 51):
        ids = torch.randint(30, (step % 20,))
        torch.nn.functional.embedding(ids, weight, sparse=True).mul(grads := torch.randn(len(ids), 7)).sum().backward()
        with torch.sparse.check_sparse_tensor_invariants():
            optimizer.step()
        optimizer.zero_grad()
        lid, sums = ops.sum_by_id(ids, grads)
        scale, constants = -1.0 if maximize else 1.0, {"beta1": 0.9, "beta2": 0.999}
        match rule:
            case "sgd":
                ops.step_sgd(arrays.rows, lid, sums, lr=0.1, scale=scale)
            case "adagrad":
                ops.step_adagrad(arrays.rows, arrays.sums, lid, sums, lr=0.1, eps=1e-10, scale=scale)
            case _:
                moments = arrays.mean, arrays.square
                ops.step_adam(arrays.rows, *moments, lid, sums, lr=0.1, eps=1e-8, **constants, step=step, scale=scale)
    torch.testing.assert_close(arrays.rows, weight.detach(), rtol=1e-5, atol=1e-5)


def test_a_second_equal_gradient_moves_adagrad_by_its_share() -> None:
    """The sum of the squares is kept, not its root."""
    rows, sums, lid, grads = torch.zeros(1, 1), torch.zeros(1, 1), torch.tensor([0]), torch.ones(1, 1)
    for _ in range(2):
        ops.step_adagrad(rows, sums, lid, grads, lr=1.0, eps=0.0)
    assert sums.item() == 2.0
    assert rows.item() == pytest.approx(-1 - 2**-0.5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("row", [-1, 5])
def test_a_row_that_is_not_there_changes_nothing(rule: str, row: int) -> None:
    arrays = Arrays.of(5, (3,), torch.float32)
    before = arrays.copy()
    with pytest.raises(IdError, match=f"row {row} is out of range: there are 5 rows"):
        arrays.step(ops, rule, torch.tensor([2, row, 3]), torch.ones(3, 3))
    for found, wanted in zip(arrays.all(), before.all(), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    ("rows", "grads", "words"),
    [
        (torch.zeros(5, 3, dtype=torch.int64), torch.zeros(2, 3), r"rows are torch.int64 of shape \(5, 3\), but must be one of"),
        (torch.zeros(3, 5).T, torch.zeros(2, 3), "and contiguous"),
        (torch.zeros(5, 3), torch.zeros(2, 4), r"grads must be torch.float32 of shape \(2, 3\), contiguous, got .* \(2, 4\)"),
        (torch.zeros(5, 3), torch.zeros(2, 3, dtype=torch.float64), "grads must be torch.float32"),
        (torch.zeros(5, 3, dtype=torch.float64), torch.zeros(2, 3), "grads must be torch.float64"),
    ],
)
def test_other_rows_and_gradients_are_refused(rows: Tensor, grads: Tensor, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ops.step_sgd(rows, torch.tensor([0, 1]), grads, lr=1.0)


def test_state_of_another_shape_is_refused() -> None:
    rows, lid, grads = torch.zeros(5, 3), torch.tensor([1]), torch.ones(1, 3)
    with pytest.raises(InputError, match=r"sums must be torch.float32 of shape \(5, 3\)"):
        ops.step_adagrad(rows, torch.zeros(5), lid, grads, lr=1.0, eps=0.0)
    steps = torch.zeros(5)
    with pytest.raises(InputError, match=r"row_steps must be torch.int32 of shape \(5,\)"):
        ops.step_adam(rows, rows, rows, lid, grads, lr=1.0, eps=0.0, beta1=0.9, beta2=0.9, row_steps=steps)
