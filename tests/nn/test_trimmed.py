"""Layers that PyG's code computes on the rows that seeds need: values and gradients are PyG's, or the model gives all rows."""

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch_geometric import nn as pyg
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import aggr

import halohop
from halohop.nn import fuse, unfused
from halohop.nn.trimmed import KINDS

WIDTH, ATTRIBUTES, SEEDS = 6, 3, 8
FEW = "the rows that are needed in PyG's code"


def graph() -> Data:
    made = torch.Generator().manual_seed(0)
    edge_index, edge_attr = torch.randint(0, 120, (2, 700), generator=made), torch.rand(700, ATTRIBUTES, generator=made)
    return Data(x=torch.randn(120, WIDTH, generator=made), edge_index=edge_index, edge_attr=edge_attr)


@pytest.fixture(scope="module")
def batch() -> Any:
    return next(iter(halohop.NeighborLoader(graph(), [3, 2, 2], batch_size=SEEDS, num_workers=0)))


class Stack(nn.Module):
    """Three layers; those of edges' attributes are given them."""

    def __init__(self, make: Callable[[], nn.Module], names: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.convs, self.names = nn.ModuleList(make() for _ in range(3)), names

    def forward(self, x: Tensor, edge_index: Tensor, **attributes: Tensor) -> Tensor:
        for conv in self.convs:
            x = conv(x, edge_index, **{name: attributes[name] for name in self.names}).relu() + 0.1
        return x


def perceptron(*widths: int) -> nn.Module:
    return nn.Sequential(nn.Linear(widths[0], 7), nn.LayerNorm(7), nn.ELU(), nn.Dropout(0.0), nn.Linear(7, widths[-1]))


def pna() -> nn.Module:
    scalers = ["identity", "amplification", "attenuation", "linear", "inverse_linear"]
    return pyg.PNAConv(WIDTH, WIDTH, ["mean", "min", "max", "std"], scalers, torch.arange(1, 8), edge_dim=ATTRIBUTES, towers=2)


ATTR = ("edge_attr",)
MADE: dict[str, tuple[Callable[[], nn.Module], tuple[str, ...]]] = {
    "CGConv": (lambda: pyg.CGConv(WIDTH, ATTRIBUTES), ATTR),
    "EdgeConv": (lambda: pyg.EdgeConv(perceptron(2 * WIDTH, WIDTH)), ()),
    "FiLMConv": (lambda: pyg.FiLMConv(WIDTH, WIDTH), ()),
    "FiLMConv, relations": (lambda: pyg.FiLMConv(WIDTH, WIDTH, num_relations=3), ("edge_type",)),
    "GeneralConv": (lambda: pyg.GeneralConv(WIDTH, WIDTH, ATTRIBUTES, heads=2, attention=True, l2_normalize=True), ATTR),
    "GINEConv": (lambda: pyg.GINEConv(perceptron(WIDTH, WIDTH), train_eps=True, edge_dim=ATTRIBUTES), ATTR),
    "GMMConv": (lambda: pyg.GMMConv(WIDTH, WIDTH, ATTRIBUTES, 2), ATTR),
    "LEConv": (lambda: pyg.LEConv(WIDTH, WIDTH), ("edge_weight",)),
    "NNConv": (lambda: pyg.NNConv(WIDTH, WIDTH, perceptron(ATTRIBUTES, WIDTH * WIDTH), aggr="mean"), ATTR),
    "PNAConv": (pna, ATTR),
    "ResGatedGraphConv": (lambda: pyg.ResGatedGraphConv(WIDTH, WIDTH, edge_dim=ATTRIBUTES), ATTR),
    "TransformerConv": (lambda: pyg.TransformerConv(WIDTH, 3, heads=2, beta=True, edge_dim=ATTRIBUTES), ATTR),
    "TransformerConv, mean of heads": (lambda: pyg.TransformerConv(WIDTH, WIDTH, heads=2, concat=False), ()),
    "EdgeConv, several": (lambda: pyg.EdgeConv(perceptron(2 * WIDTH, 2), aggr=["std", "softmax", "median"]), ()),
}


def attributes_of(batch: Any) -> dict[str, Tensor]:
    attr = batch.edge_attr
    return {"edge_attr": attr, "edge_weight": attr[:, 0].contiguous(), "edge_type": (3 * attr[:, 1]).long()}


def compare(plain: nn.Module, batch: Any) -> int:
    """How many rows the fused model gives, after the rows of the seeds and gradients were compared, twice."""
    seeds, given = fuse(copy.deepcopy(plain), rows="seeds"), attributes_of(batch)
    for _ in range(2):  # the first forward pass learns how many layers there are
        grads = []
        expected, found = (model(batch.x, batch.edge_index, **given) for model in (plain, seeds))
        torch.testing.assert_close(found[:SEEDS], expected[:SEEDS], rtol=1e-4, atol=1e-5)
        for out, model in ((expected, plain), (found, seeds)):
            loss = (out[:SEEDS] * torch.linspace(-1, 1, SEEDS * WIDTH).view(SEEDS, WIDTH)).sum()
            made = torch.autograd.grad(loss, [*model.parameters()], allow_unused=True, materialize_grads=True)
            grads.append(torch.cat([grad.flatten() for grad in made]))
        assert grads[0].abs().max() > 0
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-3, atol=1e-4)
    return len(found)


