"""Layers on the blocks of loaders: with all neighbours, what a model gives seeds is what it gives them on the whole graph."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from halohop import dgl


class Stack(nn.Module):
    """Layers, one to each block, or all on one graph."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, graphs: list[Any], rows: Any) -> Any:
        for layer, graph in zip(self.layers, graphs, strict=True):
            rows = layer(graph, rows)
            rows = {kind: made.flatten(1) for kind, made in rows.items()} if isinstance(rows, dict) else rows.flatten(1)
        return rows


def layers_of(kind: str) -> list[nn.Module]:
    if kind == "gat":
        return [dgl.nn.GATConv(4, 3, 2), dgl.nn.GATConv(6, 5, 1)]
    if kind == "gatv2":
        return [dgl.nn.GATv2Conv(4, 3, 2), dgl.nn.GATv2Conv(6, 5, 1)]
    if kind == "right":
        return [dgl.nn.GraphConv(4, 3, norm="right"), dgl.nn.GraphConv(3, 5, norm="right")]
    if kind == "gin":
        return [dgl.nn.GINConv(nn.Linear(4, 3)), dgl.nn.GINConv(nn.Linear(3, 5))]
    return [dgl.nn.SAGEConv(4, 3, kind), dgl.nn.SAGEConv(3, 5, kind)]


@pytest.mark.parametrize("kind", ["mean", "gcn", "pool", "gat", "gatv2", "right", "gin"])
def test_seeds_have_the_rows_of_the_whole_graph(kind: str) -> None:
    torch.manual_seed(0)
    nodes = torch.arange(40)
    g = dgl.graph((torch.cat([torch.randint(40, (150,)), nodes]), torch.cat([torch.randint(40, (150,)), nodes])))
    g.ndata["x"] = torch.randn(40, 4)
    model = Stack(layers_of(kind))
    whole = model([g, g], g.ndata["x"])
    sampler = dgl.dataloading.MultiLayerFullNeighborSampler(2)
    seen = []
    for input_nodes, output_nodes, blocks in dgl.dataloading.DataLoader(g, nodes[::2], sampler, batch_size=7):
        torch.testing.assert_close(model(blocks, g.ndata["x"][input_nodes]), whole[output_nodes], rtol=1e-4, atol=1e-5)
        seen.append(output_nodes)
    assert torch.cat(seen).tolist() == nodes[::2].tolist()


def test_seeds_of_several_types_have_the_rows_of_the_whole_graph() -> None:
    torch.manual_seed(0)
    ends = {
        ("author", "writes", "paper"): (torch.randint(15, (60,)), torch.randint(20, (60,))),
        ("paper", "cites", "paper"): (torch.randint(20, (50,)), torch.randint(20, (50,))),
        ("paper", "written_by", "author"): (torch.randint(20, (40,)), torch.randint(15, (40,))),
    }
    g = dgl.heterograph(ends, num_nodes_dict={"author": 15, "paper": 20})
    rows = {kind: torch.randn(g.num_nodes(kind), 4) for kind in g.ntypes}

    def layer(width: int, out: int) -> nn.Module:
        kinds = {"writes": dgl.nn.SAGEConv((width, width), out, "mean"), "written_by": dgl.nn.GATConv(width, out, 1)}
        return dgl.nn.HeteroGraphConv({**kinds, "cites": dgl.nn.GraphConv(width, out, norm="right")}, flattened)

    def flattened(parts: list[Tensor], ntype: str) -> Tensor:
        return torch.stack([part.flatten(1) for part in parts]).sum(0)

    model = Stack([layer(4, 3), layer(3, 5)])
    whole = model([g, g], rows)
    sampler = dgl.dataloading.MultiLayerFullNeighborSampler(2)
    loader = dgl.dataloading.DataLoader(g, {"paper": torch.arange(20), "author": torch.arange(15)}, sampler, batch_size=6)
    batches = 0
    for input_nodes, output_nodes, blocks in loader:
        out = model(blocks, {kind: rows[kind][ids] for kind, ids in input_nodes.items()})
        for kind, ids in output_nodes.items():
            if len(ids):
                torch.testing.assert_close(out[kind], whole[kind][ids], rtol=1e-4, atol=1e-5)
        batches += 1
    assert batches == 6
