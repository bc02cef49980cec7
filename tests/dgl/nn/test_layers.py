"""Layers under DGL's names against plain formulas of torch, an edge at a time, and what they refuse."""

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from halohop import dgl
from halohop.dgl.names import WORKS
from halohop.errors import InputError
from tests.support.dgl_layers import SHAPES, ends_of, graph_of


def sums(ends: Any, rows: Tensor, num_dst: int) -> Tensor:
    """One row for each edge, added to that of its destination."""
    return rows.new_zeros(num_dst, *rows.shape[1:]).index_add(0, ends[1], rows)


def degrees(ends: Any, side: int, number: int) -> Tensor:
    return torch.bincount(ends[side], minlength=number).double()


def softmax(ends: Any, scores: Tensor, num_dst: int) -> Tensor:
    shares = torch.zeros_like(scores)
    for node in range(num_dst):
        shares[ends[1] == node] = scores[ends[1] == node].softmax(0)
    return shares


def case(shape: str, width: int = 5) -> tuple[Any, Any, Tensor, Tensor, Tensor]:
    """A graph, its ends, rows of both, and a number for each edge, in float64."""
    torch.manual_seed(0)
    num_src, num_dst, num_edges, _ = SHAPES[shape]
    there, here = torch.randn(num_src, width).double(), torch.randn(num_dst, width).double()
    return graph_of(dgl, shape), ends_of(shape), there, here, torch.rand(num_edges).double() + 0.5


def drawn(layer: nn.Module) -> Any:
    """In float64, with no bias of 0."""
    layer.double()
    with torch.no_grad():
        for values in layer.parameters():
            values.normal_()
    return layer


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["mean", "gcn", "pool", "lstm"])
def test_sage(shape: str, kind: str) -> None:
    graph, ends, there, here, weight = case(shape)
    conv = drawn(dgl.nn.SAGEConv(5, 3, kind))
    out = conv(graph, (there, here), weight)
    rows = F.relu(conv.fc_pool(there)) if kind == "pool" else there
    messages = rows[ends[0]] * weight[:, None]
    for node in range(len(here)):
        mine = messages[ends[1] == node]
        if kind == "gcn":
            expected = conv.fc_neigh((mine.sum(0) + here[node]) / (1 + len(mine))) + conv.bias
        else:
            reduced = torch.zeros(5).double()
            if len(mine):
                reduced = conv.lstm(mine)[1][0][0] if kind == "lstm" else mine.mean(0) if kind == "mean" else mine.max(0).values
            expected = conv.fc_neigh(reduced) + conv.fc_self(here[node])
        torch.testing.assert_close(out[node], expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("norm", ["both", "right", "left", "none"])
def test_graphconv(shape: str, norm: str) -> None:
    graph, ends, there, here, weight = case(shape)
    conv = drawn(dgl.nn.GraphConv(5, 3, norm=norm, allow_zero_in_degree=True))
    out_degree = degrees(ends, 0, len(there)).clamp(min=1)[:, None]
    in_degree = degrees(ends, 1, len(here)).clamp(min=1)[:, None]
    there_by = {"both": out_degree**-0.5, "left": 1 / out_degree}.get(norm, torch.ones_like(out_degree))
    here_by = {"both": in_degree**-0.5, "right": 1 / in_degree}.get(norm, torch.ones_like(in_degree))
    expected = sums(ends, (there * there_by)[ends[0]] * weight[:, None], len(here)) * here_by @ conv.weight + conv.bias
    torch.testing.assert_close(conv(graph, (there, here), edge_weight=weight), expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("second", [False, True])
def test_attention(shape: str, second: bool) -> None:
    graph, ends, there, here, _ = case(shape)
    kind = dgl.nn.GATv2Conv if second else dgl.nn.GATConv
    conv = drawn(kind((5, 5), 3, 2, residual=True, allow_zero_in_degree=True))
    out, attention = conv(graph, (there, here), get_attention=True)
    left, right = (lin(rows).view(-1, 2, 3) for lin, rows in ((conv.fc_src, there), (conv.fc_dst, here)))
    if second:
        scores = (F.leaky_relu(left[ends[0]] + right[ends[1]], 0.2) * conv.attn).sum(-1)
    else:
        scores = F.leaky_relu((left * conv.attn_l).sum(-1)[ends[0]] + (right * conv.attn_r).sum(-1)[ends[1]], 0.2)
    shares = softmax(ends, scores, len(here))
    torch.testing.assert_close(attention, shares.unsqueeze(-1))
    expected = sums(ends, left[ends[0]] * shares.unsqueeze(-1), len(here)) + conv.res_fc(here).view(-1, 2, 3)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("shape", ["graph", "block", "block without edges"])
@pytest.mark.parametrize("regularizer", [None, "basis", "bdd"])
def test_relgraphconv(shape: str, regularizer: str | None) -> None:
    graph, ends, there, here, weight = case(shape, 6)
    types = torch.randint(4, weight.shape)
    conv = drawn(dgl.nn.RelGraphConv(6, 4, 5, regularizer, 2, layer_norm=True))
    matrices = conv.linear_r.get_weight()
    if regularizer == "bdd":
        matrices = torch.stack([torch.block_diag(*blocks) for blocks in matrices.view(5, 2, 3, 2)])
    messages = torch.einsum("ei,eio->eo", there[ends[0]], matrices[types]) * weight[:, None]
    expected = conv.layer_norm_weight(sums(ends, messages, len(here))) + conv.h_bias + there[: len(here)] @ conv.loop_weight
    torch.testing.assert_close(conv(graph, there, types, weight), expected)
    torch.testing.assert_close(conv(graph, there, types.tolist(), weight[:, None]), expected)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12),
    st.sampled_from(["mean", "gcn", "pool", "lstm", "gat", "gatv2", "graphconv", "gin"]),
    st.sampled_from([torch.int64, torch.int32]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=30, deadline=None)
def test_the_order_of_edges_says_nothing(edges: list[tuple[int, int]], kind: str, idtype: torch.dtype, shuffle: Any) -> None:
    """But that of the LSTM within a node; results for edges go with them."""
    torch.manual_seed(1)
    conv = drawn(made(kind))
    order = list(range(len(edges)))
    shuffle.shuffle(order)
    if kind == "lstm":
        order.sort(key=lambda place: (edges[place][1], place))
    there, here = torch.randn(5, 4).double(), torch.randn(4, 4).double()
    outs, attention = [], []
    for places in (list(range(len(edges))), order):
        ends = torch.tensor([edges[place] for place in places], dtype=idtype).reshape(-1, 2)
        graph = dgl.create_block((ends[:, 0], ends[:, 1]), num_src_nodes=5, num_dst_nodes=4)
        outs.append(conv(graph, (there, here)))
        if kind.startswith("gat"):
            attention.append(conv(graph, (there, here), get_attention=True)[1])
    torch.testing.assert_close(*outs)
    if attention:
        torch.testing.assert_close(attention[0][order], attention[1])


def made(kind: str) -> nn.Module:
    if kind in ("gat", "gatv2"):
        return (dgl.nn.GATConv if kind == "gat" else dgl.nn.GATv2Conv)(4, 2, 3, allow_zero_in_degree=True)
    if kind == "graphconv":
        return dgl.nn.GraphConv(4, 3, allow_zero_in_degree=True)
    return dgl.nn.GINConv(nn.Linear(4, 3)) if kind == "gin" else dgl.nn.SAGEConv(4, 3, kind)


KINDS = ["mean", "gcn", "pool", "lstm", "gat", "gatv2", "graphconv", "gin"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_dtype(kind: str, dtype: torch.dtype) -> None:
    graph, _, there, _, weight = case("block", 4)
    weight = weight.float().double()
    conv = drawn(made(kind))
    with_weights = kind not in ("gatv2", "graphconv")
    expected = conv(graph, there, *([weight] if with_weights else []))
    rows = there.to(dtype).requires_grad_()
    out = conv.to(dtype)(graph, rows, *([weight.float()] if with_weights else []))
    assert out.dtype == dtype
    out.sum().backward()
    assert rows.grad is not None
    assert rows.grad.dtype == dtype
    near = {torch.float16: 5e-2, torch.bfloat16: 0.4, torch.float32: 1e-4, torch.float64: 1e-9}[dtype]
    torch.testing.assert_close(out.double(), expected, rtol=near, atol=near)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("lstm", "gatv2")])
