from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import SimpleConv
from torch_geometric.utils import trim_to_layer

from halohop import NeighborLoader
from halohop.cluster.graph import Graph, in_memory
from halohop.datasets import synthetic, synthetic_hetero
from halohop.inference import LayerPass
from halohop.recipes.build import build_model
from halohop.recipes.config import TrainConfig
from halohop.recipes.layered_models import trained_layers
from halohop.recipes.models import NodeClassifier, projected
from halohop.recipes.spec import TYPED, ModelSpec
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import Relation
from halohop.world import World
from tests.support.learned import give_vectors

KINDS = ["sage", "gcn", "gat", "rgcn", "hgt", "sage without features"]


def graph_for(kind: str) -> Graph:
    if kind in TYPED:
        return in_memory(synthetic_hetero(80))
    tables = synthetic(None, num_nodes=90, avg_degree=4, num_classes=3, num_features=7)
    if kind.endswith("without features"):
        columns = {name: column for name, column in tables.nodes["node"].columns.items() if name != "x"}
        tables = replace(tables, nodes={"node": NodeTable(num_nodes=90, columns=columns)})
    return in_memory(tables)


def model_for(kind: str, graph: Graph, hops: int = 2, dropout: float | None = None) -> NodeClassifier:
    config = TrainConfig(
        parts="p", out="o", model=kind.split()[0], fanout=(-1,) * hops, hidden=8, bases=3, heads=2, dropout=dropout
    )
    target = "paper" if kind in TYPED else "node"
    torch.manual_seed(1)
    model = build_model(ModelSpec.of(config, graph.schema, target, 5))
    give_vectors(model)
    return model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hops", [1, 2, 3])
@torch.no_grad()
def test_what_a_batch_says_of_a_node_is_what_the_whole_graph_says(kind: str, hops: int) -> None:
    """With all neighbours, a batch of 7 seeds is trimmed hard, a batch of all nodes not at all: catches any wrong trim."""
    graph = graph_for(kind)
    model = model_for(kind, graph, hops).eval()
    target = model.spec.target
    parts, whole = (
        torch.cat([model(batch) for batch in NeighborLoader(graph, [-1] * hops, (target, None), batch_size=size, num_workers=0)])
        for size in (7, 10_000)
    )
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-5)
    assert float(whole.std(dim=0).min()) > 0


