"""Graphs made of graphs, beside DGL's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import halohop.dgl as dgl
from halohop.errors import InputError
from tests.support.real_dgl import real_dgl

real = real_dgl()


def one(module: Any, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    src, dst = (torch.randint(6, (seed * 4,), generator=generator) for _ in range(2))
    g = module.graph((src, dst), num_nodes=7)
    g.ndata["x"], g.edata["w"] = torch.arange(7.0), torch.arange(4.0 * seed)
    g.edata["k"] = torch.arange(8.0 * seed).view(-1, 2)
    return g


def several(module: Any, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    ends = {
        relation: tuple(torch.randint(5, (seed * 2,), generator=generator) for _ in range(2))
        for relation in [("u", "f", "u"), ("u", "p", "i"), ("i", "s", "i")]
    }
    g = module.heterograph(ends, {"u": 5, "i": 6})
    g.nodes["u"].data["x"], g.nodes["i"].data["x"] = torch.arange(5.0), torch.arange(6.0) + 10
    g.edges["f"].data["w"] = torch.arange(2.0 * seed)
    return g


def described(g: Any) -> Any:
    """Everything that is to be equal."""
    nodes = {kind: {name: rows.tolist() for name, rows in g.nodes[kind].data.items()} for kind in g.ntypes}
    edges = {
        relation: (
            [ends.tolist() for ends in g.edges(etype=relation)],
            {n: r.tolist() for n, r in g.edges[relation].data.items()},
        )
        for relation in g.canonical_etypes
    }
    return {kind: g.num_nodes(kind) for kind in g.ntypes}, nodes, edges, g.idtype


ONE: list[Callable[[Any, Any], Any]] = [
    lambda m, g: m.add_self_loop(g),
    lambda m, g: m.add_self_loop(g, ["w"], 5.0),
    lambda m, g: m.add_self_loop(g, fill_data="sum"),
    lambda m, g: m.add_self_loop(g, ["k"], "max"),
    lambda m, g: m.remove_self_loop(g),
    lambda m, g: m.reverse(g),
    lambda m, g: m.reverse(g, copy_ndata=False, copy_edata=True),
    lambda m, g: m.to_bidirected(g),
    lambda m, g: m.to_bidirected(g, copy_ndata=True),
    lambda m, g: m.add_reverse_edges(g),
    lambda m, g: m.add_reverse_edges(g, copy_ndata=False, copy_edata=True, exclude_self=False),
    lambda m, g: m.add_self_loop(m.remove_self_loop(g.int())),
    lambda m, g: g.remove_self_loop().add_self_loop().reverse(),
    lambda m, g: g.subgraph([5, 0, 3, 6]),
    lambda m, g: g.int().subgraph(g.ndata["x"] > 2),
    lambda m, g: g.subgraph([5, 0, 3], relabel_nodes=False),
    lambda m, g: m.node_subgraph(g, [0, 3, 2], store_ids=False),
    lambda m, g: m.node_subgraph(g, torch.zeros(0, dtype=torch.int64)),
    lambda m, g: g.edge_subgraph(g.edata["w"] % 3 == 0),
    lambda m, g: m.edge_subgraph(g.int(), torch.arange(g.num_edges() // 2, dtype=torch.int32)),
    lambda m, g: m.edge_subgraph(g, torch.arange(g.num_edges()).flip(0), store_ids=False),
]
SEVERAL: list[Callable[[Any, Any], Any]] = [
    lambda m, g: m.add_self_loop(g, etype="f"),
    lambda m, g: m.remove_self_loop(g, etype="s"),
    lambda m, g: m.reverse(g, copy_edata=True),
    lambda m, g: m.add_reverse_edges(g, ignore_bipartite=True),
    lambda m, g: m.to_homogeneous(g),
    lambda m, g: m.to_homogeneous(g, ndata=["x"]),
    lambda m, g: g.subgraph({"u": [4, 0, 2], "i": torch.arange(6) > 2}),
    lambda m, g: g.subgraph({"u": [4, 0, 2]}),
    lambda m, g: g.edge_subgraph({"p": [1, 0], "f": g.edges["f"].data["w"] > 0}),
    lambda m, g: m.edge_subgraph(g, {"s": [0]}, relabel_nodes=False),
    lambda m, g: g.edge_type_subgraph(["f", ("u", "p", "i")]),
    lambda m, g: m.edge_type_subgraph(g, ["s"]),
    lambda m, g: g["u", :, "i"],
]


@pytest.mark.parametrize("seed", [0, 1, 3])
@pytest.mark.parametrize("change", ONE)
def test_one_type(change: Callable[[Any, Any], Any], seed: int) -> None:
    assert described(change(dgl, one(dgl, seed))) == described(change(real, one(real, seed)))


@pytest.mark.parametrize("seed", [1, 3])  # DGL makes no graph of one type where there is no edge
@pytest.mark.parametrize("change", SEVERAL)
def test_several_types(change: Callable[[Any, Any], Any], seed: int) -> None:
    assert described(change(dgl, several(dgl, seed))) == described(change(real, several(real, seed)))


@pytest.mark.parametrize("name", ["add_self_loop", "to_bidirected", "add_reverse_edges"])
def test_relations_between_types_are_refused_by_both(name: str) -> None:
    edges = {("u", "p", "i"): ([0], [0])}
    with pytest.raises(InputError, match=f"{name} is for edges within one type"):
        getattr(dgl, name)(dgl.heterograph(edges))
    with pytest.raises((AssertionError, real.DGLError)):
        getattr(real, name)(real.heterograph(edges))