def test_rows_with_more_dimensions_are_rows_side_by_side(kind: str) -> None:
    graph, _, there, _, _ = case("block", 4)
    conv = drawn(made(kind))
    apart = [there, there.square(), there.cos()]
    expected = torch.stack([conv(graph, rows) for rows in apart], dim=1)
    torch.testing.assert_close(conv(graph, torch.stack(apart, dim=1)), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_copies_and_files(kind: str) -> None:
    graph, _, there, _, _ = case("block", 4)
    conv = made(kind)
    expected = conv(graph, there.float())
    for other in (copy.deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        assert torch.equal(other(graph, there.float()), expected)
    with torch.autocast("cpu", torch.bfloat16):
        out = conv(graph, there.float())
        out.float().sum().backward()
    torch.testing.assert_close(out.float(), expected, rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_do_not_fit_are_refused(kind: str) -> None:
    graph, ends, there, here, _ = case("block", 4)
    conv = made(kind).double()
    for rows, said in (
        (there[:-1], "13 rows for the 14 sources"),
        ((there, there), "14 rows for the 6 destinations"),
        ((there[:6], here), "6 rows for the 14 sources"),
        (there.long(), "torch.int64"),
        ([there, here], "rows are list"),
        ({"_N": there}, "rows are dict"),
        ((there, None), "rows are NoneType"),
    ):
        with pytest.raises(InputError, match=said):
            conv(graph, rows)
    if kind != "gin":
        with pytest.raises(InputError, match="3 columns"):
            conv(graph, there[:, :3])
    likes = graph_of(dgl, "two kinds of nodes")
    with pytest.raises(InputError, match="9 nodes to 7 of another kind"):
        conv(likes, torch.randn(9, 4).double())
    if kind not in ("gatv2", "graphconv"):
        with pytest.raises(InputError, match=f"for {len(ends[0])} edges"):
            conv(graph, there, torch.ones(3))


def test_what_cannot_work_is_refused() -> None:
    graph = graph_of(dgl, "block")
    for call, said in (
        (lambda: dgl.nn.SAGEConv(4, 2, "sum"), "aggregator_type='sum'"),
        (lambda: dgl.nn.SAGEConv((4, 3), 2, "gcn"), "4 and 3 columns"),
        (lambda: dgl.nn.SAGEConv((4, 3), 2, "mean")(graph, torch.ones(14, 4)), "is given one tensor"),
        (lambda: dgl.nn.GraphConv(4, 2, norm="up"), "norm='up'"),
        (lambda: dgl.nn.GraphConv(4, 2)(graph, torch.ones(14, 4), weight=torch.ones(4, 2)), "weight=False"),
        (lambda: dgl.nn.GATConv(4, 2, 0), "num_heads=0"),
        (lambda: dgl.nn.GATv2Conv(4, 2, 0), "num_heads=0"),
        (lambda: dgl.nn.GATv2Conv((4, 3), 2, 1, share_weights=True), "leave share_weights out"),
        (lambda: dgl.nn.GINConv(None, "min"), "aggregator_type='min'"),
        (lambda: dgl.nn.TypedLinear(4, 2, 3, "both"), "regularizer='both'"),
        (lambda: dgl.nn.TypedLinear(4, 2, 3, "basis"), "needs num_bases"),
        (lambda: dgl.nn.TypedLinear(4, 3, 3, "bdd", 2), "does not divide 4 and 3"),
        (lambda: dgl.nn.RelGraphConv(4, 2, 3)(graph, torch.ones(14, 4), torch.full((50,), 3)), "0 .. 2"),
        (lambda: dgl.nn.RelGraphConv(4, 2, 3)(graph, torch.ones(14, 4), torch.zeros(49)), "49 rows for the 50 edges"),
        (lambda: dgl.nn.HeteroGraphConv({}, "median"), "aggregate='median'"),
        (lambda: dgl.nn.HeteroGraphConv({"x": dgl.nn.GraphConv(4, 2)})(graph, {"_N": torch.ones(14, 4)}), "has no layer"),
        (lambda: dgl.nn.EdgeWeightNorm(), "gcn_norm"),
        (lambda: dgl.nn.edge_softmax(graph, torch.ones(50, 1), norm_by="both"), "norm_by='both'"),
        (lambda: dgl.nn.edge_softmax(graph, torch.ones(49, 1)), "49 rows for the 50 edges"),
    ):
        with pytest.raises(InputError, match=said):
            call()


def test_a_layer_in_place_of_a_product_is_called() -> None:
    """A product that is replaced, as adapters do, is called for the scores, too."""

    class Twice(nn.Linear):
        def forward(self, rows: Tensor) -> Tensor:
            return 2 * super().forward(rows)

    graph, _, there, _, _ = case("block", 4)
    conv = drawn(made("gat"))
    doubled = copy.deepcopy(conv)
    with torch.no_grad():
        doubled.fc.weight.mul_(2)
    conv.fc.__class__ = Twice
    torch.testing.assert_close(conv(graph, there), doubled(graph, there))


def test_the_older_names_of_modules() -> None:
    import halohop.dgl.nn.pytorch as older
    from halohop.dgl.nn.pytorch.hetero import get_aggregate_fn

    assert older.SAGEConv is dgl.nn.SAGEConv
    assert older.edge_softmax is dgl.nn.functional.edge_softmax
    assert get_aggregate_fn("max")([torch.tensor([1.0]), torch.tensor([2.0])], "item").tolist() == [2.0]


def test_layers_that_are_lacking_name_what_takes_their_place() -> None:
    with pytest.raises(InputError, match=r"nn\.HGTConv of DGL is not offered: torch_geometric.nn"):
        dgl.nn.HGTConv(4, 2, 1)
    with pytest.raises(AttributeError, match="no attribute 'NoConv'"):
        dgl.nn.NoConv  # noqa: B018
    assert all(name in dgl.nn.__all__ for name in WORKS["nn"])


@pytest.mark.parametrize("name", ["is.of", "to", "training", "hex_61"])
def test_relations_of_any_name_have_layers(name):
    g = dgl.heterograph({("user", name, "item"): ([0, 1], [0, 0]), ("item", "by", "user"): ([0], [1])})
    x = {"user": torch.ones(2, 4), "item": torch.ones(1, 4)}
    torch.manual_seed(0)
    layers = {kind: dgl.nn.GraphConv(4, 2, norm="right") for kind in (name, "by")}
    by_triple = dgl.nn.HeteroGraphConv({etype: layers[etype[1]] for etype in g.canonical_etypes})
    found, again = dgl.nn.HeteroGraphConv(layers)(g, x), by_triple(g, x)
    assert torch.equal(found["item"], layers[name](g[name], (x["user"], x["item"])))
    assert torch.equal(found["item"], again["item"])
    assert "mods.by.weight" in dgl.nn.HeteroGraphConv(layers).state_dict()
