"""Running sums of weights that a graph in memory keeps: the same batches."""

import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop.errors import InputError


def some_graph(num_nodes=60, num_edges=3000):
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(num_nodes, (2, num_edges), generator=generator)
    weight = torch.rand(num_edges, generator=generator) ** 8 * (torch.rand(num_edges, generator=generator) < 0.9)
    time = torch.randint(100, (num_edges,), generator=generator)
    return Data(edge_index=ends, weight=weight, time=time, num_nodes=num_nodes)


BY_TIME = {"disjoint": True, "time_attr": "time", "input_time": torch.full((60,), 70)}


@pytest.mark.parametrize("options", [{}, {"replace": True}, BY_TIME], ids=["plain", "replace", "time"])
def test_sums_change_no_batch(options):
    data, made = some_graph(), []
    for graph in (halohop.graph(data), halohop.graph(data, weight_sums=["weight"])):
        loader = halohop.NeighborLoader(graph, [5, 3], batch_size=20, weight_attr="weight", run="inline", **options)
        made.append([(batch.n_id, batch.e_id) for batch in loader])
    for (nodes, edges), (same_nodes, same_edges) in zip(*made, strict=True):
        assert torch.equal(nodes, same_nodes)
        assert torch.equal(edges, same_edges)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_an_impossible_weight_is_named_by_its_edge(bad):
    data = some_graph()
    data.weight[1234] = bad
    with pytest.raises(InputError, match=f"edge 1234 of .* has the weight {bad:g} in 'weight'; a weight is a finite number"):
        halohop.graph(data, weight_sums=["weight"])
    loader = halohop.NeighborLoader(data, [-1], batch_size=60, weight_attr="weight", run="inline")
    with pytest.raises(InputError, match=f"edge 1234 of .* has the weight {bad:g} in 'weight'; a weight is a finite number"):
        list(loader)


@pytest.mark.parametrize("sums", [[], ["weight"]], ids=["plain", "sums"])
@pytest.mark.parametrize(
    "how", [{"num_neighbors": [2]}, {"num_neighbors": [-1]}, {"num_neighbors": [2], "replace": True}], ids=str
)
def test_a_list_of_zeros_gives_no_neighbours(how, sums):
    """As a mask leaves out all that it does not allow; a list beside it is drawn from."""
    edge_index = torch.tensor([[1, 2, 3, 4, 0], [0, 0, 0, 1, 1]])
    data = Data(edge_index=edge_index, weight=torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0]), num_nodes=6)
    graph = halohop.graph(data, weight_sums=sums) if sums else data
    seeds = torch.tensor([0, 1])
    (batch,) = halohop.NeighborLoader(graph, input_nodes=seeds, batch_size=2, weight_attr="weight", run="inline", **how)
    assert set(batch.e_id.tolist()) == {4}
    assert batch.n_id.tolist() == [0, 1]


@pytest.mark.parametrize("names", ["weight", ["x"], ["edge_index"]])
def test_sums_of_what_is_no_weight(names):
    with pytest.raises(InputError, match="give a list of attributes of edges with one number each"):
        halohop.graph(some_graph(), weight_sums=names)
