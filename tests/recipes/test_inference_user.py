"""A user's own model, layer by layer: what is taken, and that what would come out wrong is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GraphNorm, HeteroConv, SAGEConv

import halohop
from halohop.errors import InputError, SchemaError
from halohop.recipes.config import InferConfig
from halohop.recipes.inference import infer
from halohop.store.tables import GraphTables
from halohop.testing.graphs import power_law, typed
from halohop.world import World

RELATIONS = {("user", "buys", "item"): 90, ("item", "of", "user"): 70, ("item", "like", "item"): 60, ("item", "near", "item"): 50}
"""Two relations from a type to itself: their sources come behind the batch's own nodes, one set behind the other."""


class Layer(nn.Module):
    """A convolution and what follows it."""

    def __init__(self, conv: nn.Module, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.conv, self.norm = conv, norm or nn.Identity()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.norm(self.conv(x, edge_index)).tanh()


class Model(nn.Module):
    """A chain of layers; also all at once."""

    def __init__(self, *layers: nn.Module, **more: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        for name, value in more.items():
            setattr(self, name, value)

    def forward(self, x: Any, edges: Any) -> Any:
        for layer in self.layers:
            x = layer(x, edges)
        return x


def scaled(tables: GraphTables) -> GraphTables:
    """With features of about 1."""
    for table in tables.nodes.values():
        table.columns["x"] = torch.randn(table.columns["x"].shape, generator=torch.Generator().manual_seed(1))
    return tables


def hetero_layer(widths: dict[str, int]) -> HeteroConv:
    return HeteroConv(
        {key: SAGEConv((widths[key[0]], widths[key[2]]), 4) for key in RELATIONS if key[0] in widths},
        aggr="sum",
    )


def run(tables: GraphTables, model: nn.Module, folder: Path, **options: Any) -> dict[str, np.ndarray]:
    if not (folder / "parts").exists():
        halohop.partition(tables, folder / "parts", num_parts=2, method="random")
    values = {"batch_size": 6, "batch_edges": 15, "device": "cpu"} | options
    config = InferConfig(parts=str(folder / "parts"), checkpoint=None, out=str(folder / "out"), **values)
    files = infer(config, model=model, world=World())
    return {file.stem: np.load(file, allow_pickle=False) for file in files}


@torch.no_grad()
def test_layers_of_pyg_on_one_relation(tmp_path: Path) -> None:
    """GAT replaces loops, so a source that is also in the batch must keep its place; batch norm is fixed in evaluation."""
    tables = scaled(power_law(60, 4, dim=5, shuffled_ids=True))
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(8)
    norm(torch.randn(50, 8) * 3 + 1)
    model = Model(Layer(SAGEConv(5, 8), norm), Layer(GATConv(8, 4, heads=2)), head=nn.Linear(8, 3)).eval()
    found = run(tables, model, tmp_path, embeddings=True)
    edges = tables.edges["node", "to", "node"]
    rows = model(tables.nodes["node"].columns["x"], torch.stack([edges.src, edges.dst]).long())
    raw = tables.nodes["node"].raw_id
    assert raw is not None
    order = raw.argsort()
    assert found["raw_ids"].tolist() == raw[order].tolist()
    np.testing.assert_allclose(found["embeddings"], rows[order], rtol=1e-4, atol=1e-5)
    assert found["predictions"].tolist() == model.head(rows)[order].argmax(dim=1).tolist()


@torch.no_grad()
def test_layers_on_several_types(tmp_path: Path) -> None:
    tables = scaled(typed({"user": 30, "item": 40}, RELATIONS, dim=3))
    torch.manual_seed(0)
    model = Model(hetero_layer({"user": 3, "item": 4}), hetero_layer({"user": 4, "item": 4}), target="item").eval()
    found = run(tables, model, tmp_path)
    assert set(found) == {"raw_ids", "embeddings"}
    edges = {key: torch.stack([table.src, table.dst]).long() for key, table in tables.edges.items()}
    rows = model({name: table.columns["x"] for name, table in tables.nodes.items()}, edges)["item"]
    raw = tables.nodes["item"].raw_id
    assert raw is not None
    np.testing.assert_allclose(found["embeddings"], rows[raw.argsort()], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:There exist node types:UserWarning")
@torch.no_grad()
def test_a_type_that_no_layer_writes_is_gone_after_the_first(tmp_path: Path) -> None:
    """Users get no messages here, so PyG's HeteroConv drops them."""
    relations = {("user", "buys", "item"): 90, ("item", "like", "item"): 60}
    tables = scaled(typed({"user": 30, "item": 40}, relations, dim=3))
    torch.manual_seed(0)
    first = HeteroConv({("user", "buys", "item"): SAGEConv((3, 4), 4), ("item", "like", "item"): SAGEConv(4, 4)}, aggr="sum")
    model = Model(first, HeteroConv({("item", "like", "item"): SAGEConv(4, 4)}), target="item").eval()
    found = run(tables, model, tmp_path)
    edges = {key: torch.stack([table.src, table.dst]).long() for key, table in tables.edges.items()}
    rows = model({name: table.columns["x"] for name, table in tables.nodes.items()}, edges)["item"]
    raw = tables.nodes["item"].raw_id
    assert raw is not None
    np.testing.assert_allclose(found["embeddings"], rows[raw.argsort()], rtol=1e-4, atol=1e-5)


def test_what_would_come_out_wrong_is_refused(tmp_path: Path) -> None:
    tables = scaled(power_law(60, 4, dim=5))
    for model, complaint in (
        (Model(Layer(GCNConv(5, 4))), r"layer 0 \(Layer\) .* looks further"),
        (Model(Layer(SAGEConv(5, 4)), Layer(SAGEConv(4, 4), GraphNorm(4))), r"layer 1 \(Layer\) .* looks further"),
        (nn.Linear(5, 4), "Linear has no `layers`"),
        (Model(), "Model has no `layers`"),
    ):
        with pytest.raises(InputError, match=complaint):
            run(tables, model, tmp_path)
    with pytest.raises(SchemaError, match="unknown node type 'paper'"):
        run(tables, Model(Layer(SAGEConv(5, 4)), target="paper"), tmp_path)


def test_nodes_without_features_need_inputs(tmp_path: Path) -> None:
    tables = power_law(40, 3)
    del tables.nodes["node"].columns["x"]
    with pytest.raises(InputError, match="no features `x`; give the model a method inputs"):
        run(tables, Model(Layer(SAGEConv(2, 4))), tmp_path)

    class Numbered(Model):
        def inputs(self, node_type: str, x: Tensor | None, raw_id: Tensor) -> Tensor:
            assert (node_type, x) == ("node", None)
            return torch.stack([raw_id, raw_id % 3], dim=1) / 40

    found = run(tables, Numbered(Layer(SAGEConv(2, 4))), tmp_path)
    assert found["embeddings"].shape == (40, 4)
    assert len(np.unique(found["embeddings"], axis=0)) > 30


@torch.no_grad()
def test_complex_features_keep_their_imaginary_part(tmp_path: Path) -> None:
    tables = scaled(power_law(40, 3, dim=2))
    x = torch.complex(tables.nodes["node"].columns["x"], torch.ones(40, 2))
    tables.nodes["node"].columns["x"] = x
    with pytest.raises(InputError, match=r"features `x` of \['node'\] are complex; give the model a method inputs"):
        run(tables, Model(Layer(SAGEConv(2, 4))), tmp_path)

    class Parts(Model):
        def inputs(self, node_type: str, x: Tensor | None, raw_id: Tensor) -> Tensor:
            assert x is not None
            return torch.view_as_real(x).flatten(1)

    assert run(tables, Parts(Layer(SAGEConv(4, 4))), tmp_path)["embeddings"].shape == (40, 4)
