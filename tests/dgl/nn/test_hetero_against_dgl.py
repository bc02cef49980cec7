"""Layers of typed graphs beside DGL's own: every aggregate, blocks and whole graphs, and the R-GCN of its entity example."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from halohop import dgl
from tests.support.dgl_layers import made_alike, same_results
from tests.support.real_dgl import real_dgl

Relation = tuple[str, str, str]

COUNTS = {"author": 9, "paper": 12, "venue": 3}
DESTINATIONS = {"author": 4, "paper": 6, "venue": 0}
EDGES: dict[Relation, int] = {
    ("author", "writes", "paper"): 30,
    ("paper", "cites", "paper"): 25,
    ("paper", "written_by", "author"): 20,
    ("venue", "shows", "paper"): 0,  # a relation without edges
}


@pytest.fixture(scope="module", name="theirs")
def _theirs() -> Any:
    return real_dgl()


def typed(of: Any, block: bool) -> Any:
    torch.manual_seed(0)
    counts = DESTINATIONS if block else COUNTS
    ends = {
        relation: (torch.randint(COUNTS[relation[0]], (number,)), torch.randint(max(counts[relation[2]], 1), (number,)))
        for relation, number in EDGES.items()
    }
    if block:
        return of.create_block(ends, num_src_nodes=COUNTS, num_dst_nodes=DESTINATIONS)
    return of.heterograph(ends, num_nodes_dict=COUNTS)


def rows(width: int = 5) -> dict[str, Tensor]:
    torch.manual_seed(1)
    return {kind: torch.randn(number, width) for kind, number in COUNTS.items()}


def combined(parts: list[Tensor], kind: str) -> Tensor:
    return torch.stack(parts).prod(0) * len(kind)


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("aggregate", ["sum", "mean", "max", "min", "stack", combined])
def test_every_aggregate(theirs: Any, aggregate: Any, block: bool) -> None:
    def make(of: Any) -> Callable[[], nn.Module]:
        return lambda: of.nn.HeteroGraphConv(
            {
                "writes": of.nn.GraphConv(5, 3),
                ("paper", "cites", "paper"): of.nn.SAGEConv(5, 3, "mean"),
                "written_by": of.nn.SAGEConv((5, 5), 3, "pool"),
                "shows": of.nn.GraphConv(5, 3, norm="right"),
            },
            aggregate,
        )

    layers = made_alike(make(dgl), make(theirs))
    graphs = typed(dgl, block), typed(theirs, block)
    same_results(*layers, graphs, rows())
    here = {kind: torch.randn((DESTINATIONS if block else COUNTS)[kind], 5) for kind in COUNTS}
    same_results(*layers, graphs, (rows(), here))
    some = {kind: values for kind, values in rows().items() if kind != "author"}
    if block:
        same_results(*layers, graphs, some)


def test_layers_with_heads_share_their_weights_and_take_arguments(theirs: Any) -> None:
    def make(of: Any) -> Callable[[], nn.Module]:
        def made() -> nn.Module:
            gat = of.nn.GATConv(5, 3, 2)
            return of.nn.HeteroGraphConv({name: gat for _, name, _ in EDGES}, "mean")  # type: ignore[no-any-return]

        return made

    layers = made_alike(make(dgl), make(theirs))
    graphs = typed(dgl, True), typed(theirs, True)
    same_results(*layers, graphs, rows(), mod_kwargs={"writes": {"edge_weight": torch.rand(30)}})
    same_results(*layers, graphs, rows(), mod_args={"cites": (torch.rand(25),)})


class RelationalLayer(nn.Module):
    """The layer of DGL's example of entities: a matrix per relation made of bases, the mean over in-neighbours, own rows."""

    def __init__(self, of: Any, width: int, out: int, names: list[str], activation: Any = None) -> None:
        super().__init__()
        self.names, self.activation = names, activation
        self.conv = of.nn.HeteroGraphConv(
            {name: of.nn.GraphConv(width, out, norm="right", weight=False, bias=False) for name in names}
        )
        self.basis = of.nn.WeightBasis((width, out), 2, len(names))
        self.loop = nn.Parameter(torch.empty(width, out))
        nn.init.xavier_uniform_(self.loop, gain=nn.init.calculate_gain("relu"))

    def forward(self, g: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        weight = self.basis()
        arguments = {name: {"weight": matrix} for name, matrix in zip(self.names, weight.unbind(), strict=True)}
        own = {kind: values[: g.number_of_dst_nodes(kind)] for kind, values in inputs.items()} if g.is_block else inputs
        made = self.conv(g, inputs, mod_kwargs=arguments)
        made = {kind: values + own[kind] @ self.loop for kind, values in made.items()}
        return made if self.activation is None else {kind: self.activation(values) for kind, values in made.items()}


class Entities(nn.Module):
    """Two of them, on two blocks or twice on a graph."""

    def __init__(self, of: Any) -> None:
        super().__init__()
        names = sorted({name for _, name, _ in EDGES})
        self.layers = nn.ModuleList([RelationalLayer(of, 5, 4, names, F.relu), RelationalLayer(of, 4, 3, names)])

    def forward(self, graphs: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        for layer, graph in zip(self.layers, graphs, strict=True):
            inputs = layer(graph, inputs)
        return inputs


def test_entity_classification(theirs: Any) -> None:
    layers = made_alike(lambda: Entities(dgl), lambda: Entities(theirs))
    whole = typed(dgl, False), typed(theirs, False)
    same_results(*layers, ([whole[0]] * 2, [whole[1]] * 2), {**rows(), "venue": rows()["venue"]})


@pytest.mark.parametrize("norm_by", ["dst", "src"])
def test_softmax_over_relations(theirs: Any, norm_by: str) -> None:
    logits = {relation: torch.randn(number, 2, 1) for relation, number in EDGES.items() if number}
    found = []
    for of in (dgl, theirs):
        graph = typed(of, False)
        graph = graph.edge_type_subgraph(list(logits)) if of is theirs else graph  # DGL's wants logits of all relations
        out = of.nn.functional.edge_softmax(graph, logits, norm_by=norm_by)
        found.append({relation: out[relation] for relation in logits})
    torch.testing.assert_close(*found)
