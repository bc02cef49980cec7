"""What layers read of batches: the same edges as PyG's trimming leaves, grouped by destination."""

from typing import Any

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import trim_to_layer

import halohop
from halohop import ops
from halohop.errors import InputError
from halohop.nn import Hop, hops
from tests.support.hop_batches import batch_of, made, typed

KINDS: list[dict[str, Any]] = [
    {},
    {"expand": "all"},
    {"disjoint": True},
    {"replace": True},
    {"time_attr": "time", "disjoint": True, "input_time": torch.full((12,), 60)},
    {"pad": "bound"},
    {"pad": "bound", "expand": "all"},
]


def edges_of(hop: Hop, batch_edges: torch.Tensor) -> list[tuple[int, int]]:
    """The ends of a hop's edges; what `edges` says they are in the batch must have the same ends."""
    assert hop.begins[0] == 0
    assert hop.begins[-1] == hop.num_edges
    assert bool((hop.begins.diff() >= 0).all())
    assert batch_edges[:, hop.edges].tolist() == hop.ends.tolist()
    assert hop.num_edges == 0 or int(hop.src.max()) < hop.num_src
    return sorted(map(tuple, hop.ends.t().tolist()))


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_layers_read_the_edges_that_trimming_leaves(options: dict[str, Any]) -> None:
    batch = batch_of(made(), **options)
    found = hops(batch, layers=3)
    assert len(found) == 3
    x, edge_index, attr = batch.x, batch.edge_index, batch.e_id
    for layer, hop in enumerate(found):
        x, edge_index, attr = trim_to_layer(layer, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index, attr)
        assert hop.num_src == len(x)
        assert hop.num_dst == sum(batch.num_sampled_nodes[: 3 - layer])
        assert edges_of(hop, batch.edge_index) == sorted(map(tuple, edge_index.t().tolist()))
        assert sorted(hop.of_edges(batch.e_id).tolist()) == sorted(attr.tolist())


@pytest.mark.parametrize("options", [{}, {"expand": "all"}, {"pad": "bound"}], ids=str)
def test_layers_of_several_types_read_the_edges_that_trimming_leaves(options: dict[str, Any]) -> None:
    batch = batch_of(typed(), **options)
    x, edges = batch.x_dict, batch.edge_index_dict
    nodes = {name: batch[name].num_sampled_nodes for name in batch.node_types}
    drawn = {relation: batch[relation].num_sampled_edges for relation in batch.edge_types}
    for layer, of_layer in enumerate(hops(batch)):
        x, edges, _ = trim_to_layer(layer, nodes, drawn, x, edges)
        for relation, hop in of_layer.items():
            assert hop.num_src == len(x[relation[0]])
            assert edges_of(hop, batch[relation].edge_index) == sorted(map(tuple, edges[relation].t().tolist()))


def test_edges_that_are_grouped_are_views_of_the_batch() -> None:
    batch = batch_of(made())
    begins = {hop.begins.data_ptr() for hop in hops(batch)}
    assert len(begins) == 1
    for hop in hops(batch):
        assert hop.src.data_ptr() == batch.edge_index.data_ptr()
        assert hop.edges == slice(0, hop.num_edges)


def test_edges_of_one_destination_stay_in_order() -> None:
    hop = hops(Data(edge_index=torch.tensor([[2, 0, 1, 2], [1, 0, 1, 0]]), num_nodes=3), layers=1)[0]
    assert (hop.src.tolist(), hop.dst.tolist(), hop.of_edges(torch.arange(4)).tolist()) == (
        [0, 2, 2, 1],
        [0, 0, 1, 1],
        [1, 3, 0, 2],
    )


def test_each_hop_alone_is_the_block_of_a_sampler_that_expands_all_nodes() -> None:
    batch = batch_of(made(), expand="all")
    ends = [sum(batch.num_sampled_edges[:hop]) for hop in range(4)]
    for hop, found in zip((3, 2, 1), hops(batch, cumulative=False), strict=True):
        drawn = batch.edge_index[:, ends[hop - 1] : ends[hop]]
        assert edges_of(found, batch.edge_index) == sorted(map(tuple, drawn.t().tolist()))
        assert found.num_dst == sum(batch.num_sampled_nodes[:hop])
        assert torch.equal(found.of_edges(batch.e_id), batch.e_id[ends[hop - 1] : ends[hop]])
        assert found.src.data_ptr() == drawn[0].data_ptr()


def test_each_hop_alone_of_several_types_and_of_padded_batches() -> None:
    batch = batch_of(typed(), expand="all")
    for hop, found in zip((3, 2, 1), hops(batch, cumulative=False), strict=True):
        for relation, of_hop in found.items():
            begin, end = (sum(batch[relation].num_sampled_edges[:number]) for number in (hop - 1, hop))
            assert torch.equal(of_hop.ends, batch[relation].edge_index[:, begin:end])
    padded = batch_of(made(), expand="all", pad="bound")
    for found in hops(padded, cumulative=False):
        edges_of(found, padded.edge_index)
    with pytest.raises(InputError, match="edges of a batch"):
        found.of_edges(padded.e_id[1:])


