"""Whole training scripts as they are written for PyG's loaders, with nothing but the import changed."""

import copy

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
import torch_geometric.transforms as transforms
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GraphSAGE, SAGEConv

from halohop import LinkNeighborLoader, NeighborLoader

RATES, RATED, BOUGHT_WITH = ("user", "rates", "item"), ("item", "rev_rates", "user"), ("item", "to", "item")


def ratings(num_users: int = 120, num_items: int = 80) -> HeteroData:
    """Users rate items of their own two groups."""
    torch.manual_seed(0)
    data = HeteroData()
    data["user"].x, data["item"].x = torch.eye(num_users), torch.eye(num_items)
    user, item = torch.randint(num_users, (4000,)), torch.randint(num_items, (4000,))
    alike = user % 2 == item % 2
    data[RATES].edge_index = torch.stack([user[alike], item[alike]]).unique(dim=1)
    return data


def bought_together(data: HeteroData) -> Tensor:
    """The items that share many users, as edges between them."""
    matrix = torch.zeros(data["user"].num_nodes, data["item"].num_nodes)
    matrix[tuple(data[RATES].edge_index)] = 1
    shared = (matrix.T @ matrix).fill_diagonal_(0)
    return (shared >= 5).nonzero().T.contiguous()


class Bipartite(nn.Module):
    """Items learn from items alike, users from their items; a pair is scored by the product."""

    def __init__(self, num_users: int, num_items: int) -> None:
        super().__init__()
        self.users, self.items = nn.Linear(num_users, 16), nn.Linear(num_items, 16)
        self.among_items, self.to_users = SAGEConv((16, 16), 16), SAGEConv((16, 16), 16)

    def forward(self, batch: HeteroData) -> Tensor:
        items = self.items(batch["item"].x)
        items = items + self.among_items((items, items), batch[BOUGHT_WITH].edge_index).relu()
        users = self.to_users((items, self.users(batch["user"].x)), batch[RATED].edge_index)
        src, dst = batch[RATES].edge_label_index
        return (users[src] * items[dst]).sum(dim=-1)


def test_an_unsupervised_bipartite_script():
    data = transforms.ToUndirected()(ratings())
    split = transforms.RandomLinkSplit(
        num_val=0.1,
        num_test=0.1,
        neg_sampling_ratio=1.0,
        add_negative_train_samples=False,
        edge_types=[RATES],
        rev_edge_types=[RATED],
    )
    train_data, val_data, _ = split(data)
    for part in (train_data, val_data):
        part[BOUGHT_WITH].edge_index = bought_together(train_data)

    options = {"num_neighbors": [8, 4], "batch_size": 128, "num_workers": 2}
    train_loader = LinkNeighborLoader(
        data=train_data,
        edge_label_index=(RATES, train_data[RATES].edge_label_index),
        neg_sampling="binary",
        shuffle=True,
        drop_last=True,
        **options,
    )
    val_loader = LinkNeighborLoader(
        data=val_data,
        edge_label_index=(RATES, val_data[RATES].edge_label_index),
        edge_label=val_data[RATES].edge_label,
        shuffle=False,
        **options,
    )

    torch.manual_seed(1)
    model = Bipartite(120, 80)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
        for batch in train_loader:
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(model(batch), batch[RATES].edge_label).backward()
            optimizer.step()

    with torch.no_grad():
        scores = torch.cat([model(batch) for batch in val_loader])
        labels = torch.cat([batch[RATES].edge_label for batch in val_loader])
    assert len(labels) == val_data[RATES].edge_label_index.size(1)
    positive, negative = scores[labels > 0], scores[labels == 0]
    assert (
        positive[:, None] > negative
    ).float().mean() > 0.65  # the area under the curve; half of the negatives are within a group


def communities(num_nodes: int = 400) -> Data:
    torch.manual_seed(0)
    y = torch.arange(num_nodes) % 4
    ends = torch.randint(num_nodes, (2, 20_000))
    edge_index = ends[:, (y[ends[0]] == y[ends[1]]) | (torch.rand(20_000) < 0.05)]
    mask = torch.rand(num_nodes) < 0.5
    return Data(x=F.one_hot(y, 4) + torch.randn(num_nodes, 4), y=y, edge_index=edge_index, train_mask=mask)


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@torch.no_grad()
def layer_by_layer(model: nn.Module, x_all: Tensor, subgraph_loader: NeighborLoader) -> Tensor:
    """Each layer for all nodes, by batches that have no features."""
    for layer, conv in enumerate(model.convs):
        rows = []
        for batch in subgraph_loader:
            x = conv(x_all[batch.node_id.to(x_all.device)], batch.edge_index.to(x_all.device))
            x = x if layer == len(model.convs) - 1 else x.relu()
            rows.append(x[: batch.batch_size])
        x_all = torch.cat(rows)
    return x_all


def test_a_distributed_script(group):
    """A rank of several, with its own part of the training nodes, and evaluation on the first."""
    data = communities()
    device, rank, num_ranks = torch.device("cpu"), 0, 2
    data = data.to(device, "x", "y")
    train_nodes = data.train_mask.nonzero(as_tuple=False).view(-1)
    train_nodes = train_nodes.split(train_nodes.size(0) // num_ranks)[rank]

    kwargs = {"batch_size": 32, "num_workers": 4, "persistent_workers": True}
    train_loader = NeighborLoader(data, input_nodes=train_nodes, num_neighbors=[10, 5], shuffle=True, drop_last=True, **kwargs)
    subgraph_loader = NeighborLoader(copy.copy(data), num_neighbors=[-1], shuffle=False, **kwargs)
    del subgraph_loader.data.x, subgraph_loader.data.y
    subgraph_loader.data.num_nodes = data.num_nodes
    subgraph_loader.data.node_id = torch.arange(data.num_nodes)

    torch.manual_seed(12345)
    model = DistributedDataParallel(GraphSAGE(4, 16, num_layers=2, out_channels=4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        model.train()
        for batch in train_loader:
            batch = batch.to(device, "x", "y", "edge_index")
            assert batch.y.size(0) == batch.num_nodes
            assert set(batch.input_id.tolist()) <= set(range(len(train_nodes)))
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            F.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    dist.barrier()

    model.eval()
    for batch in subgraph_loader:
        assert "x" not in batch
        assert "y" not in batch
    out = layer_by_layer(model.module, data.x, subgraph_loader)
    torch.testing.assert_close(out, model.module(data.x, data.edge_index))
    assert (out.argmax(dim=-1) == data.y).float().mean() > 0.5  # by chance 0.25