def test_every_kind_is_compared() -> None:
    assert {kind.__name__ for kind in KINDS} == {name.partition(",")[0] for name in MADE}


@pytest.mark.parametrize("kind", MADE)
def test_rows_of_the_seeds_and_gradients_are_pygs(kind: str, batch: Any) -> None:
    model = Stack(*MADE[kind])
    assert compare(model, batch) == SEEDS
    assert all(FEW in told for told in unfused(fuse(model, rows="seeds")))
    assert len(unfused(model)) == 3


class Mine(nn.Module):
    """A user's module, which may look at all rows."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Derived(pyg.EdgeConv):  # type: ignore[misc]
    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        out: Tensor = super().message(x_i, x_j)
        return out - out.mean(0)


def centered(layer: nn.Module, args: Any, out: Tensor) -> Tensor:
    """A user's hook."""
    return out - out.mean(0)


def edge(*inside: nn.Module, change: Callable[[Any], Any] = lambda layer: None, **options: Any) -> nn.Module:
    """An `EdgeConv` with these modules after a product, changed."""
    layer = pyg.EdgeConv(nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), *inside), **options)
    change(layer)
    return layer


def replace_message(layer: Any) -> None:
    layer.message = lambda x_i, x_j: (x_i - x_j) / len(x_j)


def replace_forward(layer: Any) -> None:
    layer.nn[0].forward = lambda x: x[:, :WIDTH] - x.mean()


def center_gradients(layer: nn.Module, ours: Any, theirs: Any) -> Any:
    return (ours[0] - ours[0].mean(0),)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pyg.CGConv(WIDTH, batch_norm=True),
        lambda: edge(nn.BatchNorm1d(WIDTH)),
        lambda: edge(nn.Softmax(0)),
        lambda: edge(Mine()),
        lambda: pyg.NNConv(WIDTH, WIDTH, nn.Sequential(nn.Linear(ATTRIBUTES, WIDTH * WIDTH), aggr.MeanAggregation())),
        lambda: edge(aggr=aggr.LSTMAggregation(WIDTH, WIDTH)),
        lambda: edge(change=replace_message),
        lambda: edge(change=replace_forward),
        lambda: edge(change=lambda layer: layer.register_forward_hook(centered)),
        lambda: edge(change=lambda layer: layer.nn[0].register_forward_hook(centered)),
        lambda: edge(change=lambda layer: layer.nn[0].register_full_backward_hook(center_gradients)),
        lambda: edge(change=lambda layer: layer.register_message_forward_hook(centered)),
        lambda: edge(flow="target_to_source"),
        lambda: Derived(nn.Linear(2 * WIDTH, WIDTH)),
        lambda: pyg.EdgeConv(lambda x: x[:, :WIDTH] - x.mean()),
        lambda: pyg.FiLMConv(WIDTH, WIDTH, act=lambda x: x - x.mean(0)),
        lambda: edge(nn.ReLU(inplace=True)),
        lambda: pyg.TAGConv(WIDTH, WIDTH, K=2),
    ],
)
def test_what_may_read_other_rows_gives_all(make: Callable[[], nn.Module], batch: Any) -> None:
    model = Stack(make, ATTR if isinstance(make(), pyg.NNConv) else ())
    if isinstance(model.convs[0], pyg.EdgeConv):  # so that its rows have gradients
        model.convs[0] = pyg.SAGEConv(WIDTH, WIDTH)
    assert compare(model, batch) == len(batch.x)


def test_hooks_of_all_modules_give_all(batch: Any) -> None:
    """Of layers over lists, too."""
    for make in (
        MADE["TransformerConv, mean of heads"][0],
        lambda: pyg.SAGEConv(WIDTH, WIDTH),
        lambda: pyg.GCNConv(WIDTH, WIDTH),
    ):
        handle = register_module_forward_hook(
            lambda layer, args, out: centered(layer, args, out) if type(layer) is pyg.Linear else out
        )
        try:
            assert compare(Stack(make), batch) == len(batch.x)
        finally:
            handle.remove()


