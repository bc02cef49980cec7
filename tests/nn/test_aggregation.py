"""Aggregation for layers of one's own: each order of product and sum gives the same, and the cheaper one is taken."""

import pytest
import torch
from torch import nn

from halohop.errors import InputError
from halohop.nn import Hop, aggregate, aggregate_relations, hops
from halohop.nn.hops import grouped
from tests.support.hop_batches import batch_of, made


@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
@pytest.mark.parametrize("width", [1, 40])
def test_a_linear_layer_of_aggregated_rows(reduce: str, width: int) -> None:
    hop = hops(batch_of(made()))[1]
    x, lin = torch.randn(hop.num_src, 6), nn.Linear(6, width)
    rows = [x[hop.src[hop.begins[i] : hop.begins[i + 1]]] for i in range(hop.num_dst)]
    reduced = {"sum": lambda r: r.sum(0), "mean": lambda r: r.mean(0), "max": lambda r: r.max(0).values}[reduce]
    expected = lin(torch.stack([reduced(r) if len(r) else torch.zeros(6) for r in rows]))
    torch.testing.assert_close(aggregate(x, hop, reduce=reduce, lin=lin), expected, rtol=1e-5, atol=1e-5)  # type: ignore[arg-type]


def test_a_destination_among_its_sources() -> None:
    hop = grouped(torch.tensor([[1, 2, 2], [0, 0, 1]]), 3, 3)
    x = torch.tensor([[1.0], [2.0], [6.0]])
    assert aggregate(x, hop, own=True).tolist() == [[9.0], [8.0], [6.0]]
    assert aggregate(x, hop, reduce="mean", own=True).tolist() == [[3.0], [4.0], [6.0]]
    with pytest.raises(InputError, match="own=True"):
        aggregate(x, hop, own=True, weight=torch.ones(3))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
def test_rows_that_are_no_floats(dtype: torch.dtype) -> None:
    hop = grouped(torch.tensor([[1, 2], [0, 0]]), 3, 1)
    with pytest.raises(InputError, match=rf"{dtype}, but lists are aggregated for .* only; convert it"):
        aggregate(torch.ones(3, 2, dtype=dtype), hop)
    with pytest.raises(InputError, match=r"weight is torch.int64, but .* convert it"):
        aggregate(torch.ones(3, 2), hop, weight=torch.ones(2, dtype=torch.int64))


def test_wide_rows_of_few_nodes_are_multiplied_first() -> None:
    """Seen by what the linear layer is called with: its own forward is left out then."""
    calls: list[int] = []

    class Counted(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(len(x))
            return super().forward(x)

    lin = Counted(64, 1)
    many = grouped(torch.randint(4, (2, 500)), 4, 4)
    x = torch.randn(4, 64)
    expected = aggregate(x, many, lin=lin)
    assert calls == [4]  # a class of its own may do more than a product, so its rows are aggregated first
    lin.__class__ = nn.Linear
    torch.testing.assert_close(aggregate(x, many, lin=lin), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
@pytest.mark.parametrize("narrow", [2, 30])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("own", [False, True])
def test_a_layer_of_destinations_may_follow_a_product_of_any_width(narrow, reduce, own):
    """Whether rows are multiplied first or last, dense or in CSR; with gradients towards rows that need them."""
    torch.manual_seed(0)
    hop = Hop(src=torch.randint(40, (200,)), begins=torch.arange(0, 201, 20), num_src=40, num_dst=10, edges=slice(0, 200))
    x = torch.randn(40, 16) * (torch.rand(40, 16) < 0.3)
    lin, root = torch.nn.Linear(16, narrow, bias=own), torch.nn.Linear(16, narrow)
    rows = x.clone().requires_grad_()
    out = aggregate(rows, hop, reduce=reduce, lin=lin, root=root, own=own)
    summed = torch.zeros(10, 16).index_add(0, hop.dst, x[hop.src]) + (x[:10] if own else 0)
    expected = lin(summed / (20 + own) if reduce == "mean" else summed) + root(x[:10])
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    out.square().sum().backward()
    assert rows.grad.shape == x.shape
    sparse = aggregate(x.to_sparse_csr(), hop, reduce=reduce, lin=lin, root=root, own=own)
    torch.testing.assert_close(sparse, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("narrow", [2, 30])
def test_a_matrix_is_a_linear_layer_without_bias(narrow):
    torch.manual_seed(0)
    hop = Hop(src=torch.randint(40, (200,)), begins=torch.arange(0, 201, 20), num_src=40, num_dst=10, edges=slice(0, 200))
    lin = torch.nn.Linear(16, narrow, bias=False)
    for x in (torch.randn(40, 16), torch.randn(40, 3, 16)):
        out = aggregate(x, hop, reduce="mean", lin=lin.weight)
        torch.testing.assert_close(out, aggregate(x, hop, reduce="mean", lin=lin), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(aggregate(x, hop, reduce="max", lin=lin.weight), lin(aggregate(x, hop, reduce="max")))


@pytest.mark.parametrize("blocks", [None, 2])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_relations_are_reduced_and_multiplied_one_by_one(blocks, reduce):
    torch.manual_seed(0)
    hop = hops(batch_of(made()))[1]
    x, types = torch.randn(hop.num_src, 6), torch.randint(3, (hop.num_edges,)) * 2  # relations 1 and 3 have no edges
    weights = torch.randn(5, 6, 4) if blocks is None else torch.randn(5, blocks, 3, 2)
    matrices = weights if blocks is None else torch.stack([torch.block_diag(*parts) for parts in weights])
    weight = None if reduce == "max" else torch.rand(hop.num_edges)
    expected = torch.zeros(hop.num_dst, 4)
    for relation in range(5):
        kept = (types == relation).nonzero().squeeze(1)
        edges = torch.stack([hop.src[kept], hop.dst[kept]])
        one = None if weight is None else weight[kept]
        expected += aggregate(x, grouped(edges, hop.num_src, hop.num_dst), reduce=reduce, weight=one) @ matrices[relation]
    out = aggregate_relations(x, hop, types, weights, reduce=reduce, weight=weight)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match=r"relations 0 to 4 of edges are not all in 0 \.\. 3"):
        aggregate_relations(x, hop, types, weights[:4])
