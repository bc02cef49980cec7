"""Message passing beside a slow twin, which goes from edge to edge; no DGL is needed."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import halohop.dgl as dgl
from halohop.dgl import function as fn
from halohop.errors import InputError, SchemaError
from halohop.nn import Hop

NUM_SRC, NUM_DST = 5, 4
EDGES = st.lists(st.tuples(st.integers(0, NUM_SRC - 1), st.integers(0, NUM_DST - 1)), max_size=14)
KINDS = st.sampled_from(["graph", "two types", "block", "hop in lists", "hop by id"])
WIDTHS = st.sampled_from([((), (), ()), ((3,), (3,), (3,)), ((2, 3), (2, 1), (2, 3)), ((2, 3), (3,), ()), ((3,), (1,), (2, 1))])
MESSAGES = st.sampled_from(["copy_u", "copy_e", *fn.BINARY])
OPERATIONS = st.sampled_from(["sum", "mean", "max", "min"])
Pairs = list[tuple[int, int]]


def made_of(kind: str, pairs: Pairs, dtype: torch.dtype) -> dgl.DGLGraph:
    ends = torch.tensor(pairs, dtype=dtype).reshape(-1, 2).t().contiguous()
    if kind == "graph":
        return dgl.graph((ends[0], ends[1]), num_nodes=NUM_SRC)
    if kind == "two types":
        return dgl.heterograph({("a", "to", "b"): ends}, {"a": NUM_SRC, "b": NUM_DST})
    block = dgl.create_block((ends[0], ends[1]), NUM_SRC, NUM_DST)
    if kind == "block":
        return block
    dst, order = ends[1].sort(stable=True)
    begins = torch.searchsorted(dst.long(), torch.arange(NUM_DST + 1))
    edges: slice | Tensor = slice(0, len(dst)) if kind == "hop in lists" else order
    hop = Hop(src=ends[0][order], begins=begins, num_src=NUM_SRC, num_dst=NUM_DST, edges=edges)
    return dgl.DGLBlock({("_N", "_E", "_N"): hop}, {"_N": NUM_SRC}, {"_N": NUM_DST})


def sides(g: dgl.DGLGraph) -> tuple[Any, Any]:
    relation = g.canonical_etypes[0]
    return g.src_frame(relation[0]), g.dst_frame(relation[2])


def padded(row: Tensor, dims: int) -> Tensor:
    return row.reshape((1,) * (dims - row.dim()) + row.shape)


def message_of(name: str, rows: dict[str, Tensor]) -> Tensor:
    """What one edge is given, by its own rows."""
    if name.startswith("copy"):
        return rows[name[-1]]
    left, operation, right = name.split("_")
    dims = max(rows[left].dim(), rows[right].dim())
    a, b = padded(rows[left], dims), padded(rows[right], dims)
    if operation == "dot":
        return (a * b).sum(-1, keepdim=True) if dims else a * b
    return {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}[operation]


def reduced(operation: str, messages: list[Tensor], like: Tensor) -> Tensor:
    if not messages:
        return torch.zeros_like(like)
    all_rows = torch.stack(messages)
    return {"sum": all_rows.sum(0), "mean": all_rows.mean(0), "max": all_rows.amax(0), "min": all_rows.amin(0)}[operation]


def columns_of(g: dgl.DGLGraph, widths: Any, dtype: torch.dtype) -> dict[str, Tensor]:
    """Values for each end of edges, at least 1, as leaves; a graph's nodes have two columns."""
    generator = torch.Generator().manual_seed(1)
    relation = g.canonical_etypes[0]
    counts = g.num_src_nodes(relation[0]), g.num_dst_nodes(relation[2]), g.num_edges()
    leaves = {
        end: (torch.rand(number, *width, generator=generator).to(dtype) + 1).requires_grad_()
        for end, number, width in zip("uve", counts, widths, strict=True)
    }
    src, dst = sides(g)
    src["u"], dst["v"], g.edata["e"] = leaves["u"], leaves["v"], leaves["e"]
    return leaves