def test_attributes_that_a_layer_spreads_over_all_edges_give_all(batch: Any) -> None:
    """Without `edge_dim`, PyG's layer adds the attributes of every edge to each."""
    few = next(iter(halohop.NeighborLoader(graph(), [2, 2], batch_size=SEEDS, num_workers=0)))
    few.edge_attr = torch.rand(few.num_edges, WIDTH)
    model = Stack(lambda: pyg.TransformerConv(WIDTH, WIDTH, concat=False), ATTR)
    plain, seeds = model, fuse(copy.deepcopy(model), rows="seeds")
    for _ in range(2):
        rows = [one(few.x, few.edge_index, edge_attr=few.edge_attr) for one in (plain, seeds)]
        torch.testing.assert_close(*rows)


@pytest.mark.parametrize(
    "call",
    [
        lambda conv, x, edges: conv([x, x], edges),
        lambda conv, x, edges: conv((x, x), edges),
        lambda conv, x, edges: conv(edge_index=edges, x=x),
        lambda conv, x, edges: conv(x.to_sparse(), edges),
        lambda conv, x, edges: conv(x, edges).detach_(),
        lambda conv, x, edges: conv(x, edges, torch.ones(edges.shape[1], 1)) if conv.lin_edge else conv(x, edges, None),
    ],
)
def test_whatever_pyg_takes_is_taken(call: Callable[..., Tensor], batch: Any) -> None:
    class Calls(Stack):
        def forward(self, x: Tensor, edge_index: Tensor, **attributes: Tensor) -> Tensor:
            return call(self.convs[0], x, edge_index)

    plain = Calls(lambda: pyg.TransformerConv(WIDTH, WIDTH))
    seeds = fuse(copy.deepcopy(plain), rows="seeds")
    for _ in range(2):
        rows = [model(batch.x, batch.edge_index)[:SEEDS] for model in (plain, seeds)]
        torch.testing.assert_close(*rows)


def test_errors_are_pygs(batch: Any) -> None:
    class Forgets(Stack):
        def forward(self, x: Tensor, edge_index: Tensor, **attributes: Tensor) -> Tensor:
            out: Tensor = self.convs[0](x)
            return out

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'edge_index'"):
        fuse(Forgets(lambda: pyg.TransformerConv(WIDTH, WIDTH)), rows="seeds")(batch.x, batch.edge_index)


def test_a_fused_layer_in_a_fused_model(batch: Any) -> None:
    plain = Stack(lambda: pyg.TransformerConv(WIDTH, WIDTH))
    model = copy.deepcopy(plain)
    model.convs = nn.ModuleList(fuse(conv, rows="seeds") for conv in model.convs)
    seeds = fuse(model, rows="seeds")
    for _ in range(2):
        rows = [one(batch.x, batch.edge_index)[:SEEDS] for one in (plain, seeds)]
        torch.testing.assert_close(*rows)


def test_rows_without_destinations_are_as_many_as_pygs() -> None:
    """PyG gives a row for each source, where it is not told how many destinations there are."""
    made = torch.Generator().manual_seed(1)
    data = HeteroData({"a": {"x": torch.randn(60, WIDTH, generator=made)}, "b": {"x": torch.randn(30, WIDTH, generator=made)}})
    data["a", "to", "b"].edge_index = torch.stack([torch.randint(0, size, (300,), generator=made) for size in (60, 30)])
    batch = next(iter(halohop.NeighborLoader(data, [3], ("b", None), batch_size=SEEDS, num_workers=0)))

    class Alone(Stack):
        def forward(self, x: Any, edge_index: Any, **attributes: Tensor) -> Tensor:
            out: Tensor = self.convs[0]((x["a"], None), edge_index["a", "to", "b"])
            return out - out.mean(0)

    for make in (
        lambda: pyg.SAGEConv(WIDTH, WIDTH, root_weight=False),
        lambda: pyg.SAGEConv(WIDTH, WIDTH, aggr="median", root_weight=False),
    ):
        plain = Alone(make)
        seeds = fuse(copy.deepcopy(plain), rows="seeds")
        for _ in range(2):
            rows = [model(batch.x_dict, batch.edge_index_dict) for model in (plain, seeds)]
            torch.testing.assert_close(*rows)


