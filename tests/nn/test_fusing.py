"""One line turns PyG's layers into those over lists: results, parameters and all that is done with a module stay."""

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import HeteroData
from torch_geometric.explain import Explainer, GNNExplainer

import halohop
from halohop.nn import GCNConv, SAGEConv, fuse, hops, unfused
from tests.support.hop_batches import batch_of, made, typed

KINDS: list[dict[str, Any]] = [{}, {"expand": "all"}, {"disjoint": True}, {"pad": "bound"}]
MODELS = {"sage": pyg.GraphSAGE, "gat": pyg.GAT, "gin": pyg.GIN, "gcn": pyg.GCN}


def model_of(name: str, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name](5, 8, 3, 4, **options)


def per_hop(batch: Any) -> dict[str, Any]:
    return {"num_sampled_nodes_per_hop": batch.num_sampled_nodes, "num_sampled_edges_per_hop": batch.num_sampled_edges}


def loss_and_grads(model: nn.Module, batch: Any, **given: Any) -> list[Tensor]:
    out = model(batch.x, batch.edge_index, **given)[: batch.batch_size]
    loss = out.square().sum()
    return [loss, *torch.autograd.grad(loss, list(model.parameters()))]


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("name", ["sage", "gat", "gin", "gcn"])
def test_models_of_pyg_have_the_same_losses_and_gradients(name: str, options: dict[str, Any]) -> None:
    batch = batch_of(made(), **options)
    model = model_of(name, norm="layer", norm_kwargs={"mode": "node"}) if name == "sage" else model_of(name)
    listed = fuse(copy.deepcopy(model))
    assert not unfused(listed)
    given = per_hop(batch)
    for one, other in zip(loss_and_grads(model, batch, **given), loss_and_grads(listed, batch, **given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert len(listed(batch.x, batch.edge_index, **given)) == len(model(batch.x, batch.edge_index, **given))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_gcn_of_seeds_is_that_of_the_whole_batch_whatever_counts_it_is_given(weighted: bool) -> None:
    batch = batch_of(made())
    weight = torch.rand(batch.num_edges) if weighted else None
    model = model_of("gcn")
    seeds, expected = fuse(copy.deepcopy(model), rows="seeds"), loss_and_grads(model, batch, edge_weight=weight)
    for _ in range(2):  # the first forward pass learns how many layers there are
        for one, other in zip(expected, loss_and_grads(seeds, batch, edge_weight=weight, **per_hop(batch)), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert len(seeds(batch.x, batch.edge_index, **per_hop(batch))) == batch.batch_size


@pytest.mark.parametrize("options", [{"norm": "batch"}, {"jk": "last"}], ids=str)
def test_what_looks_at_all_rows_keeps_pygs_trimming(options: dict[str, Any]) -> None:
    """Statistics of a batch norm are over all rows that PyG computes, also those that no layer reads."""
    batch = batch_of(made())
    model = model_of("sage", **options)
    listed = fuse(copy.deepcopy(model))
    for one, other in zip(
        loss_and_grads(model, batch, **per_hop(batch)), loss_and_grads(listed, batch, **per_hop(batch)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)


def test_a_model_of_ones_own_takes_a_hop_for_each_layer() -> None:
    batch = batch_of(made())
    model = model_of("sage")
    expected = model(batch.x, batch.edge_index, **per_hop(batch))[: batch.batch_size]
    x = batch.x
    for layer, (conv, hop) in enumerate(zip(fuse(copy.deepcopy(model)).convs, hops(batch, layers=3), strict=True)):
        x = conv(x, hop)
        x = x.relu() if layer < 2 else x
    torch.testing.assert_close(x[: batch.batch_size], expected, rtol=1e-5, atol=1e-5)


class Typed(nn.Module):
    def __init__(self, relations: list[Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        kinds = {"aa": lambda: pyg.GCNConv(4, 4), "ab": lambda: pyg.SAGEConv((4, 4), 4), "ba": lambda: pyg.GraphConv((4, 4), 4)}
        self.convs = nn.ModuleList(
            pyg.HeteroConv({relation: kinds[relation[0] + relation[2]]() for relation in relations}) for _ in range(3)
        )

    def forward(self, batch: HeteroData, edges: list[Any]) -> Tensor:
        x = batch.x_dict
        for conv, of_layer in zip(self.convs, edges, strict=True):
            x = {name: rows.relu() for name, rows in conv(x, of_layer).items()}
        out: Tensor = x["a"][: batch["a"].batch_size]
        return out


def test_typed_layers_take_a_hop_per_relation() -> None:
    batch = batch_of(typed())
    model = Typed(batch.edge_types)
    expected = model(batch, [batch.edge_index_dict] * 3)
    torch.testing.assert_close(fuse(model)(batch, hops(batch)), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model(batch, [batch.edge_index_dict] * 3), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_to_hetero() -> None:
    batch = batch_of(typed())
    torch.manual_seed(0)
    model = pyg.to_hetero(pyg.GraphSAGE((-1, -1), 8, 2, 4), batch.metadata())
    expected = model(batch.x_dict, batch.edge_index_dict)["a"]
    fuse(model)
    assert not unfused(model)
    torch.testing.assert_close(model(batch.x_dict, batch.edge_index_dict)["a"], expected, rtol=1e-5, atol=1e-5)


def test_parameters_hooks_copies_and_files_stay() -> None:
    model = model_of("gcn")
    before, parameters = model.state_dict(), list(model.parameters())
    calls: list[int] = []
    model.convs[0].register_forward_hook(lambda module, inputs, output: calls.append(len(output)))
    assert fuse(model) is model
    assert [one is other for one, other in zip(model.parameters(), parameters, strict=True)] == [True] * len(parameters)
    assert list(model.state_dict()) == list(before)
    batch = batch_of(made())
    out = model(batch.x, batch.edge_index, **per_hop(batch))
    assert len(calls) == 1
    file = io.BytesIO()
    plain = fuse(model_of("gcn"))
    torch.save(plain, file)
    file.seek(0)
    for twin in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        twin.load_state_dict(before)
        assert isinstance(twin.convs[0], GCNConv)
        torch.testing.assert_close(twin(batch.x, batch.edge_index, **per_hop(batch)), out)


def test_explainers_see_pygs_messages() -> None:
    data = made()
    explanations = []
    for change in (lambda model: model, fuse):
        torch.manual_seed(0)
        explainer = Explainer(
            change(model_of("sage")),
            algorithm=GNNExplainer(epochs=3),
            explanation_type="model",
            node_mask_type="attributes",
            edge_mask_type="object",
            model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
        )
        explanations.append(explainer(data.x, data.edge_index, index=3).edge_mask)
    torch.testing.assert_close(*explanations)
    assert explanations[0].any()


def test_layers_of_other_kinds_are_left_and_named() -> None:
    class Mine(pyg.SAGEConv):  # type: ignore[misc]
        def message(self, x_j: Tensor) -> Tensor:
            return 2 * x_j

    model = fuse(nn.ModuleList([Mine(5, 5), pyg.PNAConv(5, 5, ["mean"], ["identity"], torch.ones(3)), pyg.SAGEConv(5, 5)]))
    median = fuse(pyg.SAGEConv(5, 5, aggr="median"))
    assert unfused(nn.ModuleList([*model, median, pyg.TAGConv(5, 5)])) == [
        "0 (Mine): derived from SAGEConv, so its messages may differ; a model with rows='seeds' gives all rows",
        "1 (PNAConv): no layer of halohop's; a model with rows='seeds' computes the rows that are needed in PyG's code",
        "3 (SAGEConv): aggr='median'; a model with rows='seeds' gives all rows",
        "4 (TAGConv): no layer of halohop's; a model with rows='seeds' gives all rows",
    ]
    assert type(model[2]) is SAGEConv


def test_the_names_of_the_package() -> None:
    assert halohop.nn.fuse is fuse
