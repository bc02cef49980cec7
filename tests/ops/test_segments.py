"""Sums, means and maxima over lists of in-edges, softmax and scores: the kernels, the reference and torch agree."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halohop import ops
from halohop.errors import InputError

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
REDUCES = ["sum", "mean", "max"]


def lists(degrees: list[int], num_src: int, dtype: torch.dtype = torch.int64) -> tuple[Tensor, Tensor]:
    """Sources at random, which repeat, and where lists of these lengths begin."""
    begins = torch.tensor([0, *degrees]).cumsum(0)
    return torch.randint(num_src, (sum(degrees),), dtype=dtype), begins


def slow(x: Tensor, src: Tensor, begins: Tensor, reduce: str, weight: Tensor | None) -> Tensor:
    """List by list."""
    rows = []
    for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        messages = x[src[begin:end].long()]
        if weight is not None:
            own = weight[begin:end]
            messages = messages * own.reshape(*own.shape, *[1] * (x.dim() - own.dim()))
        if begin == end:
            rows.append(torch.zeros_like(x[0]))
        else:
            rows.append({"sum": messages.sum, "mean": messages.mean, "max": messages.amax}[reduce](0))
    return torch.stack(rows) if rows else x.new_zeros(0, *x.shape[1:])


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 6), max_size=12),
    st.sampled_from([(), (0,), (1,), (3,), (16,), (2, 3), (2, 33), (3, 0)]),
    st.sampled_from(DTYPES),
    st.sampled_from([torch.int64, torch.int32]),
    st.sampled_from(REDUCES),
    st.sampled_from(["none", "edge", "head"]),
)
def test_lists_are_reduced(
    degrees: list[int], shape: tuple[int, ...], dtype: torch.dtype, index: torch.dtype, reduce: str, weighted: str
) -> None:
    num_src = 5
    src, begins = lists(degrees, num_src, index)
    x = torch.randn(num_src, *shape, dtype=dtype)
    weight = None
    if weighted != "none":
        weight = torch.randn(len(src), *(shape[:1] if weighted == "head" else ()), dtype=dtype)
    found = ops.segment_spmm(x, src, begins, reduce=reduce, weight=weight)
    assert (found.dtype, found.shape) == (dtype, (len(degrees), *shape))
    wide = torch.float64
    expected = slow(x.to(wide), src, begins, reduce, None if weight is None else weight.to(wide))
    torch.testing.assert_close(found, expected.to(dtype), **_tolerance(dtype))


def _tolerance(dtype: torch.dtype) -> dict[str, float]:
    return {"rtol": 1e-2, "atol": 2e-2} if dtype in (torch.float16, torch.bfloat16) else {"rtol": 1e-5, "atol": 1e-5}


SRC, BEGINS = torch.tensor([2, 0, 2, 2, 1, 3, 0]), torch.tensor([0, 3, 3, 4, 7])
RANDOM = torch.Generator().manual_seed(0)


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=RANDOM).requires_grad_()


DIFFERENTIABLE: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    **{reduce: (lambda x, r=reduce: ops.segment_spmm(x, SRC, BEGINS, reduce=r), (_random(5, 3),)) for reduce in REDUCES},
    **{
        f"{reduce}, weighted per {kind}": (
            lambda x, weight, r=reduce: ops.segment_spmm(x, SRC, BEGINS, reduce=r, weight=weight),
            (_random(5, 2, 3), _random(*shape)),
        )
        for reduce in REDUCES
        for kind, shape in (("edge", (7,)), ("head", (7, 2)))
    },
    "softmax": (partial(ops.segment_softmax, begins=BEGINS), (_random(7, 2),)),
    "add": (partial(ops.segment_add, src=SRC, begins=BEGINS), (_random(5, 2), _random(4, 2))),
    "dot": (partial(ops.segment_dot, src=SRC, begins=BEGINS), (_random(5, 2, 3), _random(4, 2, 3))),
    "gatv2": (partial(ops.segment_gatv2, src=SRC, begins=BEGINS), (_random(5, 2, 3), _random(4, 2, 3), _random(2, 3))),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    function, inputs = DIFFERENTIABLE[name]
    assert torch.autograd.gradcheck(function, inputs)


def test_softmax_is_within_lists() -> None:
    scores = torch.tensor([1.0, 3.0, 1e4, -5.0, -5.0])
    begins = torch.tensor([0, 2, 2, 3, 5])
    expected = torch.cat([scores[:2].softmax(0), torch.tensor([1.0, 0.5, 0.5])])
    torch.testing.assert_close(ops.segment_softmax(scores, begins), expected)
    torch.testing.assert_close(ops.segment_softmax(scores.view(-1, 1), begins), expected.view(-1, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(5, 2, dtype=torch.int64)}, r"x is torch.int64, but lists are aggregated for float16.*convert it"),
        ({"x": torch.tensor(1.0)}, r"x is a scalar"),
        ({"src": SRC.short()}, r"src must be one-dimensional int64 or int32, got torch.int16 of shape \(7,\)"),
        ({"begins": BEGINS.int()}, r"begins must be one-dimensional int64 .*got torch.int32"),
        ({"begins": BEGINS[:0]}, r"at least one entry"),
        ({"reduce": "median"}, r'reduce=\'median\' is none of "sum", "mean" and "max"'),
        ({"weight": torch.zeros(6)}, r"weight has shape \(6,\), expected \(7,\) or \(7, 2\)"),
        ({"weight": torch.zeros(7, 3)}, r"weight has shape \(7, 3\)"),
        ({"weight": torch.zeros(7, dtype=torch.int32)}, r"weight is torch.int32"),
    ],
)
def test_bad_input_is_refused(change: dict[str, object], message: str) -> None:
    arguments = {"x": torch.zeros(5, 2), "src": SRC, "begins": BEGINS, "reduce": "sum"} | change
    with pytest.raises(InputError, match=message):
        ops.segment_spmm(**arguments)