def test_attributes_that_are_not_of_the_edges_give_all(batch: Any) -> None:
    class Weighed(Stack):
        def forward(self, x: Tensor, edge_index: Tensor, **attributes: Tensor) -> Tensor:
            for conv in self.convs:
                x, (_, weights) = conv(x, edge_index, return_attention_weights=True)
                x = x + weights.mean()
            return x

    assert compare(Weighed(lambda: pyg.TransformerConv(WIDTH, WIDTH)), batch) == len(batch.x)


def test_a_layer_that_fails_and_is_caught_leaves_nothing_out(batch: Any) -> None:
    """What comes after it reads all rows."""

    class Caught(Stack):
        fails = False

        def forward(self, x: Tensor, edge_index: Tensor, **attributes: Tensor) -> Tensor:
            x = self.convs[0](x, edge_index)
            try:
                x = self.convs[1](x, edge_index, edge_attr=attributes["edge_attr"][:, : 2 if self.fails else 3])
            except RuntimeError:
                x = x - x.mean(0)
            return self.convs[2](x, edge_index)

    plain = Caught(lambda: pyg.TransformerConv(WIDTH, WIDTH, edge_dim=ATTRIBUTES))
    plain.convs[0], plain.convs[2] = pyg.SAGEConv(WIDTH, WIDTH), pyg.SAGEConv(WIDTH, WIDTH)
    seeds, given = fuse(copy.deepcopy(plain), rows="seeds"), attributes_of(batch)
    assert len(seeds(batch.x, batch.edge_index, **given)) == SEEDS
    plain.fails = seeds.fails = True
    found = seeds(batch.x, batch.edge_index, **given)
    torch.testing.assert_close(found, plain(batch.x, batch.edge_index, **given), rtol=1e-4, atol=1e-5)


def test_typed_layers() -> None:
    made = torch.Generator().manual_seed(1)
    data, sizes = HeteroData(), {"a": 60, "b": 80}
    for name, size in sizes.items():
        data[name].x = torch.randn(size, WIDTH, generator=made)
    for src, dst in (("a", "b"), ("b", "a"), ("a", "a")):
        ends = [torch.randint(0, sizes[name], (300,), generator=made) for name in (src, dst)]
        data[src, f"to_{dst}", dst].edge_index = torch.stack(ends)
    batch = next(iter(halohop.NeighborLoader(data, [3, 2, 2], ("a", None), batch_size=SEEDS, num_workers=0)))

    class Typed(nn.Module):
        def __init__(self, make: Callable[[], nn.Module]) -> None:
            super().__init__()
            self.convs = nn.ModuleList(pyg.HeteroConv({relation: make() for relation in data.edge_types}) for _ in range(3))

        def forward(self, x: dict[str, Tensor], edge_index: Any) -> Tensor:
            for conv in self.convs:
                x = {name: rows.relu() for name, rows in conv(x, edge_index).items()}
            return x["a"]

    for make in (
        lambda: pyg.TransformerConv(WIDTH, WIDTH),
        lambda: pyg.EdgeConv(perceptron(2 * WIDTH, WIDTH)),
        lambda: pyg.ResGatedGraphConv((WIDTH, WIDTH), WIDTH),
    ):
        plain = Typed(make)
        seeds = fuse(copy.deepcopy(plain), rows="seeds")
        for _ in range(2):
            found = seeds(batch.x_dict, batch.edge_index_dict)
            expected = plain(batch.x_dict, batch.edge_index_dict)
            assert len(found) == SEEDS
            torch.testing.assert_close(found, expected[:SEEDS], rtol=1e-4, atol=1e-5)


def test_copies_and_files_give_the_same_and_fusing_again_changes_nothing(batch: Any) -> None:
    model = fuse(Stack(*MADE["TransformerConv"]), rows="seeds")
    expected = model(batch.x, batch.edge_index, **attributes_of(batch))
    file = io.BytesIO()
    torch.save(model.convs[0], file)
    file.seek(0)
    assert type(torch.load(file, weights_only=False)) is type(model.convs[0])
    for other in (copy.deepcopy(model), fuse(model, rows="seeds")):
        found = other(batch.x, batch.edge_index, **attributes_of(batch))
        torch.testing.assert_close(found, expected)
        assert {type(conv).__module__ for conv in other.convs} == {"halohop.nn.trimmed"}


def test_alone_a_layer_is_pygs(batch: Any) -> None:
    """Outside of a model that gives the rows of seeds."""
    plain = Stack(*MADE["GINEConv"])
    model = fuse(copy.deepcopy(plain), rows="seeds")
    rows = [one.convs[0](batch.x, batch.edge_index, batch.edge_attr) for one in (plain, model)]
    assert torch.equal(*rows)
