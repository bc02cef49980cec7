"""Gradients change rows as the reference says, and as torch's own optimisers do."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from halohop import ops
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

    def step(self, door: object, rule: str, lid: Tensor, grads: Tensor, scale: float = 1.0) -> None:
        """One step of a rule, by the kernels or the reference."""
        run: Callable[..., None] = getattr(door, f"step_{rule.removesuffix(' by row')}")
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
    st.integers(0, 40),
    st.sampled_from([1.0, -1.0, 1 / 3]),
    st.integers(0, 2**32),
)
def test_kernels_have_the_bits_of_the_reference(
    rule: str, dtype: torch.dtype, shape: tuple[int, ...], touched: int, scale: float, seed: int
) -> None:
    torch.manual_seed(seed)
    arrays = Arrays.of(40, shape, dtype)
    expected = arrays.copy()
    lid = torch.randperm(40)[:touched]
    grads = torch.randn(touched, *shape, dtype=ops.gradient_dtype(dtype))
    arrays.step(ops, rule, lid, grads, scale)
    expected.step(reference_rules, rule, lid, grads, scale)
    for found, wanted in zip(arrays.all(), expected.all(), strict=True):
        assert torch.equal(found, wanted)
