"""Functions over lists on a GPU: what the CPU's kernels compute."""

import pytest
import torch

from halohop import ops
from halohop.ops import gpu_segments, segment_ops
from halohop.ops import reference_segments as reference
from halohop.ops import segment_kernels as kernels
from tests.support.pretend_gpu import any_pool, home

SHAPES = [(1, 1), (1, 5), (2, 3), (1, 33), (3, 64)]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
LISTS = {
    "some are empty": torch.tensor([0, 3, 3, 10, 10, 11]),
    "no edges": torch.tensor([0, 0, 0]),
    "one edge": torch.tensor([0, 1]),
}


def lists(name, num_src=7, dtype=torch.int64):
    begins = LISTS[name]
    generator = torch.Generator().manual_seed(2)
    return torch.randint(num_src, (int(begins[-1]),), generator=generator).to(dtype), begins


def there(*tensors):
    pool = any_pool()
    return [pool.put(one) if isinstance(one, torch.Tensor) else one for one in tensors]


def assert_near(found, expected, tolerance=1e-6):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(home(one), other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(("heads", "width"), SHAPES)
def test_sums_have_the_bits_of_the_cpu(name, heads, width):
    for dtype, ids in zip(DTYPES, (torch.int64, torch.int32) * 2, strict=True):
        (src, begins), x = lists(name, dtype=ids), torch.randn(7, heads, width).to(dtype)
        weight, place = torch.rand(len(src), heads).to(dtype), torch.randperm(len(src))
        own = torch.rand(min(len(begins) - 1, 2), heads).to(dtype)
        for weights, edge, owns, mean in (
            (None, None, None, False),
            (None, None, None, True),
            (weight, None, own, False),
            (weight, place, None, False),
        ):
            expected = kernels.weighted_sum(x, src, begins, weights, edge, owns, mean)
            found = gpu_segments.weighted_sum(*there(x, src, begins, weights, edge, owns, mean))
            assert_near([found], [expected], 0 if owns is None else 2e-2 if dtype.itemsize == 2 else 1e-6)


def spread(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, with gaps between them, as those of an end of edges whose matrix was transposed."""
    return torch.stack([tensor, tensor], -1)[..., 0]


def test_tensors_may_have_gaps():
    (src, begins), x, place = lists("some are empty"), torch.randn(7, 2, 3), torch.randperm(11)
    right, weight = torch.randn(5, 2, 3), torch.rand(11, 2)
    for run, whole in (
        ("weighted_sum", (x, src, begins, weight, place, None, False)),
        ("dot", (x, right, src, begins, place)),
        ("greatest", (x, src, begins)),
        ("greatest_backward", (right, x, kernels.greatest(x, src, begins), src, begins)),
    ):
        gaps = [spread(one) if isinstance(one, torch.Tensor) else one for one in there(*whole)]
        assert_near([getattr(gpu_segments, run)(*gaps)], [getattr(kernels, run)(*whole)], 1e-5)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(("heads", "width"), SHAPES)
def test_products_of_rows(name, heads, width):
    (src, begins), left = lists(name), torch.randn(7, heads, width)
    right, place = torch.randn(len(begins) - 1, heads, width), torch.randperm(len(src))
    for edge in (None, place):
        expected = kernels.dot(left, right, src, begins, edge)
        assert_near([gpu_segments.dot(*there(left, right, src, begins, edge))], [expected], 1e-5)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(("heads", "width"), SHAPES)
def test_maxima_and_their_gradients(name, heads, width):
    """Of whole numbers, so that several sources have the greatest value."""
    for dtype in (torch.float32, torch.float64):
        (src, begins), x = lists(name), torch.randint(-2, 2, (7, heads, width)).to(dtype)
        out = kernels.greatest(x, src, begins)
        assert_near([gpu_segments.greatest(*there(x, src, begins))], [out], 0)
        grad = torch.randn_like(out)
        found = gpu_segments.greatest_backward(*there(grad, x, out, src, begins))
        assert_near([found], [kernels.greatest_backward(grad, x, out, src, begins)])


def test_a_maximum_over_what_is_no_number_is_none():
    x = torch.tensor([1.0, float("nan"), 3.0, float("-inf")]).view(4, 1, 1)
    src, begins = torch.tensor([0, 1, 2, 2, 0, 3]), torch.tensor([0, 3, 5, 6])
    found = home(gpu_segments.greatest(*there(x, src, begins)))
    torch.testing.assert_close(found, reference.greatest(x, src, begins), equal_nan=True)
    assert found.isnan().flatten().tolist() == [True, False, False]


@pytest.mark.parametrize("name", LISTS)
def test_softmax_and_its_gradient(name):
    _, begins = lists(name)
    scores = torch.randn(int(begins[-1]), 3)
    out = kernels.softmax(scores, begins)
    assert_near([gpu_segments.softmax(*there(scores, begins))], [out])
    grad = torch.randn_like(out)
    assert_near([gpu_segments.softmax_backward(*there(grad, out, begins))], [kernels.softmax_backward(grad, out, begins)])


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("with_edges", [False, True])
def test_gradients_of_gatv2(name, with_edges):
    src, begins = lists(name)
    left, right, attention = torch.randn(7, 2, 5), torch.randn(len(begins) - 1, 2, 5), torch.randn(2, 5)
    edges = torch.randn(len(src), 2, 5) if with_edges else None
    arguments = torch.randn(len(src), 2), left, right, attention, edges, src, begins, 0.2
    assert_near(gpu_segments.gatv2_backward(*there(*arguments)), kernels.gatv2_backward(*arguments), 1e-5)


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_sources(name):
    src, begins = lists(name)
    assert_near(gpu_segments.by_source(*there(src, begins, 7)), kernels.by_source(src, begins, 7), 0)


def test_a_source_that_is_not_there_is_seen():
    x, begins = torch.ones(3, 1, 2), torch.tensor([0, 1, 2])
    for source in (3, -1, 2**40):
        src = torch.tensor([source, 0])
        found = home(gpu_segments.weighted_sum(*there(x, src, begins, None, None, None, False)))
        assert found.isnan().all((1, 2)).tolist() == [True, False]


def test_torch_takes_these_for_gpus():
    for name in ("by_source", "weighted_sum", "dot", "add", "greatest", "softmax", "softmax_backward", "gatv2_backward"):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"halohop::segment_{name}", "CUDA")
    x, src, begins = torch.randn(4, 1, 2), torch.tensor([1, 0, 3]), torch.tensor([0, 2, 3])
    run = segment_ops._on_gpu("weighted_sum")
    assert torch.equal(home(run(*there(x, src, begins, None, None, None, False))), ops.segment_spmm(x, src, begins))
    assert torch.equal(segment_ops._on_gpu("add")(x[..., 0], x[:2, :, 0], src, begins), x[src, :, 0] + x[[0, 0, 1], :, 0])
