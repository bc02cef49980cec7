"""Sums, means and maxima over lists of in-edges, softmax and scores: the kernels, the reference and torch agree."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from halohop import ops
from halohop.errors import IdError, InputError
from halohop.ops import segment_kernels, segment_ops

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
REDUCES = ["sum", "mean", "max"]
OPERATORS = [operator for operator in vars(segment_ops).values() if isinstance(operator, torch.library.CustomOpDef)]


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


@settings(deadline=None, max_examples=60)
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
    "own": (lambda x, own: ops.segment_spmm(x, SRC, BEGINS, own=own), (_random(5, 3), _random(3))),
    "own, weighted per head": (
        lambda x, weight, own: ops.segment_spmm(x, SRC, BEGINS, weight=weight, own=own),
        (_random(5, 2, 3), _random(7, 2), _random(4)),
    ),
    "softmax": (partial(ops.segment_softmax, begins=BEGINS), (_random(7, 2),)),
    "add": (partial(ops.segment_add, src=SRC, begins=BEGINS), (_random(5, 2), _random(4, 2))),
    "dot": (partial(ops.segment_dot, src=SRC, begins=BEGINS), (_random(5, 2, 3), _random(4, 2, 3))),
    "gatv2": (partial(ops.segment_gatv2, src=SRC, begins=BEGINS), (_random(5, 2, 3), _random(4, 2, 3), _random(2, 3))),
    "gatv2 with rows of edges": (
        lambda left, right, attention, edges: ops.segment_gatv2(left, right, attention, SRC, BEGINS, edges=edges),
        (_random(5, 2, 3), _random(4, 2, 3), _random(2, 3), _random(len(SRC), 2, 3)),
    ),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    function, inputs = DIFFERENTIABLE[name]
    assert torch.autograd.gradcheck(function, inputs)


@pytest.mark.parametrize("name", ["sum", "mean", "sum, weighted per head", "mean, weighted per head", "own", "add", "dot"])
def test_second_gradients_are_those_of_finite_differences(name: str) -> None:
    function, inputs = DIFFERENTIABLE[name]
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("name", ["max", "softmax", "gatv2"])
def test_other_second_gradients_are_refused(name: str) -> None:
    function, inputs = DIFFERENTIABLE[name]
    (first,) = torch.autograd.grad(function(*inputs).square().sum(), inputs[0], create_graph=True)
    with pytest.raises(InputError, match=r"over lists has no second gradient \(create_graph=True\): take PyG's own layer"):
        first.sum().backward()


def _large(name: str, dtype: torch.dtype) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    """A function of `DIFFERENTIABLE` over 700 lists, a few of them long, and its inputs."""
    degrees = torch.randint(9, (700,)).tolist()
    degrees[::100] = [200] * 7
    src, begins = lists(degrees, 300)
    heads, width, edges = 3, 7, len(src)
    left, right = torch.randn(300, heads, width, dtype=dtype), torch.randn(700, heads, width, dtype=dtype)
    weight = torch.randn(edges, heads, dtype=dtype)
    reduce, _, weighted = name.partition(", weighted per ")
    if reduce in REDUCES:
        if not weighted:
            return lambda x: ops.segment_spmm(x, src, begins, reduce=reduce), (left,)
        weight = weight if weighted == "head" else weight[:, 0]
        return lambda x, weight: ops.segment_spmm(x, src, begins, reduce=reduce, weight=weight), (left, weight)
    if reduce == "own":
        own = torch.randn(250, dtype=dtype)
        if not weighted:
            return lambda x, own: ops.segment_spmm(x, src, begins, own=own), (left, own)
        return lambda x, weight, own: ops.segment_spmm(x, src, begins, weight=weight, own=own), (left, weight, own)
    return {
        "softmax": (partial(ops.segment_softmax, begins=begins), (weight,)),
        "add": (partial(ops.segment_add, src=src, begins=begins), (left[..., 0], right[..., 0])),
        "dot": (partial(ops.segment_dot, src=src, begins=begins), (left, right)),
        "gatv2": (partial(ops.segment_gatv2, src=src, begins=begins), (left, right, left[0])),
        "gatv2 with rows of edges": (
            lambda left, right, attention, edges: ops.segment_gatv2(left, right, attention, src, begins, edges=edges),
            (left, right, left[0], torch.randn(edges, heads, width, dtype=dtype)),
        ),
    }[name]


def _with_gradients(function: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    inputs = tuple(value.detach().requires_grad_() for value in inputs)
    found = function(*inputs)
    weights = (torch.arange(found.numel()) % 7 - 3).to(found).view_as(found)  # halves have these, too
    return found.detach(), *torch.autograd.grad(found, inputs, weights)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernels_compute_what_the_reference_does(name: str, dtype: torch.dtype) -> None:
    function, inputs = _large(name, dtype)
    found = _with_gradients(function, inputs)
    with ExitStack() as undo:
        for operator in OPERATORS:
            undo.enter_context(operator.set_kernel_enabled("cpu", enabled=False))
        expected = _with_gradients(function, inputs)
    scale = 1e-3 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(found, expected, rtol=scale, atol=scale)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_the_bits_do_not_depend_on_the_number_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, inputs = _large(name, torch.float32)
    alone, started = _with_gradients(function, inputs), []
    monkeypatch.setattr(segment_kernels, "_START", 1)
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (started.append(thread.name), start(thread)))
    for threads in (2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        for one, other in zip(alone, _with_gradients(function, inputs), strict=True):
            assert torch.equal(one, other)
        assert started.count(f"halohop-lists-{threads - 1}") > 0


def test_a_failure_in_any_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_kernels, "_START", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    src, begins = lists([1] * 200, 5)
    src[190] = 5
    with pytest.raises(IdError, match=r"src\[190\] is 5, but there are 5 rows"):
        ops.segment_spmm(torch.ones(5, 3), src, begins)


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
        ({"own": torch.zeros(5)}, r"own has shape \(5,\), expected one number for each of at most 4 rows at both ends"),
        ({"own": torch.zeros(2), "reduce": "mean"}, r'own goes with reduce="sum" only, got \'mean\''),
        ({"begins": BEGINS + 1}, r"begins go from 1 to 8, but must from 0 to 7, the number of edges"),
        ({"begins": torch.tensor([0, 5, 3, 7])}, r"list 1 goes from 5 to 3; begins must ascend from 0 to 7"),
        ({"begins": torch.tensor([0, 9, 7])}, r"list 0 goes from 0 to 9"),
        ({"begins": torch.tensor([0, -1, 7])}, r"list 0 goes from 0 to -1"),
    ],
)
def test_bad_input_is_refused(change: dict[str, object], message: str) -> None:
    arguments = {"x": torch.zeros(5, 2), "src": SRC, "begins": BEGINS, "reduce": "sum"} | change
    with pytest.raises(InputError, match=message):
        ops.segment_spmm(**arguments)


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
@pytest.mark.parametrize("reduce", REDUCES)
def test_a_source_out_of_range_is_refused(bad: int, reduce: str) -> None:
    src = SRC.clone()
    src[3] = bad
    with pytest.raises(IdError, match=rf"src\[3\] is {bad}, but there are 5 rows"):
        ops.segment_spmm(torch.zeros(5, 2), src, BEGINS, reduce=reduce)


def test_rows_with_gaps_are_read() -> None:
    x = torch.randn(3, 10).t()[::2]
    assert torch.equal(ops.segment_spmm(x, SRC, BEGINS), ops.segment_spmm(x.contiguous(), SRC, BEGINS))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_no_gradient_is_kept_where_none_is_wanted(mode: Callable[[], AbstractContextManager[None]]) -> None:
    function, inputs = DIFFERENTIABLE["mean, weighted per head"]
    with mode():
        found = function(*inputs)
    assert not found.requires_grad
    assert torch.equal(found, function(*inputs))


def test_rows_are_kept_for_the_backward_pass_only_where_weights_need_them() -> None:
    kept: list[tuple[int, ...]] = []
    x, weight = torch.randn(5, 2, 3, requires_grad=True), torch.rand(7, 2)
    with torch.autograd.graph.saved_tensors_hooks(lambda value: kept.append(value.shape) or value, lambda value: value):
        ops.segment_spmm(x, SRC, BEGINS, reduce="mean", weight=weight)
        assert (5, 2, 3) not in kept
        ops.segment_spmm(x, SRC, BEGINS, reduce="mean", weight=weight.requires_grad_())
        assert (5, 2, 3) in kept


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["sum", "mean, weighted per head", "dot"])
def test_halves_are_computed_in_float32_and_rounded_once(name: str, dtype: torch.dtype) -> None:
    function, inputs = _large(name, torch.float32)
    inputs = tuple(value.to(dtype) for value in inputs)
    found = _with_gradients(function, inputs)
    exact = _with_gradients(function, tuple(value.float() for value in inputs))
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one, other.to(dtype), rtol=2 * torch.finfo(dtype).eps, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_half_is_read_as_it_is(dtype: torch.dtype) -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    ones = torch.arange(2**16 + 1)
    torch.testing.assert_close(ops.segment_spmm(every, ones[:-1], ones), every, rtol=0, atol=0, equal_nan=True)


def test_own_rows_of_the_first_destinations_are_added() -> None:
    x, own = torch.randn(5, 3), torch.tensor([2.0, -1.0])
    expected = ops.segment_spmm(x, SRC, BEGINS)
    expected[:2] += own.unsqueeze(1) * x[:2]
    torch.testing.assert_close(ops.segment_spmm(x, SRC, BEGINS, own=own), expected)


def test_autocast_leaves_halves_as_they_are() -> None:
    x, layer = torch.randn(5, 4), torch.nn.Linear(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ops.segment_spmm(layer(x), SRC, BEGINS, reduce="mean")
    assert found.dtype == torch.bfloat16
    found.float().sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.abs().sum() > 0


def test_a_weight_of_another_dtype_is_promoted() -> None:
    x, weight = torch.randn(5, 4, dtype=torch.bfloat16), torch.rand(7)
    assert ops.segment_spmm(x, SRC, BEGINS, weight=weight).dtype == torch.float32


OTHERS = [pytest.param(name, marks=pytest.mark.full) for name in ("mean", "max", "softmax", "add", "dot", "gatv2")]


@pytest.mark.parametrize("name", ["mean, weighted per head", *OTHERS])
def test_a_model_is_compiled_whole(name: str) -> None:
    function, inputs = DIFFERENTIABLE[name]
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    for one, other in zip(_with_gradients(compiled, inputs), _with_gradients(function, inputs), strict=True):
        torch.testing.assert_close(one, other)


def test_torch_finds_no_fault_in_the_operators() -> None:
    x, weight = torch.randn(5, 2, 3, requires_grad=True), torch.randn(7, 2, requires_grad=True)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(segment_ops.weighted_sum, (x, SRC, BEGINS, weight, None, None, True), test_utils=tests)
    torch.library.opcheck(segment_ops.dot, (x, torch.randn(4, 2, 3), SRC, BEGINS, None), test_utils=tests)
    torch.library.opcheck(segment_ops.greatest, (x, SRC, BEGINS), test_utils=tests)
    torch.library.opcheck(segment_ops.softmax, (weight, BEGINS), test_utils=tests)
    torch.library.opcheck(segment_ops.by_source, (SRC, BEGINS, 5), test_utils=tests)


@pytest.mark.parametrize("wrong", [torch.zeros(6, 2, 3), torch.zeros(7, 2, 3, dtype=torch.float64), torch.zeros(7, 6)])
def test_rows_of_edges_that_do_not_fit_are_refused(wrong: Tensor) -> None:
    left, right = torch.zeros(5, 2, 3), torch.zeros(4, 2, 3)
    with pytest.raises(InputError, match=r"edges are .* expected torch.float32 of shape \(7, 2, 3\)"):
        ops.segment_gatv2(left, right, left[0], SRC, BEGINS, edges=wrong)
