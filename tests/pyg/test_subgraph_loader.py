"""Subgraph types through PyG's arguments, held against PyG's own utilities, and the loader of whole subgraphs."""

import copy

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler.base import SubgraphType
from torch_geometric.transforms import ToUndirected
from torch_geometric.utils import coalesce, k_hop_subgraph, subgraph

from halohop import NeighborLoader, SubGraphLoader
from halohop.errors import InputError


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(1)
    edge_index = torch.randint(120, (2, 500))
    return Data(x=torch.randn(120, 4), edge_index=edge_index, edge_attr=torch.randn(500, 3), when=torch.arange(500))


@pytest.fixture(scope="module")
def hetero() -> HeteroData:
    torch.manual_seed(2)
    data = HeteroData()
    data["paper"].x = torch.randn(60, 4)
    data["author"].num_nodes = 40
    data["author", "writes", "paper"].edge_index = torch.stack([torch.randint(40, (150,)), torch.randint(60, (150,))])
    data["author", "writes", "paper"].edge_attr = torch.arange(150.0)
    data["paper", "cites", "paper"].edge_index = torch.randint(60, (2, 200))
    return data


def edges_of(batch: Data) -> list[int]:
    return sorted(batch.e_id.tolist())


@pytest.mark.parametrize("asked", [{"subgraph_type": "induced"}, {"subgraph_type": SubgraphType.induced}, {"directed": False}])
def test_induced_edges_are_those_of_pygs_subgraph(data, asked):
    drawn = list(NeighborLoader(data, [3, 2], batch_size=16, seed=4))
    more = 0
    for batch, thin in zip(NeighborLoader(data, [3, 2], batch_size=16, seed=4, **asked), drawn, strict=True):
        assert torch.equal(batch.n_id, thin.n_id)
        assert batch.num_sampled_nodes == thin.num_sampled_nodes
        assert "num_sampled_edges" not in batch
        _, _, mask = subgraph(batch.n_id, data.edge_index, return_edge_mask=True)
        assert edges_of(batch) == mask.nonzero().view(-1).tolist()
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert batch.edge_index[1].tolist() == sorted(batch.edge_index[1].tolist())
        more += batch.num_edges - thin.num_edges
    assert more > 100


@pytest.mark.parametrize("asked", ["bidirectional", SubgraphType.bidirectional])
def test_bidirectional_edges_are_coalesced_as_pyg_documents(data, asked):
    drawn = list(NeighborLoader(data, [3, 2], batch_size=16, seed=4))
    for batch, thin in zip(NeighborLoader(data, [3, 2], batch_size=16, seed=4, subgraph_type=asked), drawn, strict=True):
        assert torch.equal(batch.n_id, thin.n_id)
        both = torch.cat([thin.edge_index, thin.edge_index.flip(0)], dim=1)
        assert torch.equal(batch.edge_index, coalesce(both, sort_by_row=False))
        ends, originals = batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id]
        assert ((ends == originals).all(dim=0) | (ends == originals.flip(0)).all(dim=0)).all()
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert "e_flipped" not in batch


def test_flips_of_a_relation_belong_to_its_partner(hetero):
    both = ToUndirected()(copy.copy(hetero))
    loader = NeighborLoader(both, [2, 2], "paper", batch_size=10, subgraph_type="bidirectional")
    flipped = 0
    for batch in loader:
        writes, rev = batch["author", "writes", "paper"], batch["paper", "rev_writes", "author"]
        assert set(zip(*writes.edge_index.tolist(), strict=True)) == set(zip(*rev.edge_index.flip(0).tolist(), strict=True))
        assert torch.equal(writes.edge_attr, writes.e_id.float())  # ToUndirected gives both the same order
        ends = torch.stack([batch["author"].n_id[writes.edge_index[0]], batch["paper"].n_id[writes.edge_index[1]]])
        assert torch.equal(ends, both["author", "writes", "paper"].edge_index[:, writes.e_id])
        flipped += int(writes.e_flipped.sum()) + int(rev.e_flipped.sum())
        cites = batch["paper", "cites", "paper"].edge_index
        assert set(zip(*cites.tolist(), strict=True)) == set(zip(*cites.flip(0).tolist(), strict=True))
    assert flipped > 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subgraph_type": "half"}, "'half' is none of"),
        ({"subgraph_type": "induced", "time_attr": "when", "input_time": torch.zeros(120)}, "edges of any time"),
    ],
)
def test_subgraph_types_that_cannot_be(data, options, message):
    with pytest.raises(InputError, match=message):
        NeighborLoader(data, [1], **options)


def test_flips_without_a_relation_are_refused(hetero):
    with pytest.raises(InputError, match=r"rev_writes.*ToUndirected"):
        NeighborLoader(hetero, [1], "paper", subgraph_type="bidirectional")
    both = ToUndirected()(copy.copy(hetero))
    with pytest.raises(InputError, match="cannot see which edges are flips"):
        NeighborLoader(both, [1], "paper", subgraph_type="bidirectional", transform_sampler_output=lambda output: output)


def test_whole_neighbourhoods_are_pygs_k_hop_subgraphs(data):
    for batch in SubGraphLoader(data, [-1, -1], input_nodes=torch.tensor([5, 17, 90, 3]), batch_size=2):
        seeds = batch.n_id[batch.mapping]
        nodes, _, _, mask = k_hop_subgraph(seeds, 2, data.edge_index)
        assert seeds.tolist() == torch.tensor([5, 17, 90, 3])[batch.input_id].tolist()
        assert sorted(batch.n_id.tolist()) == nodes.tolist()
        assert edges_of(batch) == mask.nonzero().view(-1).tolist()


def test_mapping_lies_with_the_seeds_and_is_there_for_transforms(hetero):
    def seeds_only(batch: HeteroData) -> list[int]:
        assert "mapping" not in batch["author"]
        return batch["paper"].n_id[batch["paper"].mapping].tolist()

    assert list(SubGraphLoader(hetero, [2], ("paper", [7, 7, 9]), batch_size=2, transform=seeds_only)) == [[7, 7], [9]]


@pytest.mark.parametrize("kind", ["induced", "bidirectional"])
def test_workers_of_all_kinds_make_the_same_batches(hetero, kind):
    both = ToUndirected()(copy.copy(hetero))

    def epoch(**options) -> list[HeteroData]:
        options |= {"subgraph_type": kind, "batch_size": 7, "shuffle": True, "disjoint": True}
        return list(NeighborLoader(both, [3, 2], "paper", **options))

    reference = epoch(run="inline")
    for options in ({"run": "threads", "num_workers": 3}, {"run": "processes", "num_workers": 2}):
        for got, expected in zip(epoch(**options), reference, strict=True):
            for store, same in zip(got.stores, expected.stores, strict=True):
                assert list(store.keys()) == list(same.keys())
                for key, value in same.items():
                    assert torch.equal(store[key], value) if isinstance(value, torch.Tensor) else store[key] == value
