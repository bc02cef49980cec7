"""method="labor" on the loaders: fewer rows of the same worth, beside every other option."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NodeLoader

from halohop import HalohopSampler, LinkNeighborLoader, NeighborLoader, SubGraphLoader
from halohop.errors import InputError

DEGREE, FANOUT = 12, 4


@pytest.fixture(scope="module")
def data() -> Data:
    """300 nodes with 12 in-edges each from 300 others, few of which are popular."""
    generator = torch.Generator().manual_seed(1)
    src = (torch.rand(300, 300, generator=generator) * torch.arange(1, 301) ** 0.5).topk(DEGREE).indices
    dst = torch.arange(300)[:, None].expand_as(src)
    return Data(
        x=torch.randn(300, 1, generator=generator),
        edge_index=torch.stack([src.flatten(), dst.flatten()]),
        weight=torch.rand(300 * DEGREE, generator=generator),
        when=torch.randint(100, (300 * DEGREE,), generator=generator),
    )


def means(data: Data, method: str, epochs: int) -> tuple[torch.Tensor, float]:
    """The mean of x over what was drawn for each node, epoch by epoch, and the mean number of rows of a batch."""
    loader = NeighborLoader(data, [FANOUT], batch_size=300, seed=3, method=method, run="inline")
    estimates, rows = [], 0
    for _ in range(epochs):
        (batch,) = loader
        assert torch.equal(batch.edge_index[1].bincount(), torch.full((300,), FANOUT))
        estimates.append(torch.zeros(300).index_add_(0, batch.edge_index[1], batch.x[batch.edge_index[0], 0]) / FANOUT)
        rows += batch.edge_index[0].unique().numel()
    return torch.stack(estimates), rows / epochs


def test_fewer_rows_for_the_same_variance(data):
    """The mean over drawn neighbours is unbiased with the variance that drawing without replacement has: (1 - k/d) S^2 / k."""
    lists = data.x[data.edge_index[0], 0].reshape(300, DEGREE)
    true, spread = lists.mean(1), lists.var(1) * (1 - FANOUT / DEGREE) / FANOUT
    rows = {}
    for method in ("neighbor", "labor"):
        estimates, rows[method] = means(data, method, 200)
        z = (estimates.mean(0) - true) / (spread / 200) ** 0.5
        assert z.abs().max() < 5
        assert (z**2).mean() < 1.5
        ratio = estimates.var(0).mean() / spread.mean()
        assert 0.9 < ratio < 1.1
    assert rows["labor"] < 0.8 * rows["neighbor"]


def test_layers_that_depend_have_fewer_rows_still(data):
    def rows(**options):
        loader = NeighborLoader(data, [FANOUT, FANOUT, FANOUT], batch_size=10, seed=3, method="labor", **options)
        return sum(batch.num_nodes for batch in loader)

    plain = sum(batch.num_nodes for batch in NeighborLoader(data, [FANOUT, FANOUT, FANOUT], batch_size=10, seed=3))
    assert rows(layer_dependency=True) < rows() < plain


@pytest.mark.parametrize(
    "options",
    [
        {"weight_attr": "weight"},
        {"disjoint": True},
        {"time_attr": "when", "input_time": torch.arange(300) % 100},
        {"subgraph_type": "induced"},
        {"subgraph_type": "bidirectional"},
        {"expand": "all"},
    ],
    ids=str,
)
def test_it_goes_with_the_other_options(data, options):
    """The same batches by threads, processes and inline; others than without; and at most the fanout per node and hop."""

    def epoch(**more):
        return [batch.to_dict() for batch in NeighborLoader(data, [3, 2], batch_size=64, seed=5, **options, **more)]

    expected = epoch(method="labor", run="inline")
    for how in ({"run": "threads", "num_workers": 3}, {"run": "processes", "num_workers": 2}):
        for one, other in zip(epoch(method="labor", **how), expected, strict=True):
            assert one.keys() == other.keys()
            assert all(torch.equal(one[key], value) for key, value in other.items() if isinstance(value, torch.Tensor))
    assert any(not torch.equal(one["n_id"], other["n_id"]) for one, other in zip(epoch(), expected, strict=True))
    for batch in expected:
        if "num_sampled_edges" in batch:
            first = batch["edge_index"][1, : batch["num_sampled_edges"][0]]
            assert first.bincount().max() == 3


def test_relations_from_one_type_choose_alike():
    """A node that two relations lead from is drawn by both, or by neither."""
    graph = HeteroData()
    graph["a"].num_nodes, graph["b"].num_nodes, graph["c"].num_nodes = 50, 1, 1
    edges = torch.stack([torch.arange(50), torch.zeros(50, dtype=torch.int64)])
    graph["a", "to", "c"].edge_index = graph["a", "of", "c"].edge_index = edges
    batch = next(iter(NeighborLoader(graph, [7], "c", method="labor")))
    assert batch["a"].num_nodes == 7
    assert next(iter(NeighborLoader(graph, [7], "c")))["a"].num_nodes > 7


def test_other_loaders_take_it(data):
    plain = next(iter(LinkNeighborLoader(data, [2], batch_size=100)))
    batch = next(iter(LinkNeighborLoader(data, [2], batch_size=100, method="labor", exclude_seed_edges=True)))
    assert batch.num_nodes < plain.num_nodes
    assert not torch.isin(batch.e_id, torch.arange(100)).any()
    induced = next(iter(SubGraphLoader(data, [2], batch_size=100, method="labor")))
    assert induced.num_nodes < next(iter(SubGraphLoader(data, [2], batch_size=100))).num_nodes
    sizes = [
        sum(batch.num_nodes for batch in NodeLoader(data, HalohopSampler(data, [3, 3], method=method), batch_size=50))
        for method in ("labor", "neighbor")
    ]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "labour"}, "method='labour' is neither 'neighbor' nor 'labor'"),
        ({"method": "labor", "replace": True}, "labor draws without replacement; leave out replace=True"),
        ({"method": "labor", "time_attr": "when", "temporal_strategy": "last"}, "leave out labor"),
        ({"layer_dependency": True}, "draw with method='labor'"),
    ],
)
def test_what_cannot_be_is_refused(data, options, message):
    with pytest.raises(InputError, match=message):
        NeighborLoader(data, [2], input_time=torch.zeros(300, dtype=torch.int64) if "time_attr" in options else None, **options)
