"""Layers beside DGL's own in one process: initial values of one seed, and results with exchanged weights."""

from typing import Any

import pytest
import torch
from torch import nn

from halohop import dgl
from halohop.errors import InputError
from tests.support.dgl_layers import SHAPES, ends_of, filled, graph_of, made_alike, same_results
from tests.support.real_dgl import real_dgl

pytestmark = pytest.mark.filterwarnings("ignore:The input graph for the user-defined edge function")  # DGL's, without edges


@pytest.fixture(scope="module", name="theirs")
def _theirs() -> Any:
    return real_dgl()


def rows(shape: str, width: int | tuple[int, int], *middle: int, pair: bool | None = None) -> Any:
    """Rows for a graph: one tensor, or a pair where the ends are of two kinds."""
    num_src, num_dst, _, is_block = SHAPES[shape]
    widths = (width, width) if isinstance(width, int) else width
    torch.manual_seed(5)
    there, here = torch.randn(num_src, *middle, widths[0]), torch.randn(num_dst, *middle, widths[1])
    alone = not isinstance(width, tuple) and (is_block or num_src == num_dst) and not pair
    return there if alone and num_src >= num_dst else (there, here)


def weights(shape: str, ends: Any = None) -> torch.Tensor:
    torch.manual_seed(6)
    return torch.rand(len((ends_of(shape) if ends is None else ends)[0])) + 0.5


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["mean", "gcn", "pool", "lstm"])
@pytest.mark.parametrize("width", [3, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_sage(theirs: Any, shape: str, kind: str, width: int, weighted: bool) -> None:
    options: dict[str, Any] = {"bias": not weighted, "norm": nn.LayerNorm(4) if weighted else None, "activation": torch.tanh}
    ours_and_theirs = made_alike(
        lambda: dgl.nn.SAGEConv(width, 4, kind, **options), lambda: theirs.nn.SAGEConv(width, 4, kind, **options)
    )
    graphs = graph_of(dgl, shape), graph_of(theirs, shape)
    gradients = "without edges" not in shape or kind != "pool"  # DGL gives source 0 those of maxima of nothing
    same_results(*ours_and_theirs, graphs, rows(shape, width), *([weights(shape)] if weighted else []), gradients=gradients)


@pytest.mark.parametrize("shape", ["two kinds of nodes", "block"])
@pytest.mark.parametrize("kind", ["mean", "pool", "lstm"])
def test_sage_of_two_widths(theirs: Any, shape: str, kind: str) -> None:
    layers = made_alike(lambda: dgl.nn.SAGEConv((5, 3), 4, kind), lambda: theirs.nn.SAGEConv((5, 3), 4, kind))
    same_results(*layers, (graph_of(dgl, shape), graph_of(theirs, shape)), rows(shape, (5, 3)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("norm", ["both", "right", "left", "none"])
@pytest.mark.parametrize("width", [3, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_graphconv(theirs: Any, shape: str, norm: str, width: int, weighted: bool) -> None:
    options: dict[str, Any] = {"norm": norm, "allow_zero_in_degree": True, "bias": weighted, "activation": torch.tanh}
    layers = made_alike(lambda: dgl.nn.GraphConv(width, 4, **options), lambda: theirs.nn.GraphConv(width, 4, **options))
    options = {"edge_weight": weights(shape)} if weighted else {}
    same_results(*layers, (graph_of(dgl, shape), graph_of(theirs, shape)), rows(shape, width), **options)


def test_graphconv_without_a_matrix_or_with_one_from_outside(theirs: Any) -> None:
    shape = "block"
    graphs = graph_of(dgl, shape), graph_of(theirs, shape)
    options: dict[str, Any] = {"norm": "right", "weight": False, "bias": False, "allow_zero_in_degree": True}
    layers = made_alike(lambda: dgl.nn.GraphConv(5, 4, **options), lambda: theirs.nn.GraphConv(5, 4, **options))
    same_results(*layers, graphs, rows(shape, 5))
    same_results(*layers, graphs, rows(shape, 5), torch.randn(5, 4))
    same_results(*layers, graphs, rows(shape, 5, 3, 2), torch.randn(5, 4))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("width", [6, 5])
def test_gat(theirs: Any, shape: str, residual: bool, width: int) -> None:
    options: dict[str, Any] = {"residual": residual, "allow_zero_in_degree": True, "activation": torch.tanh, "bias": width == 6}
    graphs = graph_of(dgl, shape), graph_of(theirs, shape)
    layers = made_alike(lambda: dgl.nn.GATConv(width, 3, 2, **options), lambda: theirs.nn.GATConv(width, 3, 2, **options))
    same_results(*layers, graphs, rows(shape, width), get_attention=True)
    same_results(*layers, graphs, rows(shape, width, pair=True), weights(shape))
    layers = made_alike(
        lambda: dgl.nn.GATConv((width, 4), 3, 2, **options), lambda: theirs.nn.GATConv((width, 4), 3, 2, **options)
    )
    same_results(*layers, graphs, rows(shape, (width, 4)), get_attention=True)


@pytest.mark.parametrize("shape", ["graph", "block"])
def test_gat_of_rows_with_more_dimensions(theirs: Any, shape: str) -> None:
    ends = filled(ends_of(shape), shape)
    layers = made_alike(lambda: dgl.nn.GATConv(5, 3, 2, residual=True), lambda: theirs.nn.GATConv(5, 3, 2, residual=True))
    graphs = graph_of(dgl, shape, ends), graph_of(theirs, shape, ends)
    same_results(*layers, graphs, rows(shape, 5, 4), get_attention=True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("share", [False, True])
def test_gatv2(theirs: Any, shape: str, residual: bool, share: bool) -> None:
    options: dict[str, Any] = {"residual": residual, "allow_zero_in_degree": True, "share_weights": share, "bias": residual}
    graphs = graph_of(dgl, shape), graph_of(theirs, shape)
    layers = made_alike(lambda: dgl.nn.GATv2Conv(5, 3, 2, **options), lambda: theirs.nn.GATv2Conv(5, 3, 2, **options))
    same_results(*layers, graphs, rows(shape, 5), get_attention=True)
    same_results(*layers, graphs, rows(shape, 5, pair=True))
    if not share:
        layers = made_alike(
            lambda: dgl.nn.GATv2Conv((5, 6), 3, 2, **options), lambda: theirs.nn.GATv2Conv((5, 6), 3, 2, **options)
        )
        same_results(*layers, graphs, rows(shape, (5, 6)), get_attention=True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
@pytest.mark.parametrize("weighted", [False, True])
def test_gin(theirs: Any, shape: str, kind: str, weighted: bool) -> None:
    graphs = graph_of(dgl, shape), graph_of(theirs, shape)
    layers = made_alike(
        lambda: dgl.nn.GINConv(nn.Linear(5, 3), kind, 0.5, weighted),
        lambda: theirs.nn.GINConv(nn.Linear(5, 3), kind, 0.5, weighted),
    )
    gradients = "without edges" not in shape or kind != "max"
    same_results(*layers, graphs, rows(shape, 5), *([weights(shape)] if weighted else []), gradients=gradients)
    layers = made_alike(
        lambda: dgl.nn.GINEConv(nn.Linear(5, 3), 0.5, weighted), lambda: theirs.nn.GINEConv(nn.Linear(5, 3), 0.5, weighted)
    )
    same_results(*layers, graphs, rows(shape, 5), torch.randn(len(weights(shape)), 5))


@pytest.mark.parametrize("shape", ["graph", "block", "block of one node", "block without edges", "graph without edges"])
@pytest.mark.parametrize(("regularizer", "bases"), [(None, None), ("basis", 2), ("basis", None), ("bdd", 2)])
@pytest.mark.parametrize("plain", [False, True])
def test_relgraphconv(theirs: Any, shape: str, regularizer: str | None, bases: int | None, plain: bool) -> None:
    options: dict[str, Any] = {"regularizer": regularizer, "num_bases": bases, "bias": not plain, "self_loop": not plain}
    options |= {"layer_norm": not plain, "activation": None if plain else torch.tanh}
    ends = ends_of(shape)
    types = torch.randint(5, (len(ends[0]),))  # one relation of six has no edges
    layers = made_alike(lambda: dgl.nn.RelGraphConv(8, 4, 6, **options), lambda: theirs.nn.RelGraphConv(8, 4, 6, **options))
    if not len(types) and regularizer == "bdd":
        return  # DGL's own fails to shape no rows
    graphs = graph_of(dgl, shape), graph_of(theirs, shape)
    same_results(*layers, graphs, rows(shape, 8), types, *([] if plain else [weights(shape).unsqueeze(1)]))


def test_relgraphconv_of_sorted_types(theirs: Any) -> None:
    ends = ends_of("graph")
    types = torch.randint(3, (len(ends[0]),)).sort().values
    layers = made_alike(lambda: dgl.nn.RelGraphConv(8, 4, 3), lambda: theirs.nn.RelGraphConv(8, 4, 3))
    same_results(*layers, (graph_of(dgl, "graph"), graph_of(theirs, "graph")), rows("graph", 8), types, presorted=True)


@pytest.mark.parametrize(("regularizer", "bases"), [(None, None), ("basis", 2), ("bdd", 2)])
def test_typed_linear(theirs: Any, regularizer: str | None, bases: int | None) -> None:
    layers = made_alike(
        lambda: dgl.nn.TypedLinear(8, 4, 5, regularizer, bases), lambda: theirs.nn.TypedLinear(8, 4, 5, regularizer, bases)
    )
    x, types = torch.randn(20, 8), torch.randint(5, (20,))
    for layer in layers:
        layer.forward = lambda _, x, types, layer=layer: type(layer).forward(layer, x, types)  # type: ignore[method-assign]
    same_results(*layers, (None, None), x, types)
    assert layers[0].get_weight().shape == layers[1].get_weight().shape  # type: ignore[operator]


def test_weight_basis(theirs: Any) -> None:
    ours, original = made_alike(lambda: dgl.nn.WeightBasis((4, 3), 2, 5), lambda: theirs.nn.WeightBasis((4, 3), 2, 5))
    torch.testing.assert_close(ours(), original())


def test_zero_in_degrees_are_refused_where_dgl_refuses(theirs: Any) -> None:
    for make in (
        lambda of: of.nn.GraphConv(4, 2),
        lambda of: of.nn.GATConv(4, 2, 1),
        lambda of: of.nn.GATv2Conv(4, 2, 1),
    ):
        for shape in ("graph", "block"):
            ends = ends_of(shape)
            ends = ends[0][ends[1] != 2], ends[1][ends[1] != 2]
            assert not bool((filled(ends, shape)[1].bincount() < 1).any())
            for of, error in ((dgl, InputError), (theirs, theirs.DGLError)):
                with pytest.raises(error, match=r"0-in-degree|1 of .* nodes have no in-edges.*allow_zero_in_degree"):
                    make(of)(graph_of(of, shape, ends), rows(shape, 4))
                make(of)(graph_of(of, shape, filled(ends, shape)), rows(shape, 4))


@pytest.mark.parametrize("norm_by", ["dst", "src"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("width", [(), (1,), (3, 1), (2, 3, 1)])
def test_edge_softmax(theirs: Any, norm_by: str, shape: str, width: tuple[int, ...]) -> None:
    graphs = graph_of(dgl, shape), graph_of(theirs, shape)
    logits = torch.randn(len(ends_of(shape)[0]), *width)
    if not len(logits) or not width:
        ours = dgl.nn.functional.edge_softmax(graphs[0], logits, norm_by=norm_by)
        assert ours.shape == logits.shape
        return  # DGL's takes at least one more dimension, and some edges
    found = []
    for of, graph in zip((dgl, theirs), graphs, strict=True):
        leaf = logits.clone().requires_grad_()
        out = of.nn.functional.edge_softmax(graph, leaf, norm_by=norm_by)
        (out * logits.cos()).sum().backward()
        some = torch.arange(0, len(logits), 2)
        found.append((out, leaf.grad, of.nn.functional.edge_softmax(graph, logits[some], eids=some, norm_by=norm_by)))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)
