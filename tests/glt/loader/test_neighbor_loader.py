"""GLT's NeighborLoader: seeds, seeds of randomness, other processes, and models that read its batches."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import resource_sharer
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import trim_to_layer

from halohop.errors import IdError, InputError, SchemaError
from halohop.glt.data import Dataset
from halohop.glt.loader import NeighborLoader
from tests.support.forked import forkserver
from tests.support.glt_data import BUYS, drawn_there, nodes_of, one_type, several_types

SEEDS = torch.arange(12)


def test_torchs_seed_is_taken_where_none_is_given() -> None:
    dataset = one_type("out")[0]
    how: dict[str, Any] = {"batch_size": 4, "shuffle": True}

    def drawn(seed: int) -> list[list[int]]:
        torch.manual_seed(seed)
        return nodes_of(NeighborLoader(dataset, [2, 2], SEEDS, **how))

    assert drawn(3) == drawn(3) == nodes_of(NeighborLoader(dataset, [2, 2], SEEDS, seed=3, **how))
    assert drawn(3) != drawn(4)
    generator = torch.Generator().manual_seed(3)
    assert nodes_of(NeighborLoader(dataset, [2, 2], SEEDS, generator=generator, **how)) == drawn(3)


def test_keywords_of_torchs_loader_are_taken() -> None:
    dataset = one_type("out")[0]
    loader = NeighborLoader(dataset, [2], SEEDS, batch_size=5, drop_last=True, num_workers=1, pin_memory=False, timeout=30)
    assert len(loader) == len(list(loader)) == 2
    with pytest.raises(InputError, match=r"collate_fn=.* has no meaning here"):
        NeighborLoader(dataset, [2], SEEDS, collate_fn=list)


def test_a_sampler_brings_its_own_arguments() -> None:
    dataset = one_type("out")[0]
    sampler = SimpleNamespace(graph=dataset.graph, num_neighbors=[2], with_edge=True, with_weight=True, seed=8)
    mine = next(iter(NeighborLoader(dataset, None, SEEDS, neighbor_sampler=sampler)))
    theirs = next(iter(NeighborLoader(dataset, [2], SEEDS, with_edge=True, with_weight=True, seed=8)))
    assert torch.equal(mine.edge, theirs.edge)
    sampler.graph = one_type("out")[0].graph
    with pytest.raises(InputError, match="neighbor_sampler draws from another graph than the Dataset's"):
        NeighborLoader(dataset, None, SEEDS, neighbor_sampler=sampler)


def test_batches_are_moved_to_the_device() -> None:
    """(Tensors of the device "meta" are on no GPU, and move as to one.)"""
    dataset, typed = one_type("out")[0], several_types("out")[0]
    batch = next(iter(NeighborLoader(dataset, [2], SEEDS, device="meta")))
    assert {value.device.type for _, value in batch if isinstance(value, Tensor)} == {"meta"}
    batch = next(iter(NeighborLoader(typed, [2], ("user", SEEDS), device="meta")))
    assert batch["user"].x.device.type == batch.num_sampled_nodes["item"].device.type == "meta"
    size, n_id, adjs = next(iter(NeighborLoader(dataset, [2, 2], SEEDS, as_pyg_v1=True, with_edge=True, device="meta")))
    assert (size, n_id.device.type) == (1, "meta")
    assert {part.device.type for adj in adjs for part in adj} == {"meta"}


@pytest.mark.parametrize(
    ("error", "message", "how"),
    [
        (IdError, "45", {"input_nodes": torch.tensor([45])}),
        (IdError, "-1", {"input_nodes": torch.tensor([-1])}),
        (InputError, "input_nodes must be integers", {"input_nodes": torch.tensor([0.5])}),
        (InputError, "fanout -2", {"num_neighbors": [-2]}),
        (SchemaError, "likes", {"num_neighbors": {("node", "likes", "node"): [2]}}),
        (InputError, "batch_size", {"batch_size": 0}),
    ],
)
def test_what_cannot_work_is_refused(error: type[Exception], message: str, how: dict[str, Any]) -> None:
    with pytest.raises(error, match=message):
        NeighborLoader(one_type("in")[0], **{"num_neighbors": [2], "input_nodes": SEEDS, **how})


def test_what_cannot_work_with_several_types_is_refused() -> None:
    dataset = several_types("out")[0]
    with pytest.raises(InputError, match="no fanouts for"):
        NeighborLoader(dataset, {BUYS: [2]}, ("user", SEEDS))
    with pytest.raises(SchemaError, match="input_nodes must name a node type"):
        NeighborLoader(dataset, [2], SEEDS)
    with pytest.raises(SchemaError, match="shop"):
        NeighborLoader(dataset, [2], ("shop", SEEDS))


def test_weights_that_are_not_stored() -> None:
    dataset = Dataset()
    dataset.init_graph(torch.tensor([[0, 1], [1, 0]]), graph_mode="CPU")
    with pytest.raises(InputError, match="with_weight=True, but the graph has no weights; give edge_weights where it is made"):
        NeighborLoader(dataset, [1], torch.tensor([0]), with_weight=True)


def test_a_strategy_changes_nothing() -> None:
    with pytest.warns(UserWarning, match="strategy changes nothing here"):
        NeighborLoader(one_type("out")[0], [1], SEEDS, strategy="topk")


@pytest.mark.full
def test_loaders_and_datasets_go_to_other_processes() -> None:
    dataset = one_type("out")[0]
    loader = NeighborLoader(dataset, [2, 2], SEEDS, batch_size=4, seed=1)
    with ProcessPoolExecutor(1, mp_context=forkserver()) as processes:
        sent, made_there = processes.submit(drawn_there, loader, dataset).result(timeout=120)
    resource_sharer.stop(timeout=10)
    assert nodes_of(loader) == sent == made_there


def test_loaders_and_datasets_are_pickled() -> None:
    dataset = one_type("out")[0]
    loader = NeighborLoader(dataset, [2, 2], SEEDS, batch_size=4, seed=1)
    sent, made_there = drawn_there(*pickle.loads(pickle.dumps((loader, dataset))))
    assert nodes_of(loader) == sent == made_there


class SAGE(torch.nn.Module):
    """Of GLT's examples: with PyG's first format, or with batches whose layers are trimmed."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(num_features, 16), SAGEConv(16, num_classes)])

    def forward(self, x: Tensor, adjs: Any) -> Tensor:
        for i, (edge_index, _, size) in enumerate(adjs):
            target = x[: size[1]]
            x = self.convs[i]((x, target), edge_index)
            if i < len(self.convs) - 1:
                x = F.relu(x)
        return x

    def trimmed(self, batch: Any) -> Tensor:
        x, edge_index = batch.x, batch.edge_index
        for i, conv in enumerate(self.convs):
            x, edge_index, _ = trim_to_layer(i, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index)
            x = conv(x, edge_index)
            if i < len(self.convs) - 1:
                x = F.relu(x)
        return x[: batch.batch_size]

    def whole(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for i, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            if i < len(self.convs) - 1:
                x = F.relu(x)
        return x


def test_models_get_what_a_whole_graph_gives_them(edge_dir: str) -> None:
    """With all neighbours, PyG's first format and trimmed layers both compute what a full batch does."""
    dataset = one_type(edge_dir)[0]
    x, edges = dataset.node_features.by_id, torch.stack(dataset.graph.topo.edge_index)  # type: ignore[union-attr]
    model = SAGE(3, 7)
    with torch.no_grad():
        wanted = model.whole(x, edges.flip(0) if edge_dir == "out" else edges)
        for batch_size, n_id, adjs in NeighborLoader(dataset, [-1, -1], SEEDS, batch_size=5, as_pyg_v1=True):
            adjs = [adj.to("cpu") for adj in adjs]
            torch.testing.assert_close(model(x[n_id], adjs), wanted[n_id[:batch_size]])
        for batch in NeighborLoader(dataset, [-1, -1], SEEDS, batch_size=5):
            torch.testing.assert_close(model.trimmed(batch), wanted[batch.batch])


def test_a_model_learns_from_pygs_first_format() -> None:
    torch.manual_seed(0)
    edges = torch.stack([torch.arange(60).repeat(4), torch.arange(60).repeat(4) // 20 * 20 + torch.randint(20, (240,))])
    y = torch.arange(60) // 20
    x = F.one_hot(y, 3) + 0.8 * torch.randn(60, 3)
    dataset = Dataset()
    dataset.init_graph(edges, graph_mode="CPU")
    loader = NeighborLoader(dataset, [4, 3], torch.arange(60), batch_size=20, shuffle=True, as_pyg_v1=True)
    model = SAGE(3, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(15):
        for batch_size, n_id, adjs in loader:
            loss = F.cross_entropy(model(x[n_id], adjs), y[n_id[:batch_size]])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert sum(losses[-3:]) < sum(losses[:3]) / 2