@settings(max_examples=50, deadline=None)
@given(
    EDGES, KINDS, WIDTHS, MESSAGES, st.sampled_from(["sum", "mean", "max", "min"]), st.sampled_from([torch.int64, torch.int32])
)
def test_built_in_functions(pairs: Pairs, kind: str, widths: Any, name: str, operation: str, ids: torch.dtype) -> None:
    if "dot" in name:
        widths = (widths[0],) * 3
    g = made_of(kind, pairs, ids)
    leaves = columns_of(g, widths, torch.float64)
    ends = list(zip(*(side.tolist() for side in g.edges()), strict=True))
    built = getattr(fn, name)
    message = built(name[-1], "m") if name.startswith("copy") else built(name[0], name[-1], "m")
    g.apply_edges(message)
    g.update_all(message, getattr(fn, operation)("m", "out"))
    given = [message_of(name, {"u": leaves["u"][u], "v": leaves["v"][v], "e": leaves["e"][k]}) for k, (u, v) in enumerate(ends)]
    like = message_of(name, {end: torch.zeros(width) + 1 for end, width in zip("uve", widths, strict=True)}).double()
    number = len(leaves["v"])
    expected = [
        reduced(operation, [m for m, (_, v) in zip(given, ends, strict=True) if v == node], like) for node in range(number)
    ]
    out = sides(g)[1]["out"]
    torch.testing.assert_close(out, torch.stack(expected))
    torch.testing.assert_close(g.edata["m"], torch.stack(given) if given else like.new_zeros(0, *like.shape))
    weights = torch.linspace(1, 2, out.numel(), dtype=torch.float64).view(out.shape)
    found, wanted = (
        torch.autograd.grad((rows * weights).sum() + sum(leaf.sum() for leaf in leaves.values()), list(leaves.values()))
        for rows in (out, torch.stack(expected))
    )
    for mine, twin in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, twin)


def own_message(edges: dgl.EdgeBatch) -> dict[str, Tensor]:
    return {"m": edges.src["u"] * 2 + edges.dst["v"] + edges.data["e"], "k": edges.edges()[2].double()}


def own_reduction(nodes: dgl.NodeBatch) -> dict[str, Tensor]:
    place = torch.arange(1.0, nodes.mailbox["m"].shape[1] + 1, dtype=torch.float64)
    return {"out": (nodes.mailbox["m"] * (place * nodes.mailbox["k"]).unsqueeze(-1)).sum(1) + nodes.data["v"]}


@settings(max_examples=30, deadline=None)
@given(EDGES, KINDS)
def test_functions_of_users(pairs: Pairs, kind: str) -> None:
    g = made_of(kind, pairs, torch.int64)
    leaves = columns_of(g, ((3,), (3,), (3,)), torch.float64)
    ends = list(zip(*(side.tolist() for side in g.edges()), strict=True))
    g.update_all(own_message, own_reduction)
    if not ends:
        assert "out" not in sides(g)[1]  # the function was never called, so nobody knows the names
        return
    rows = []
    for node in range(len(leaves["v"])):
        mine = [(k, leaves["u"][u] * 2 + leaves["v"][v] + leaves["e"][k]) for k, (u, v) in enumerate(ends) if v == node]
        parts = [row * k * (place + 1) for place, (k, row) in enumerate(mine)]
        rows.append(torch.stack(parts).sum(0) + leaves["v"][node] if parts else torch.zeros(3, dtype=torch.float64))
    out = sides(g)[1]["out"]
    torch.testing.assert_close(out, torch.stack(rows))
    for mine, twin in zip(
        *(torch.autograd.grad(r.pow(2).sum(), list(leaves.values())) for r in (out, torch.stack(rows))), strict=True
    ):
        torch.testing.assert_close(mine, twin)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes_stay(dtype: torch.dtype) -> None:
    g = made_of("block", [(0, 1), (2, 1), (4, 3)], torch.int32)
    columns_of(g, ((3,), (3,), (3,)), dtype)
    for operation in (fn.sum, fn.mean, fn.max, fn.min):
        for message in (fn.copy_u("u", "m"), fn.copy_e("e", "m"), fn.u_mul_e("u", "e", "m"), fn.u_sub_v("u", "v", "m")):
            g.update_all(message, operation("m", "out"))
            assert g.dstdata["out"].dtype == dtype
    g.apply_edges(fn.u_dot_v("u", "v", "s"))
    assert g.edata["s"].dtype == dtype


def test_relations_are_reduced_to_one() -> None:
    g = dgl.heterograph(
        {("a", "x", "b"): ([0, 1], [0, 0]), ("a", "y", "b"): ([1], [1]), ("b", "z", "a"): ([], [])}, {"a": 2, "b": 3}
    )
    g.nodes["a"].data["h"], g.nodes["b"].data["h"] = torch.tensor([-1.0, -2]), torch.ones(3)
    functions = {name: (fn.copy_u("h", "m"), fn.max("m", "out")) for name in "yxz"}
    results = {}
    for cross in ("sum", "mean", "max", "min", "stack"):
        g.multi_update_all(functions, cross)
        results[cross] = g.nodes["b"].data["out"].tolist()
    assert results == {
        "sum": [-1, -2, 0],
        "mean": [-0.5, -1, 0],
        "max": [-1, -2, 0],  # of all messages: a relation without any counts for nothing
        "min": [-1, -2, 0],
        "stack": [[-1, 0], [0, -2], [0, 0]],
    }
    g.multi_update_all(functions, lambda parts: parts[0], lambda nodes: {"twice": nodes.data["out"] * 2})
    assert g.nodes["b"].data["twice"].tolist() == [0, -4, 0]
    assert g.nodes["a"].data["twice"].tolist() == [0, 0]


