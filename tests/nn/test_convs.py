"""Layers over lists give what PyG's give: rows and gradients, for any edges, pairs of rows, and hops."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

from halohop.errors import InputError
from halohop.nn import GATConv, GCNConv, SAGEConv, fuse, hops
from halohop.nn.hops import grouped
from halohop.nn.layer import ListedConv
from halohop.nn.loops import with_loops
from tests.support.hop_batches import batch_of, made

WIDTH, NODES, EDGES = 6, 20, 90

LAYERS: dict[str, Callable[[Any], pyg.MessagePassing]] = {
    "sage": lambda width: pyg.SAGEConv(width, 8),
    "sage narrows": lambda width: pyg.SAGEConv(width, 1),
    "sage max": lambda width: pyg.SAGEConv(width, 4, aggr="max", normalize=True),
    "sage project": lambda width: pyg.SAGEConv(width, 4, aggr="sum", project=True, bias=False),
    "sage alone": lambda width: pyg.SAGEConv(width, 4, root_weight=False),
    "sage std": lambda width: pyg.SAGEConv(width, 4, aggr="std"),
    "graph": lambda width: pyg.GraphConv(width, 4, aggr="mean"),
    "gin": lambda width: pyg.GINConv(nn.Linear(width, 4), train_eps=True),
    "gat": lambda width: pyg.GATConv(width, 3, heads=2),
    "gat without loops": lambda width: pyg.GATConv(width, 3, heads=2, concat=False, add_self_loops=False, residual=True),
    "gatv2": lambda width: pyg.GATv2Conv(width, 3, heads=2),
    "gatv2 shared": lambda width: pyg.GATv2Conv(width, 3, share_weights=True, bias=False),
}


def random_edges(count: int = EDGES, src: int = NODES, dst: int = NODES, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(end, (count,), generator=generator) for end in (src, dst)])


def both(layer: pyg.MessagePassing) -> tuple[pyg.MessagePassing, pyg.MessagePassing]:
    """PyG's layer, and a copy over lists."""
    listed = fuse(copy.deepcopy(layer))
    assert isinstance(listed, ListedConv)
    return layer, listed


