"""Message passing gives what DGL gives, results and gradients, in one process with it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import halohop.dgl as dgl
from halohop.dgl import function
from halohop.dgl.nn.functional import edge_softmax
from tests.support.real_dgl import real_dgl

real = real_dgl()
pytestmark = pytest.mark.filterwarnings("ignore:The input graph for the user-defined edge function")

REL = ("_N", "_E", "_N")
KINDS = ["graph", "block", "empty block", "no edges", "two types"]


def pair(kind: str) -> tuple[dgl.DGLGraph, Any]:
    """The same graph here and in DGL: with nodes that have no edge, edges twice, and loops."""
    generator = torch.Generator().manual_seed(0)
    src, dst = (torch.randint(high, (40,), generator=generator) for high in (11, 7))
    if kind == "graph":
        return dgl.graph((src, dst), num_nodes=12), real.graph((src, dst), num_nodes=12)
    if kind == "block":
        return dgl.create_block((src, dst), 12, 8), real.create_block((src, dst), 12, 8)
    if kind == "empty block":
        none = torch.empty(0, dtype=torch.int64)
        return dgl.create_block((none, none), 12, 8), real.create_block((none, none), 12, 8)
    if kind == "no edges":
        return dgl.graph(([], []), num_nodes=12), real.graph(([], []), num_nodes=12)
    edges = {("a", "to", "b"): (src, dst)}
    return dgl.heterograph(edges, {"a": 12, "b": 8}), real.heterograph(edges, {"a": 12, "b": 8})


def sides(g: Any) -> tuple[Any, Any]:
    """The columns of sources and of destinations."""
    if len(g.ntypes) == 2 and not g.is_block:
        return g.nodes["a"].data, g.nodes["b"].data
    return g.srcdata, g.dstdata


Widths = dict[str, tuple[int, ...]]


def compared(kind: str, widths: Widths, run: Callable[[Any, Any], Tensor], names: str = "uve", gradient: bool = True) -> None:
    """Runs the same on both, with columns `u`, `v` and `e` of these widths, and compares results and gradients."""
    results = []
    mine, theirs = pair(kind)
    for g in (mine, theirs):
        generator = torch.Generator().manual_seed(0)
        src, dst = sides(g)
        counts = {"u": g.num_src_nodes() if len(g.ntypes) < 3 else 0, "v": g.num_dst_nodes(), "e": g.num_edges()}
        if kind == "two types":
            counts["u"], counts["v"] = 12, 8
        leaves = {
            name: (torch.randn(counts[name], *widths[name], generator=generator) + 2 * (name == "v")).requires_grad_()
            for name in names
        }
        for name, frame in zip("uve", (src, dst, g.edata), strict=True):
            if name in leaves:
                frame[name] = leaves[name]
        out = run(g, dgl.function if g is mine else real.function)
        weights = torch.linspace(-1, 1, out.numel()).view(out.shape)
        loss = (out * weights).sum() if gradient else sum(leaf.sum() for leaf in leaves.values())
        grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        results.append((out, [torch.zeros_like(x) if g is None else g for x, g in zip(leaves.values(), grads, strict=True)]))
    (out, gradients), (expected, expected_gradients) = results
    assert out.shape == expected.shape
    assert out.dtype == expected.dtype
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    for name, gradient, expected_gradient in zip(names, gradients, expected_gradients, strict=True):
        torch.testing.assert_close(
            gradient, expected_gradient, atol=1e-5, rtol=1e-5, msg=lambda text, name=name: f"gradient of {name}: {text}"
        )


BINARY = sorted(function.BINARY)
SHAPES: list[Widths] = [
    {"u": (4,), "v": (4,), "e": (4,)},
    {"u": (), "v": (), "e": ()},
    {"u": (3, 4), "v": (3, 4), "e": (3, 4)},
]
BROADCAST: list[Widths] = [
    {"u": (3, 4), "v": (3, 1), "e": (3, 1)},
    {"u": (4,), "v": (1,), "e": ()},
    {"u": (3, 1), "v": (3, 4), "e": (4,)},
    {"u": (2, 3, 4), "v": (2, 1, 1), "e": (2, 3, 1)},
]


def edge_rows(name: str) -> Callable[[Any, Any], Tensor]:
    left, _, right = name.split("_")

    def run(g: Any, fn: Any) -> Tensor:
        g.apply_edges(getattr(fn, name)(left, right, "m"))
        rows: Tensor = g.edata["m"]
        return rows

    return run


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kind", KINDS)
def test_each_binary_function_on_edges(kind: str, name: str) -> None:
    for widths in SHAPES:
        compared(kind, widths, edge_rows(name))
    if "dot" not in name:
        for widths in BROADCAST:
            compared(kind, widths, edge_rows(name))


def received(message: str, reduce: str) -> Callable[[Any, Any], Tensor]:
    def run(g: Any, fn: Any) -> Tensor:
        built = getattr(fn, message)
        parts = message.split("_")
        made = built(parts[1], "m") if parts[0] == "copy" else built(parts[0], parts[2], "m")
        g.update_all(made, getattr(fn, reduce)("m", "out"))
        rows: Tensor = sides(g)[1]["out"]
        reached = g.in_degrees() > 0  # the others' gradient by max and min goes to the first row, in DGL
        return rows * reached.view(-1, *[1] * (rows.dim() - 1))

    return run


@pytest.mark.parametrize("message", ["copy_u", "copy_e", *BINARY])
@pytest.mark.parametrize("kind", KINDS)
def test_each_pair_of_built_in_functions(kind: str, message: str) -> None:
    for reduce in ("sum", "mean", "max", "min"):
        for widths in SHAPES[:1] if "dot" in message else [*SHAPES, *BROADCAST]:
            defect = reduce in ("max", "min") and kind in (
                "empty block",
                "no edges",
            )  # DGL's gradient reads a row that is not there
            compared(kind, widths, received(message, reduce), gradient=not defect)


def own_messages(edges: Any) -> dict[str, Tensor]:
    src, dst, eid = edges.edges()
    assert len(src) == len(dst) == len(eid) == len(edges) == edges.batch_size()
    return {"m": edges.src["u"] * edges.dst["v"] + edges.data["e"] * eid.view(-1, 1), "k": edges.data["e"].sum(1)}


def own_reduction(nodes: Any) -> dict[str, Tensor]:
    messages, scores = nodes.mailbox["m"], nodes.mailbox["k"]
    place = torch.arange(1.0, messages.shape[1] + 1).view(1, -1, 1)  # the order of messages shows
    assert messages.shape[:2] == scores.shape == (len(nodes), messages.shape[1])
    return {"out": (messages * place * scores.softmax(1).unsqueeze(-1)).sum(1) + nodes.data["v"]}


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_users(kind: str) -> None:
    def on_edges(g: Any, _: Any) -> Tensor:
        g.apply_edges(own_messages)
        rows: Tensor = g.edata["m"]
        return rows

    def both(g: Any, _: Any) -> Tensor:
        sides(g)[1]["out"] = torch.zeros(12 if kind in ("graph", "no edges") else 8, 4, requires_grad=True)
        g.update_all(own_messages, own_reduction, lambda nodes: {"out": nodes.data["out"] * 2})
        rows: Tensor = sides(g)[1]["out"]
        return rows

    def built_in_reduction(g: Any, fn: Any) -> Tensor:
        g.update_all(own_messages, fn.mean("m", "out"))
        rows: Tensor = sides(g)[1]["out"]
        return rows

    def built_in_message(g: Any, fn: Any) -> Tensor:
        sides(g)[1]["out"] = torch.zeros(12 if kind in ("graph", "no edges") else 8, 4, requires_grad=True)
        g.update_all(fn.u_mul_e("u", "e", "m"), lambda nodes: {"out": nodes.mailbox["m"].prod(1)})
        rows: Tensor = sides(g)[1]["out"]
        return rows

    for run in (on_edges, both, built_in_reduction, built_in_message):
        compared(kind, SHAPES[0], run)


def test_some_edges_and_some_nodes() -> None:
    def some(g: Any, fn: Any) -> Tensor:
        g.edata["out"] = g.edata["e"] * 3
        g.apply_edges(fn.u_add_v("u", "u", "out"), edges=[5, 2])
        g.apply_edges(lambda edges: {"new": edges.src["u"] + edges.data["e"]}, edges=torch.tensor([0, 3]))
        g.apply_nodes(lambda nodes: {"n": nodes.data["u"] * 2}, v=[1, 4])
        return torch.cat([g.edata["out"], g.edata["new"], g.ndata["n"]])

    compared("graph", SHAPES[0], some, names="ue")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [(), (1,), (3,), (3, 1)])
def test_softmax_over_in_edges(kind: str, width: tuple[int, ...]) -> None:
    from dgl.nn.functional import edge_softmax as real_softmax  # type: ignore[import-not-found]

    def run(g: Any, fn: Any, **options: Any) -> Tensor:
        scores = g.edata["e"][options["eids"]] if "eids" in options else g.edata["e"]
        rows: Tensor = (edge_softmax if fn is dgl.function else real_softmax)(g, scores, **options)
        return rows

    widths: Widths = {"e": width}
    compared(kind, widths, run, names="e")
    compared(kind, widths, lambda g, fn: run(g, fn, norm_by="src"), names="e")
    if kind == "graph":
        compared(kind, widths, lambda g, fn: run(g, fn, eids=torch.tensor([7, 1, 2, 30])), names="e")


TYPED = {("a", "x", "b"): ([0, 1, 2], [1, 2, 1]), ("a", "y", "b"): ([0], [1]), ("b", "z", "a"): ([2, 0], [0, 2])}
WITH_EMPTY = {**TYPED, ("a", "w", "b"): ([], [])}


def every_other(parts: list[Tensor]) -> Tensor:
    """A cross reducer that shows the order of its parts."""
    return torch.stack([(place + 1) * part for place, part in enumerate(parts)]).sum(0)


@pytest.mark.parametrize(
    ("edges", "reduce", "cross"),
    [
        *((WITH_EMPTY, reduce, cross) for reduce in ("sum", "mean") for cross in ("sum", "mean", "max", "min", every_other)),
        *((WITH_EMPTY, reduce, "stack") for reduce in ("sum", "mean", "max", "min")),  # DGL drops messages of these by others
        (TYPED, "max", "max"),  # with an empty relation DGL counts a 0 of it
        (TYPED, "min", "min"),
    ],
)
def test_several_relations(edges: Any, reduce: str, cross: Any) -> None:
    found = []
    for module in (dgl, real):
        g = module.heterograph(edges, {"a": 4, "b": 4})
        generator = torch.Generator().manual_seed(1)
        leaves = [torch.randn(4, 3, generator=generator, requires_grad=True) for _ in "ab"]
        g.ndata["h"] = dict(zip("ab", leaves, strict=True))
        fn = dgl.function if module is dgl else real.function
        both = (fn.copy_u("h", "m"), getattr(fn, reduce)("m", "out"))
        functions = {name: both for name in "yzwx" if name in g.etypes}
        g.multi_update_all(functions, cross, lambda nodes: {"out": nodes.data["out"] * 2})
        out = g.ndata["out"]
        loss = sum((rows.reshape(4, -1) * torch.linspace(1, 2, rows.numel()).view(4, -1)).sum() for rows in out.values())
        gradients = torch.autograd.grad(loss, leaves) if reduce in ("sum", "mean") and cross not in ("max", "min") else ()
        found.append([out["a"], out["b"], *gradients])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
