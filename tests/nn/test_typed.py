"""HGT over lists gives what PyG's layer gives: rows and gradients, of any edges and of hops."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric import nn as pyg
from torch_geometric.nn import Linear

from halohop.errors import InputError
from halohop.nn import HGTConv, Hop, fuse
from halohop.nn.hops import grouped

TYPES = ["author", "paper", "venue"]
RELATIONS = [
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "rev_writes", "author"),
    ("venue", "has", "paper"),
]
NUMBERS = {"author": 12, "paper": 20, "venue": 3}
WIDTH = 8


def edges_of(empty: tuple[str, ...] = ()) -> dict[Any, Tensor]:
    """Edges in any order; each third paper has none."""
    return {
        (src, name, dst): torch.stack(
            [
                torch.randint(NUMBERS[src], (0 if name in empty else 40,)),
                torch.randint(NUMBERS[dst] // 3 * 2, (0 if name in empty else 40,)),
            ]
        )
        for src, name, dst in RELATIONS
    }


def both(width: Any = WIDTH, out: int = WIDTH) -> tuple[pyg.HGTConv, HGTConv]:
    torch.manual_seed(0)
    layer = pyg.HGTConv(width, out, (TYPES, RELATIONS), heads=2)
    for parameter in (*layer.skip.values(), *layer.p_rel.values()):
        torch.nn.init.normal_(parameter)
    listed = fuse(copy.deepcopy(layer))
    assert isinstance(listed, HGTConv)
    assert list(listed.state_dict()) == list(layer.state_dict())
    return layer, listed


def results(layer: pyg.HGTConv, x: dict[str, Tensor], edges: dict[Any, Any], kept: dict[str, int]) -> list[Tensor]:
    """The first rows of each type, and all gradients."""
    rows = {name: part.clone().requires_grad_() for name, part in x.items()}
    out = {name: part[: kept[name]] for name, part in layer(rows, edges).items()}
    total = sum((part * torch.linspace(-1, 1, part.numel()).view_as(part)).sum() for part in out.values())
    given = [*rows.values(), *layer.parameters()]
    return [*out.values(), *torch.autograd.grad(total, given, materialize_grads=True)]


def assert_same(one: list[Tensor], other: list[Tensor]) -> None:
    for left, right in zip(one, other, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("empty", [(), ("cites",), ("writes", "cites", "has"), tuple(name for _, name, _ in RELATIONS)], ids=str)
@pytest.mark.parametrize("out", [WIDTH, 6])
def test_any_edges(out: int, empty: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    layer, listed = both(out=out)
    monkeypatch.setattr(listed, "propagate", None)
    edges, x = edges_of(empty), {name: torch.randn(number, WIDTH) for name, number in NUMBERS.items()}
    assert_same(results(listed, x, edges, NUMBERS), results(layer, x, edges, NUMBERS))
    few = {relation: edges[relation] for relation in RELATIONS[:2]}  # nothing leads to authors now
    assert_same(results(listed, x, few, NUMBERS), results(layer, x, few, NUMBERS))


def hops_of(edges: dict[Any, Tensor], kept: dict[str, int]) -> dict[Any, Hop]:
    """The edges that lead to the first nodes of each type."""
    return {
        relation: grouped(ends[:, ends[1] < kept[relation[2]]], NUMBERS[relation[0]], kept[relation[2]])
        for relation, ends in edges.items()
    }


@pytest.mark.parametrize("hooked", [False, True])
def test_hops_of_few_destinations(hooked: bool) -> None:
    """As `hops` gives them; the same where PyG's code runs, because of a hook."""
    layer, listed = both()
    if hooked:
        listed.k_rel.register_forward_hook(lambda *_: None)
    kept = {"author": 5, "paper": 9, "venue": 3}
    edges, x = edges_of(), {name: torch.randn(number, WIDTH) for name, number in NUMBERS.items()}
    found = listed(x, hops_of(edges, kept))
    assert {name: len(rows) for name, rows in found.items()} == {"paper": 9, "author": 5}
    assert_same(results(listed, x, hops_of(edges, kept), kept), results(layer, x, edges, kept))


def test_widths_that_are_not_known_yet() -> None:
    listed = fuse(pyg.HGTConv(-1, WIDTH, (TYPES, RELATIONS), heads=2))
    x, edges = {name: torch.randn(number, 5) for name, number in NUMBERS.items()}, edges_of()
    first = listed(x, edges)
    for name, rows in listed(x, edges).items():
        torch.testing.assert_close(rows, first[name])


def test_fewer_rows_than_a_hop_reads() -> None:
    _, listed = both()
    x = {name: torch.randn(number - 1, WIDTH) for name, number in NUMBERS.items()}
    with pytest.raises(InputError, match="give hops to layers outermost"):
        listed(x, hops_of(edges_of(), NUMBERS))


def test_layers_of_types_may_be_hooked() -> None:
    layer, listed = both()
    seen: list[str] = []
    assert isinstance(listed.kqv_lin.lins["paper"], Linear)
    listed.kqv_lin.lins["paper"].register_forward_hook(lambda *_: seen.append("paper"))
    edges, x = edges_of(), {name: torch.randn(number, WIDTH) for name, number in NUMBERS.items()}
    assert_same(results(listed, x, edges, NUMBERS), results(layer, x, edges, NUMBERS))
    assert seen