def assert_same(pair: tuple[nn.Module, nn.Module], x: tuple[Tensor, ...], arguments: Callable[[Any], tuple[Any, ...]]) -> None:
    """The same rows, and the same gradients of rows and parameters."""
    found = []
    for layer in pair:
        rows = [part.clone().requires_grad_() for part in x]
        out = layer(*arguments(rows))
        weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(3), dtype=out.dtype)
        grads = torch.autograd.grad((out * weights).sum(), [*rows, *layer.parameters()], allow_unused=True)
        found.append([out, *(torch.zeros(()) if grad is None else grad for grad in grads)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("name", LAYERS)
def test_any_edges(name: str) -> None:
    for edges in (random_edges(), random_edges(0), random_edges()[:, random_edges()[1].argsort()]):
        assert_same(both(LAYERS[name](WIDTH)), (torch.randn(NODES, WIDTH),), lambda x, edges=edges: (x[0], edges))


@pytest.mark.parametrize("name", LAYERS)
def test_pairs_of_rows(name: str) -> None:
    for src, dst in ((NODES, 7), (7, NODES)):
        layers = both(LAYERS[name]((WIDTH, WIDTH) if "gin" not in name and "project" not in name else WIDTH))
        assert_same(
            layers, (torch.randn(src, WIDTH), torch.randn(dst, WIDTH)), lambda x, s=src, d=dst: (tuple(x), random_edges(40, s, d))
        )


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("options", [{}, {"expand": "all"}], ids=str)
def test_hops(name: str, options: dict[str, Any]) -> None:
    batch = batch_of(made(), **options)
    hop = hops(batch)[0]
    layer, listed = both(LAYERS[name](5))
    torch.testing.assert_close(listed(batch.x, hop), layer(batch.x, batch.edge_index)[: hop.num_dst], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layer", [pyg.GraphConv(WIDTH, 3), pyg.GraphConv(WIDTH, 3, aggr="max"), pyg.GCNConv(WIDTH, 3)], ids=str)
def test_weights_of_edges(layer: pyg.MessagePassing) -> None:
    edges = random_edges()
    rows = (torch.randn(NODES, WIDTH), torch.rand(EDGES))
    assert_same(both(layer), rows, lambda x: (x[0], edges, x[1]))


@pytest.mark.parametrize(
    "options", [{}, {"improved": True}, {"add_self_loops": False}, {"normalize": False}, {"cached": True}], ids=str
)
@pytest.mark.parametrize("width", [2, 30])
def test_gcn(options: dict[str, Any], width: int) -> None:
    for weight in (None, torch.rand(EDGES)):
        layers = both(pyg.GCNConv(WIDTH, width, **options))
        assert_same(layers, (torch.randn(NODES, WIDTH),), lambda x, weight=weight: (x[0], random_edges(), weight))


@pytest.mark.parametrize("weighted", [False, True])
def test_gcn_divides_by_the_degrees_of_the_whole_batch(weighted: bool) -> None:
    batch = batch_of(made())
    weight = torch.rand(batch.num_edges) if weighted else None
    layer, listed = both(pyg.GCNConv(5, 4))
    for hop in hops(batch):
        # What trimming leaves of the rows is exact; its degrees are not, so PyG's layer has all edges.
        expected = layer(batch.x, batch.edge_index, weight)[: hop.num_dst]
        torch.testing.assert_close(listed(batch.x[: hop.num_src], hop, weight), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"add_self_loops": False}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_gcn_over_a_hop_that_is_a_graph_of_its_own(weighted: bool, options: dict[str, Any]) -> None:
    batch = batch_of(made(), expand="all")
    weight = torch.rand(batch.num_edges) if weighted else None
    layer, listed = both(pyg.GCNConv(5, 4, **options))
    for hop in hops(batch, cumulative=False):
        of_hop = None if weight is None else weight[hop.edges]
        expected = layer(batch.x[: hop.num_src], torch.stack([hop.src, hop.dst]), of_hop)[: hop.num_dst]
        torch.testing.assert_close(listed(batch.x[: hop.num_src], hop, weight), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"num_bases": 2}, {"num_blocks": 3}, {"aggr": "max"}, {"root_weight": False}], ids=str)
def test_relations_of_edges(options: dict[str, Any]) -> None:
    types = torch.randint(5, (EDGES,))
    types[types == 2] = 0  # a relation without edges
    for edges, of_edges in ((random_edges(), types), (random_edges(0), types[:0])):
        layers = both(pyg.RGCNConv(WIDTH, 9, 5, **options))
        assert_same(layers, (torch.randn(NODES, WIDTH),), lambda x, edges=edges, of_edges=of_edges: (x[0], edges, of_edges))


def test_relations_of_a_hops_edges() -> None:
    batch = batch_of(made(), expand="all")
    layer, listed = both(pyg.RGCNConv(5, 4, 3))
    types = torch.randint(3, (batch.num_edges,))
    hop = hops(batch)[0]
    torch.testing.assert_close(
        listed(batch.x, hop, types), layer(batch.x, batch.edge_index, types)[: hop.num_dst], rtol=1e-5, atol=1e-5
    )


def test_loops_take_the_place_of_edges_from_a_node_to_itself() -> None:
    lists = with_loops(grouped(torch.tensor([[0, 1, 1, 2, 3], [0, 0, 1, 1, 2]]), 4, 3))
    counts = lists.scored(torch.zeros(len(lists.src), 1)).squeeze(1) == 0
    ends = zip(lists.src.tensor_split(lists.begins[1:-1]), counts.tensor_split(lists.begins[1:-1]), strict=True)
    assert [sorted(src[count].tolist()) for src, count in ends] == [[0, 1], [1, 2], [2, 3]]


WITH_EDGES: dict[str, Callable[..., pyg.MessagePassing]] = {
    "gat": lambda **how: pyg.GATConv(WIDTH, 3, heads=2, **how),
    "gat pair": lambda **how: pyg.GATConv((WIDTH, WIDTH), 3, heads=2, residual=True, **how),
    "gatv2": lambda **how: pyg.GATv2Conv(WIDTH, 3, heads=2, concat=False, **how),
    "gatv2 shared": lambda **how: pyg.GATv2Conv(WIDTH, 3, share_weights=True, bias=False, **how),
}


@pytest.mark.parametrize(
    "how", [{}, {"add_self_loops": False}, {"fill_value": 0.0}, {"fill_value": 2}, {"fill_value": None}], ids=str
)
@pytest.mark.parametrize("name", WITH_EDGES)
def test_rows_of_edges(name: str, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges in any order, some from a node to itself, nodes without edges; and no message is made."""
    edge_index = torch.cat([random_edges(dst=NODES - 3), torch.tensor([[1, 1, 5], [1, 1, 5]])], dim=1)
    layer, listed = both(WITH_EDGES[name](edge_dim=4, **how).double())
    monkeypatch.setattr(listed, "propagate", None)
    for count in (edge_index.shape[1], 0):
        x, edge_attr = torch.randn(NODES, WIDTH, dtype=torch.float64), torch.randn(count, 4, dtype=torch.float64)
        results = []
        for conv in (layer, listed):
            rows, edges = x.clone().requires_grad_(), edge_attr.clone().requires_grad_()
            given = (rows, rows) if name.endswith("pair") else rows
            out = conv(given, edge_index[:, :count], edges)
            results.append(
                (out, torch.autograd.grad(out.square().sum(), [rows, edges, *conv.parameters()], materialize_grads=True))
            )
        torch.testing.assert_close(*results)


@pytest.mark.parametrize("name", WITH_EDGES)
def test_rows_of_edges_of_a_batch(name: str) -> None:
    """A column of one number per edge, of all edges of the batch; layers read those of their hops. Others are PyG's."""
    batch = batch_of(made())
    edge_attr = torch.randn(batch.num_edges)
    layer, listed = both(
        pyg.GATv2Conv(batch.x.shape[1], 3, edge_dim=1) if "v2" in name else pyg.GATConv(batch.x.shape[1], 3, edge_dim=1)
    )
    for hop in hops(batch):
        expected = layer((batch.x[: hop.num_src], batch.x[: hop.num_dst]), hop.ends, hop.of_edges(edge_attr), **_size(layer, hop))
        torch.testing.assert_close(listed(batch.x[: hop.num_src], hop, edge_attr), expected)
    for odd in ("add", torch.ones(4)):
        layer, listed = both(WITH_EDGES["gat"](edge_dim=4, fill_value=odd))
        x, edge_index = torch.randn(NODES, WIDTH), random_edges()
        torch.testing.assert_close(listed(x, edge_index, torch.ones(EDGES, 4)), layer(x, edge_index, torch.ones(EDGES, 4)))


def _size(layer: pyg.MessagePassing, hop: Any) -> dict[str, Any]:
    return {} if isinstance(layer, pyg.GATv2Conv) else {"size": (hop.num_src, hop.num_dst)}


def test_halves_and_doubles() -> None:
    for dtype, error in ((torch.float64, 1e-12), (torch.bfloat16, 0.1)):
        layer, listed = both(pyg.SAGEConv(WIDTH, 4).to(dtype))
        x = torch.randn(NODES, WIDTH, dtype=dtype)
        torch.testing.assert_close(layer(x, random_edges()), listed(x, random_edges()), rtol=error, atol=error)


def test_fewer_rows_than_a_hop_has_nodes_are_refused() -> None:
    batch = batch_of(made())
    outer, inner, _ = hops(batch)
    conv = SAGEConv(5, 5)
    with pytest.raises(InputError, match="outermost first"):
        conv(conv(batch.x, inner), outer)


def test_what_is_not_offered_is_pygs() -> None:
    """Sparse matrices, hooks on messages, the other flow and rows of other shapes have no lists."""
    layer, listed = both(pyg.SAGEConv(WIDTH, 4))
    x, edges = torch.randn(NODES, WIDTH), random_edges()
    torch.testing.assert_close(layer(x.expand(2, -1, -1), edges), listed(x.expand(2, -1, -1), edges))
    seen: list[Any] = []
    listed.register_message_forward_hook(lambda module, inputs, output: seen.append(output))
    listed(x, edges)
    assert len(seen) == 1
    layer, listed = both(pyg.SAGEConv(WIDTH, 4, flow="target_to_source"))
    torch.testing.assert_close(layer(x, edges), listed(x, edges))
    with pytest.raises(IndexError):
        listed(x, edges + NODES)
    hooked = fuse(pyg.GCNConv(5, 4))
    batch = batch_of(made())
    before = hooked(batch.x, hops(batch)[0])
    hooked.register_propagate_forward_hook(lambda module, inputs, output: None)
    torch.testing.assert_close(hooked(batch.x, hops(batch)[0]), before)


@pytest.mark.parametrize("own", [False, True])
def test_gcn_gives_a_product_that_is_hooked_or_replaced_the_rows_that_pyg_gives_it(own: bool) -> None:
    layer = pyg.GCNConv(WIDTH, WIDTH + 1)
    if own:
        layer.lin = torch.nn.Sequential(layer.lin, torch.nn.ReLU())
    else:
        layer.lin.register_forward_hook(lambda module, inputs, output: output.relu())
    layer, listed = both(layer)
    x, edges = torch.randn(NODES, WIDTH), random_edges()
    torch.testing.assert_close(listed(x, edges), layer(x, edges))


def test_layers_are_made_as_pygs() -> None:
    made_here, theirs = GCNConv(WIDTH, 3, improved=True), pyg.GCNConv(WIDTH, 3, improved=True)
    assert repr(made_here) == repr(theirs)
    theirs.load_state_dict(made_here.state_dict())
    lazy = SAGEConv(-1, 3)
    assert lazy(torch.randn(NODES, WIDTH), random_edges()).shape == (NODES, 3)


@pytest.mark.parametrize("width", [5, (5, 5), -1, (-1, -1)])
@pytest.mark.parametrize("hooked", [False, True])
def test_scores_of_gat_are_those_of_its_own_rows(width: int | tuple[int, int], hooked: bool) -> None:
    """Rows of the destinations are made only where somebody watches them; then once."""
    x, edge_index, seen = torch.randn(6, 5), torch.randint(6, (2, 20)), []
    rows = (x, x) if isinstance(width, tuple) else x
    slow, fast = pyg.GATConv(width, 3, heads=2), GATConv(width, 3, heads=2)
    slow(rows, edge_index), fast(rows, edge_index)
    fast.load_state_dict(slow.state_dict())
    if hooked:
        (fast.lin or fast.lin_dst).register_forward_hook(lambda *given: seen.append(given))
    found, expected = fast(rows, edge_index), slow(rows, edge_index)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(out.square().sum(), conv.parameters()) for out, conv in ((found, fast), (expected, slow))]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
    assert len(seen) == hooked
