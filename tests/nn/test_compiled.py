"""Layers in compiled models: over lists where they are given a `Hop`, and PyG's own code where they are given edges."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from halohop.nn import GATConv, GATv2Conv, HGTConv, Hop, SAGEConv
from halohop.nn.hops import grouped

NODES, WIDTH = {"a": 12, "b": 9}, 4


def lists(src: str, dst: str) -> Hop:
    """Edges in no order, some from a node to itself."""
    ends = torch.stack([torch.randint(NODES[src], (40,)), torch.randint(NODES[dst] - 2, (40,))])
    return grouped(ends, NODES[src], NODES[dst])


RELATIONS = [("a", "to", "a"), ("b", "to", "a"), ("a", "to", "b")]
LAYERS = {
    "sage": lambda: SAGEConv(WIDTH, 6),
    "gat": lambda: GATConv(WIDTH, 3, heads=2),
    "gatv2": lambda: GATv2Conv(WIDTH, 3, heads=2, edge_dim=2),
    "hgt": lambda: HGTConv(WIDTH, 6, (list(NODES), RELATIONS), heads=2),
}


def given(name: str) -> tuple[Any, ...]:
    rows = {key: torch.randn(number, WIDTH, requires_grad=True) for key, number in NODES.items()}
    if name == "hgt":
        return rows, {relation: lists(relation[0], relation[2]) for relation in RELATIONS}
    edges = lists("a", "a")
    return rows["a"], edges, *([torch.randn(edges.num_edges, 2)] if name == "gatv2" else [])


def gradients(layer: nn.Module, out: Tensor | dict[str, Tensor]) -> list[Tensor | None]:
    layer.zero_grad()
    sum((rows * rows).sum() for rows in (out.values() if isinstance(out, dict) else (out,))).backward()  # type: ignore[union-attr]
    return [parameter.grad for parameter in layer.parameters()]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.full] * (name == "hgt")) for name in LAYERS])
def test_a_compiled_layer_is_over_lists(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one program, with gradients; PyG's code would make a message for each edge."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    layer, arguments = LAYERS[name](), given(name)
    monkeypatch.setattr(type(layer), "propagate", None)
    out = layer(*arguments)
    expected = gradients(layer, out)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    again = compiled(*arguments)
    torch.testing.assert_close(again, out)
    torch.testing.assert_close(gradients(layer, again), expected)


def test_a_compiled_layer_that_is_given_edges_is_pygs() -> None:
    torch._dynamo.reset()
    layer, (x, edges) = SAGEConv(WIDTH, 6), given("sage")
    compiled = torch.compile(layer, backend="eager")
    torch.testing.assert_close(compiled(x, edges.ends), layer(x, edges)[:, :])
