"""halohop's loaders and batches in what else of PyG takes loaders and batches."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import CachedLoader, ImbalancedSampler, PrefetchLoader, ZipLoader
from torch_geometric.nn import GAT, GIN, GraphSAGE, HeteroConv, SAGEConv
from torch_geometric.sampler import BaseSampler
from torch_geometric.utils import trim_to_layer

from halohop import HalohopSampler, LinkNeighborLoader, NeighborLoader
from halohop.pyg.convert import tables_from_pyg
from halohop.testing.worlds import partitioned

WRITES = ("author", "writes", "paper")


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(1)
    data = Data(x=torch.randn(200, 8), y=torch.arange(200) % 3, edge_index=torch.randint(200, (2, 1500)))
    return data


@pytest.fixture(scope="module")
def hetero() -> HeteroData:
    torch.manual_seed(2)
    data = HeteroData()
    data["paper"].x = torch.randn(60, 4)
    data["author"].x = torch.randn(40, 4)
    data[WRITES].edge_index = torch.stack([torch.randint(40, (150,)), torch.randint(60, (150,))])
    data["paper", "rev_writes", "author"].edge_index = data[WRITES].edge_index.flip(0)
    data["paper", "cites", "paper"].edge_index = torch.randint(60, (2, 200))
    return data


@pytest.mark.parametrize("net", [GraphSAGE, GAT, GIN])  # not GCN: its weights count edges that trimming takes away
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_trimming_gives_the_output_of_the_whole_batch(data, net, task):
    torch.manual_seed(0)
    model = net(8, 16, 3, 4).eval()
    options = {"batch_size": 30, "replace": net is GIN}
    loader = NeighborLoader(data, [5, 3, 2], **options) if task == "nodes" else LinkNeighborLoader(data, [5, 3, 2], **options)
    for _, batch in zip(range(3), loader, strict=False):
        whole = model(batch.x, batch.edge_index)[: batch.num_sampled_nodes[0]]
        hops = {
            "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
            "num_sampled_edges_per_hop": batch.num_sampled_edges,
        }
        trimmed = model(batch.x, batch.edge_index, **hops)
        torch.testing.assert_close(trimmed[: batch.num_sampled_nodes[0]], whole)


@pytest.mark.parametrize("disjoint", [False, True])
def test_trimming_of_several_types(hetero, disjoint):
    torch.manual_seed(0)
    convs = [HeteroConv({relation: SAGEConv(4, 4) for relation in hetero.edge_types}) for _ in range(3)]
    for batch in NeighborLoader(hetero, [3, 2, 2], input_nodes="paper", batch_size=16, disjoint=disjoint):
        whole, edges = batch.x_dict, batch.edge_index_dict
        trimmed = batch.x_dict
        for layer, conv in enumerate(convs):
            whole = conv(whole, batch.edge_index_dict)
            trimmed, edges, _ = trim_to_layer(layer, batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict, trimmed, edges)
            trimmed = conv(trimmed, edges)
        torch.testing.assert_close(trimmed["paper"][: batch["paper"].batch_size], whole["paper"][: batch["paper"].batch_size])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("filter_per_worker", [None, True, False])
def test_zip_loader(data, workers, filter_per_worker):
    """Our batches come finished, so it does not matter where it filters them."""
    nodes, links = NeighborLoader(partitioned(tables_from_pyg(data), 2), [3, 2], seed=4), LinkNeighborLoader(data, [2], seed=4)
    zipped = ZipLoader([nodes, links], filter_per_worker, batch_size=64, num_workers=workers)
    firsts = []
    for one, other in zipped:
        assert torch.equal(one.n_id[: one.batch_size], one.input_id)
        assert torch.equal(one.x, data.x[one.n_id])
        assert torch.equal(other.n_id[other.edge_label_index], data.edge_index[:, other.input_id])
        assert torch.equal(one.input_id, other.input_id)
        firsts.append(one.e_id)
    assert len(firsts) == len(zipped) == 4
    again = [one.e_id for one, _ in zipped]
    assert all(torch.equal(this, that) for this, that in zip(firsts, again, strict=True))
    nodes.set_epoch(1)
    assert not all(torch.equal(this, one.e_id) for this, (one, _) in zip(firsts, zipped, strict=True))


def test_batches_of_a_foreign_order_draw_independently(data):
    """By the positions: not all of them as if they were batch 0."""
    loader = NeighborLoader(data, [1], seed=1)
    one, other = loader.collate_fn(list(range(100))), loader.collate_fn([*range(100), 100])
    assert not torch.equal(one.e_id, other.e_id[: len(one.e_id)])


def test_cached_and_prefetched(data):
    loader = NeighborLoader(data, [2, 2], batch_size=64, num_workers=2)
    expected = [batch.e_id for batch in loader]
    for wrapper in (CachedLoader, PrefetchLoader):
        loader.set_epoch(0)
        got = list(wrapper(loader, device=torch.device("cpu")))
        assert all(torch.equal(batch.e_id, e_id) for batch, e_id in zip(got, expected, strict=True))
    loader.set_epoch(0)
    cached = CachedLoader(loader, transform=lambda batch: batch.n_id)
    assert [n_id.tolist() for n_id in cached] == [n_id.tolist() for n_id in cached]


def test_imbalanced_sampler(data):
    rare = data.clone()
    rare.y = (torch.arange(200) >= 190).long()
    loader = NeighborLoader(rare, [1], sampler=ImbalancedSampler(rare), batch_size=200)
    (batch,) = loader
    assert 50 < int(batch.y[: batch.batch_size].sum()) < 150


def test_what_a_loader_tells_of_itself(data):
    assert NeighborLoader(data, [1], num_workers=3).num_workers == 3
    assert NeighborLoader(data, [1], run="inline").num_workers == 0
    assert isinstance(HalohopSampler(data, [1]), BaseSampler)


def test_batches_move_as_pygs_do(data, hetero):
    for batch in (next(iter(NeighborLoader(data, [2]))), next(iter(NeighborLoader(hetero, [2], "paper")))):
        there = batch.to("meta")
        assert {store.n_id.device.type for store in there.node_stores} == {"meta"}
        assert batch.clone().node_stores[0].n_id is not batch.node_stores[0].n_id