def test_threads_have_scopes_of_their_own() -> None:
    g = made_of("graph", [(0, 1), (1, 2)], torch.int64)
    g.ndata["h"] = torch.zeros(NUM_SRC)

    def layer(number: int) -> float:
        with g.local_scope():
            for _ in range(20):
                g.ndata["h"] = torch.full((NUM_SRC,), float(number))
                g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
                assert g.ndata["out"].sum() == 2 * number
            return float(g.ndata["h"].sum())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(layer, range(8))) == [float(number * NUM_SRC) for number in range(8)]
    assert list(g.ndata) == ["h"]
    assert g.ndata["h"].sum() == 0


def test_a_scope_ends_where_its_body_fails() -> None:
    g = made_of("graph", [(0, 1)], torch.int64)

    def body() -> None:
        with g.local_scope():
            g.ndata["h"] = torch.zeros(NUM_SRC)
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        body()
    assert list(g.ndata) == []


def alternating(nodes: dgl.NodeBatch) -> dict[str, Tensor]:
    return {f"of {nodes.mailbox['m'].shape[1]}": nodes.data["v"]}


BAD: list[tuple[Callable[[dgl.DGLGraph], Any], type[Exception], str]] = [
    (
        lambda g: g.update_all(fn.copy_u("u", "m"), fn.sum("n", "o")),
        SchemaError,
        r"sum reduces 'n', but the messages are \['m'\]",
    ),
    (lambda g: g.update_all(own_message, fn.sum("n", "o")), SchemaError, r"the messages are \['k', 'm'\]"),
    (lambda g: g.update_all(fn.copy_u("w", "m"), fn.sum("m", "o")), KeyError, "nodes of type '_N' have no 'w'"),
    (lambda g: g.apply_edges(fn.u_add_e("u", "narrow", "m")), InputError, r"\[3\] and \[2\] do not go together by 'add'"),
    (lambda g: g.apply_edges(fn.u_dot_e("u", "one", "m")), InputError, r"\[3\] and \[1\] do not go together by 'dot'"),
    (lambda g: g.apply_edges(lambda edges: edges.src["u"]), InputError, "returns a Tensor; return a dict"),
    (lambda g: g.apply_edges(lambda edges: {"x": torch.ones(2)}), InputError, r"'x' of shape \[2\] for 3 of edges"),
    (lambda g: g.apply_edges(lambda edges: {"x": 1}), InputError, "'x' of type int for 3 of edges"),
    (lambda g: g.apply_edges("copy"), InputError, "'copy' is no function of edges"),
    (lambda g: g.apply_edges(fn.copy_u("u", "m"), edges=[3]), InputError, "no edge 3, only 3"),
    (
        lambda g: g.update_all(own_message, alternating),
        InputError,
        "return the same each time",
    ),
    (lambda g: g.update_all(own_message, lambda nodes: {"x": torch.ones(9)}), InputError, "return a row for each"),
    (lambda g: g.update_all(fn.copy_u("whole", "m"), fn.sum("m", "o")), InputError, "int64"),
    (lambda g: g.update_all(fn.copy_u("u", "m"), fn.sum("m", "o"), etype="likes"), SchemaError, "'likes' names 0 relations"),
    (
        lambda g: g.multi_update_all({"_E": (fn.copy_u("u", "m"), fn.sum("m", "o"))}, "median"),
        InputError,
        "cross_reducer='median'",
    ),
    (lambda g: g.multi_update_all({"_E": fn.copy_u("u", "m")}, "sum"), InputError, r"give \(message function, reduce function\)"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD, ids=range(len(BAD)))
def test_bad_input_is_refused_and_changes_nothing(call: Any, error: type[Exception], text: str) -> None:
    g = made_of("block", [(0, 1), (2, 1), (4, 3)], torch.int64)
    columns_of(g, ((3,), (3,), (3,)), torch.float64)
    g.srcdata["whole"], g.edata["narrow"], g.edata["one"] = torch.ones(5, dtype=torch.int64), torch.ones(3, 2), torch.ones(3, 1)
    before = [sorted(frame) for frame in (g.srcdata, g.dstdata, g.edata)]
    with pytest.raises(error, match=text):
        call(g)
    assert [sorted(frame) for frame in (g.srcdata, g.dstdata, g.edata)] == before


def test_values_of_names_are_finite() -> None:
    """The greatest of nothing is 0, not what a maximum begins with."""
    g = made_of("block", [], torch.int64)
    columns_of(g, ((3,), (3,), (3,)), torch.float32)
    for operation in (fn.sum, fn.mean, fn.max, fn.min):
        g.update_all(fn.copy_u("u", "m"), operation("m", "out"))
        assert not any(math.copysign(1, value) < 0 or value for value in g.dstdata["out"].flatten().tolist())