@torch.no_grad()
def test_relational_model_is_the_sum_of_means_per_relation() -> None:
    graph = graph_for("rgcn")
    model = model_for("rgcn", graph, 1).eval()
    batch = next(iter(NeighborLoader(graph, [4], ("paper", None), batch_size=30, num_workers=0)))
    rows = {
        i.node_type: m(batch[i.node_type].n_id if i.width is None else batch[i.node_type].x)
        for i, m in zip(model.spec.inputs, model.inputs, strict=True)
    }
    (conv,) = model.convs
    expected = conv.root(rows["paper"][:30])
    for number, (src, name, dst) in enumerate(model.spec.relations):
        weight = sum(conv.mixture[number, b] * conv.bases[b] for b in range(3))
        ends = batch[src, name, dst].edge_index
        for node in range(30) if dst == "paper" else ():
            mine = ends[0, ends[1] == node]
            if len(mine):
                expected[node] += rows[src][mine].mean(dim=0) @ weight
    torch.testing.assert_close(model.encode(batch), expected.relu(), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_gcn_does_not_depend_on_what_sampling_knows_of_the_sources() -> None:
    """A star: one seed with two leaves. Symmetric normalisation would give a leaf another weight if its own edges are missing."""
    edges = EdgeTable(src=torch.tensor([1, 2, 3, 4, 5]), dst=torch.tensor([0, 0, 1, 1, 1]))
    tables = GraphTables(
        nodes={"node": NodeTable(num_nodes=6, columns={"x": torch.eye(6)})}, edges={("node", "to", "node"): edges}
    )
    graph = in_memory(tables)
    model = model_for("gcn", graph, 1).eval()
    batch = next(iter(NeighborLoader(graph, [-1], torch.tensor([0]), num_workers=0)))
    expected = model.encoder.convs[0].weight(torch.eye(6)[:3]).mean(dim=0, keepdim=True)
    torch.testing.assert_close(model.encode(batch), expected.relu())


@pytest.mark.parametrize("kind", KINDS)
def test_empty_batch_touches_every_parameter(kind: str) -> None:
    """Otherwise the other ranks of a DistributedDataParallel step would wait for ever."""
    graph = graph_for(kind)
    model = model_for(kind, graph)
    batch = NeighborLoader(graph, [3, 3], (model.spec.target, None), num_workers=0)(torch.empty(0, dtype=torch.int64))
    logits = model(batch)
    assert logits.shape == (0, 5)
    torch.nn.functional.cross_entropy(logits, torch.empty(0, dtype=torch.int64), reduction="sum").backward()
    untouched = [name for name, parameter in model.named_parameters() if parameter.grad is None or parameter.grad.any()]
    assert untouched == []


def _with_messages(model: Any, batch: Any) -> Tensor:
    """What the models of one relation computed with a message for each edge, by PyG's layers and trimming."""
    x, edges = batch.x.float(), batch.edge_index
    mean, with_itself = SimpleConv(aggr="mean"), SimpleConv(aggr="mean", combine_root="self_loop")
    for layer, (conv, norm) in enumerate(zip(model.encoder.convs, model.encoder.norms, strict=True)):
        x, edges, _ = trim_to_layer(layer, batch.num_sampled_nodes, batch.num_sampled_edges, x, edges)
        if model.spec.kind == "sage":
            x = conv.root(x) + mean(conv.neighbour(x), edges)
        elif model.spec.kind == "gcn":
            x = with_itself(conv.weight(x), edges)
        else:
            x = super(type(conv), conv).forward(x, edges)
        x = norm(x).relu()
    logits: Tensor = model.head(x[: batch.batch_size])
    return logits


def _relations_with_messages(model: Any, batch: Any) -> Tensor:
    """What R-GCN computed with a message for each edge, all edges in every layer."""
    x = projected(model.read(batch), model.inputs)
    for conv in model.convs:
        out = {name: conv.root(rows) for name, rows in x.items()}
        weights = torch.einsum("rb,bio->rio", conv.mixture, conv.bases)
        for (src_type, name, dst_type), weight in zip(model.spec.relations, weights, strict=True):
            src, dst = batch[src_type, name, dst_type].edge_index
            share = 1 / torch.bincount(dst, minlength=len(x[dst_type]))[dst].float()
            out[dst_type] = out[dst_type].index_add(0, dst, (x[src_type][src] * share[:, None]) @ weight)
        x = {name: rows.relu() for name, rows in out.items()}
    logits: Tensor = model.head(x[model.spec.target][: batch[model.spec.target].batch_size])
    return logits


@pytest.mark.parametrize("kind", ["sage", "gcn", "gat", "rgcn"])
def test_losses_of_training_are_those_of_messages(kind: str) -> None:
    """Four steps of each: the gradients of a step make the loss of the next."""
    graph = graph_for(kind)
    batches = list(NeighborLoader(graph, [4, 3], (model_for(kind, graph).spec.target, None), batch_size=30, num_workers=0))[:4]
    losses = []
    for forward in (lambda model, batch: model(batch), _relations_with_messages if kind == "rgcn" else _with_messages):
        model = model_for(kind, graph, dropout=0.0)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        found = []
        for batch in batches:
            target = batch[model.spec.target] if kind == "rgcn" else batch
            loss = torch.nn.functional.cross_entropy(forward(model, batch), target.y[: target.batch_size] % 5)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        losses.append(found)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert losses[0][0] != losses[0][1]


ODD_NAMES = [
    ("v1.0", "b.c", "is.of"),
    ("items", "forward", "type"),
    ("training", "_modules", "keys"),
    ("a#b", "a.b", "#"),
    ("hex_61", "a", "hex_"),
]


def with_names(a: str, b: str, name: str) -> tuple[GraphTables, tuple[Relation, ...]]:
    """Two types of nodes, and relations both ways and within the second type."""
    relations = ((a, name, b), (b, name, a), (b, f"{name} a", b))
    nodes = {a: NodeTable(num_nodes=12, columns={"x": torch.eye(12)}), b: NodeTable(num_nodes=9, columns={"x": torch.eye(9)})}
    edges = {
        relation: EdgeTable(
            src=torch.arange(40) * 7 % nodes[relation[0]].num_nodes, dst=torch.arange(40) * step % nodes[relation[2]].num_nodes
        )
        for relation, step in zip(relations, (5, 11, 2), strict=True)
    }
    return GraphTables(nodes=nodes, edges=edges), relations


@pytest.mark.parametrize("names", ODD_NAMES, ids=str)
@torch.no_grad()
def test_names_of_types_change_nothing_in_hgt(names: tuple[str, str, str]) -> None:
    found = []
    for a, b, name in (names, ("one", "other", "to")):
        tables, relations = with_names(a, b, name)
        graph = in_memory(tables)
        config = TrainConfig(parts="p", out="o", model="hgt", fanout=(-1, -1), hidden=8, heads=2)
        torch.manual_seed(1)
        model = build_model(ModelSpec.of(config, graph.schema, a, 3)).eval()
        for parameter in model.parameters():  # their order depends on the names
            parameter += torch.linspace(-0.2, 0.3, parameter.numel()).view_as(parameter)
        again = build_model(ModelSpec.of(config, graph.schema, a, 3)).eval()
        again.load_state_dict(model.state_dict())
        assert model.spec.relations == relations
        batch = next(iter(NeighborLoader(graph, [-1, -1], (a, None), batch_size=12, num_workers=0)))
        assert torch.equal(model(batch), again(batch))
        found.append((model(batch), sum(parameter.numel() for parameter in model.parameters())))
    assert found[0][1] == found[1][1]  # no weights are shared, as those of two types with one key would be
    torch.testing.assert_close(found[0][0], found[1][0])


@pytest.mark.parametrize("kind", ["sage", "gcn", "gat", "rgcn", "hgt"])
@torch.no_grad()
def test_features_of_no_column_give_logits(kind: str) -> None:
    tables = (
        with_names("a", "b", "to")[0]
        if kind in TYPED
        else synthetic(None, num_nodes=90, avg_degree=4, num_classes=3, num_features=7)
    )
    name, node = next(iter(tables.nodes.items()))
    empty = replace(node, columns={"x": torch.empty(node.num_nodes, 0)})
    graph = in_memory(replace(tables, nodes=tables.nodes | {name: empty}))
    config = TrainConfig(parts="p", out="o", model=kind, fanout=(-1, -1), hidden=8, heads=2)
    model = build_model(ModelSpec.of(config, graph.schema, name, 3)).eval()
    assert all(parameter.numel() for parameter in model.parameters())  # none waits for rows to learn its width
    batches = list(NeighborLoader(graph, [-1, -1], (name, None), batch_size=5, num_workers=0))
    logits = torch.cat([model(batch) for batch in batches])
    rows = LayerPass(graph, name, torch.arange(node.num_nodes), world=World(), device=torch.device("cpu"))
    torch.testing.assert_close(model.head(rows.rows(trained_layers(model, graph, name))), logits, rtol=1e-4, atol=1e-5)