@pytest.mark.parametrize("data", [made(), typed()], ids=["one type", "several"])
def test_lists_begin_where_the_sampler_said_and_where_the_edges_say(data: Data | HeteroData, monkeypatch: Any) -> None:
    sorted_begins = ops.sorted_begins
    batch = batch_of(data, expand="all")
    looked_for = []
    with monkeypatch.context() as patched:
        patched.setattr(ops, "sorted_begins", lambda dst, number: looked_for.append(len(dst)) or sorted_begins(dst, number))
        known = hops(batch, cumulative=False)
    assert not any(looked_for)  # but for relations of which a hop has no edges
    for store in [batch] if isinstance(batch, Data) else batch.edge_stores:
        store.edge_index = store.edge_index.clone()  # of which nobody has said anything
    for found, expected in zip(known, hops(batch, cumulative=False), strict=True):
        pairs = [(found, expected)] if isinstance(found, Hop) else [(found[name], expected[name]) for name in expected]
        for one, other in pairs:
            assert torch.equal(one.begins, other.begins)
            assert torch.equal(one.ends, other.ends)
            assert (one.edges, one.num_whole) == (other.edges, other.num_whole)


def test_what_is_written_to_a_batch_counts() -> None:
    batch = batch_of(made(), expand="all")
    begin = batch.num_sampled_edges[0]
    batch.edge_index[1, :begin] = batch.edge_index[1, :begin].flip(0)
    found = hops(batch, cumulative=False)[-1]
    assert edges_of(found, batch.edge_index) == sorted(map(tuple, batch.edge_index[:, :begin].t().tolist()))


def test_each_hop_alone_needs_all_edges_of_the_batch() -> None:
    batch = batch_of(made(), expand="all")
    batch.edge_index = batch.edge_index[:, 1:]
    with pytest.raises(InputError, match="num_sampled_edges counts"):
        hops(batch, cumulative=False)


@pytest.mark.parametrize("kind", ["induced", "bidirectional"])
def test_subgraphs_without_hops_are_given_whole(kind: str) -> None:
    batch = batch_of(made(), subgraph_type=kind)
    for found, number in ((hops(batch), 3), (hops(batch, layers=2), 2)):
        assert [(hop.num_src, hop.num_dst, hop.num_edges) for hop in found] == [
            (*[batch.num_nodes] * 2, batch.num_edges)
        ] * number


def test_links_begin_at_all_their_ends() -> None:
    links = halohop.LinkNeighborLoader(made(), [4, 2], batch_size=8, neg_sampling="binary", num_workers=0)
    batch = next(iter(links))
    found = hops(batch)
    assert found[-1].num_dst == batch.num_sampled_nodes[0]
    assert int(batch.edge_label_index.max()) < found[-1].num_dst


def test_edges_that_lead_away_from_the_seeds_are_left_out_where_no_layer_needs_them() -> None:
    """A sampler that goes along the edges finds destinations that no later layer reads."""
    data = Data(edge_index=torch.tensor([[0, 0, 1], [1, 2, 3]]), num_nodes=4)
    data.num_sampled_nodes, data.num_sampled_edges = [1, 2, 1], [2, 1]
    outer, inner = hops(data)
    assert outer.dst.tolist() == [1, 2]
    assert inner.num_edges == 0


def test_pyg_takes_the_edges_of_a_hop() -> None:
    edge_index = hops(batch_of(made()))[1].edge_index
    assert edge_index.validate() is edge_index
    assert edge_index.is_sorted_by_col


def test_a_batch_that_does_not_say_its_hops_is_refused() -> None:
    with pytest.raises(InputError, match=r"num_sampled_nodes.*layers"):
        hops(made())


def test_another_number_of_layers_than_hops_is_refused() -> None:
    with pytest.raises(InputError, match=r"3 hops.*2 layers"):
        hops(batch_of(made()), layers=2)


def test_counts_of_another_batch_are_refused() -> None:
    batch = batch_of(made())
    batch.num_sampled_edges = [*batch.num_sampled_edges[:-1], 1]
    with pytest.raises(InputError, match=r"num_sampled_edges"):
        hops(batch)


def test_rows_of_a_hops_edges_alone_are_refused() -> None:
    outer, inner, _ = hops(batch_of(made()))
    with pytest.raises(InputError, match="give those of all its edges"):
        inner.of_edges(torch.zeros(inner.num_edges))
    assert len(inner.of_edges(torch.zeros(outer.num_edges))) == inner.num_edges
