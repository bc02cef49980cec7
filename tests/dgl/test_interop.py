"""Graphs and blocks as PyG's and as real DGL's."""

from typing import Any

import pytest
import torch
from torch_geometric.nn import GATConv, SAGEConv

import halohop.dgl as dgl
from halohop.errors import InputError
from halohop.nn import hops
from tests.support.real_dgl import real_dgl

EDGES = (torch.tensor([3, 1, 0, 2, 2]), torch.tensor([0, 0, 1, 1, 0]))


def block() -> dgl.DGLBlock:
    b = dgl.create_block(EDGES, 4, 2)
    b.srcdata["x"], b.dstdata["y"], b.edata["w"] = torch.randn(4, 3), torch.tensor([5, 6]), torch.arange(5.0)
    b.srcdata[dgl.NID], b.edata[dgl.EID] = torch.tensor([9, 8, 7, 6]), torch.arange(5) + 10
    return b


def test_a_layer_of_pyg_runs_on_a_block() -> None:
    b = block()
    data = b.to_pyg()
    assert (data.num_nodes, data.y.tolist(), data.n_id.tolist(), data.e_id.tolist()) == (
        4,
        [5, 6],
        [9, 8, 7, 6],
        [10, 11, 12, 13, 14],
    )
    conv = SAGEConv(3, 2)
    out = conv((data.x, data.x[:2]), data.edge_index)
    ours = dgl.nn.SAGEConv(3, 2, "mean", bias=False)
    ours.fc_neigh.weight, ours.fc_self.weight = conv.lin_l.weight, conv.lin_r.weight
    torch.testing.assert_close(ours(b, b.srcdata["x"]) + conv.lin_l.bias, out)
    [hop] = hops(data)
    assert (hop.num_src, hop.num_dst, hop.src.tolist(), hop.of_edges(data.w).tolist()) == (4, 2, [3, 1, 2, 0, 2], [0, 1, 4, 2, 3])


def test_a_typed_block_is_a_batch_of_several_types() -> None:
    b = dgl.create_block({("a", "to", "b"): EDGES, ("b", "of", "b"): ([2, 1], [0, 1])}, {"a": 4, "b": 3}, {"b": 2})
    b.srcnodes["a"].data["x"], b.srcnodes["b"].data["x"] = torch.randn(4, 3), torch.randn(3, 3)
    data = b.to_pyg()
    assert {kind: data[kind].num_sampled_nodes for kind in ("a", "b")} == {"a": [0, 4], "b": [2, 1]}
    [hop] = hops(data)
    assert hop["a", "to", "b"].num_dst == 2
    out = GATConv((3, 3), 2, add_self_loops=False)((data["a"].x, data["b"].x[:2]), data["a", "to", "b"].edge_index)
    assert out.shape == (2, 2)


def test_without_dgl_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "dgl", None)
    with pytest.raises(InputError, match="real DGL cannot be imported"):
        block().to_dgl()


def columns(frame: Any) -> Any:
    return {name: rows.tolist() for name, rows in frame.items()}


def test_a_block_of_real_dgl() -> None:
    real_dgl()
    b = block()
    theirs = b.to_dgl()
    assert (theirs.is_block, theirs.num_src_nodes(), theirs.num_dst_nodes()) == (True, 4, 2)
    assert [ids.tolist() for ids in theirs.edges()] == [ids.tolist() for ids in b.edges()]
    for name in ("srcdata", "dstdata", "edata"):
        assert columns(getattr(theirs, name)) == columns(getattr(b, name))


def test_a_graph_of_real_dgl() -> None:
    real_dgl()
    g = dgl.heterograph({("a", "to", "b"): EDGES, ("b", "of", "b"): ([2, 1], [0, 1])}, {"a": 4, "b": 3, "c": 0}).int()
    g.nodes["b"].data["x"], g.edges["of"].data["w"] = torch.ones(3), torch.ones(2)
    theirs = g.to_dgl()
    assert (theirs.ntypes, theirs.canonical_etypes, theirs.idtype) == (g.ntypes, g.canonical_etypes, torch.int32)
    assert columns(theirs.nodes["b"].data) == {"x": [1, 1, 1]}
    assert columns(theirs.edges["of"].data) == {"w": [1, 1]}
    assert [ids.tolist() for ids in theirs.edges(etype="to")] == [ids.tolist() for ids in g.edges(etype="to")]
