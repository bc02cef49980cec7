"""Messages and adjacencies over lists equal what a loop over edges does, in the order of lists and of ids."""

from typing import Any

import pytest
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.nn import Adjacency, Hop, messages, reduce_messages

SRC, DST = torch.tensor([2, 0, 1, 2, 0, 4]), torch.tensor([3, 1, 3, 0, 1, 3])  # destination 2 has no edge


def edges(dtype: torch.dtype = torch.int64) -> Adjacency:
    return Adjacency(5, 4, (SRC.to(dtype), DST.to(dtype)))


def rows(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> dict[Any, Tensor]:
    torch.manual_seed(0)
    sizes = {"src": 5, "dst": 4, "edge": 6}
    return {end: torch.randint(1, 9, (number, *shape)).to(dtype) for end, number in sizes.items()}


def by_loop(operation: str, first: tuple[str, Tensor], second: tuple[str, Tensor]) -> Tensor:
    found = []
    for number, (src, dst) in enumerate(zip(SRC.tolist(), DST.tolist(), strict=True)):
        at = {"src": src, "dst": dst, "edge": number}
        a, b = first[1][at[first[0]]], second[1][at[second[0]]]
        value = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b, "dot": a * b}[operation]
        found.append(value.sum(-1, keepdim=True) if operation == "dot" and value.dim() else value)
    return torch.stack(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "dot"])
@pytest.mark.parametrize("ends", ["src dst", "dst src", "src edge", "edge dst"])
def test_messages_equal_a_loop(dtype: torch.dtype, shape: tuple[int, ...], operation: str, ends: str) -> None:
    given = rows(shape, dtype)
    sides: Any = [(end, given[end]) for end in ends.split()]
    expected = by_loop(operation, *sides)
    adjacency = edges(torch.int32)
    torch.testing.assert_close(messages(adjacency, operation, *sides), expected)
    torch.testing.assert_close(messages(adjacency.hop, operation, *sides), expected[adjacency.hop.edge_ids])
    if dtype.is_floating_point:
        sums = expected.new_zeros(4, *expected.shape[1:]).index_add(0, DST, expected)
        torch.testing.assert_close(reduce_messages(adjacency.hop, "sum", operation, *sides), sums)
        least = torch.stack([expected[node == DST].amin(0) if node != 2 else 0 * expected[0] for node in range(4)])
        torch.testing.assert_close(reduce_messages(adjacency.hop, "min", operation, *sides), least)


@pytest.mark.parametrize("end", ["src", "dst", "edge"])
def test_rows_are_copied_and_reduced(end: Any) -> None:
    given, at = rows((2,))[end], {"src": SRC, "dst": DST, "edge": torch.arange(6)}[end]
    torch.testing.assert_close(messages(edges(), "copy", (end, given)), given[at])
    means = torch.stack([given[at][node == DST].sum(0) / max(1, int((node == DST).sum())) for node in range(4)])
    torch.testing.assert_close(reduce_messages(edges().hop, "mean", "copy", (end, given)), means)


def test_heads_of_weights() -> None:
    x, w = torch.randn(5, 2, 3), torch.randn(6, 2, 1)
    expected = torch.zeros(4, 2, 3).index_add(0, DST, x[SRC] * w)
    torch.testing.assert_close(reduce_messages(edges().hop, "sum", "mul", ("edge", w), ("src", x)), expected)


def test_edges_of_nodes() -> None:
    for dtype in (torch.int32, torch.int64):
        found = edges(dtype).to_nodes(torch.tensor([3, 2, 1]))
        assert [ids.tolist() for ids in found] == [[2, 1, 4, 0, 0], [3, 3, 3, 1, 1], [0, 2, 5, 1, 4]]
        found = edges(dtype).from_nodes(torch.tensor([2, 3]))
        assert [ids.tolist() for ids in found] == [[2, 2], [3, 0], [0, 3]]
        assert {ids.dtype for ids in found} == {dtype}
    pair, ids = edges().between(torch.tensor([0, 2, 0]), torch.tensor([1, 1, 1]))
    assert (pair.tolist(), ids.tolist()) == ([0, 0, 2, 2], [1, 4, 1, 4])
    assert edges().between(SRC[:0], DST[:0])[0].tolist() == []


def test_lists_and_ids() -> None:
    hop = edges().hop
    listed = Adjacency(5, 4, hop)
    assert [ends.tolist() for ends in listed.ends] == [SRC.tolist(), DST.tolist()]
    assert listed.reversed().hop.src.tolist() == edges().out.src.tolist()
    assert hop.by_id(hop.of_edges(torch.arange(6))).tolist() == list(range(6))
    part = Hop(src=SRC[4:5], begins=torch.tensor([0, 1]), num_src=5, num_dst=1, edges=slice(4, 5))
    assert part.edge_ids.tolist() == [4]
    assert edges().kept(torch.tensor([5, 1])).hop.edge_ids.tolist() == [1, 0]
    assert edges().of_dtype(torch.int32).to("cpu").hop.src.dtype == torch.int32


def test_destinations_go_together_by_their_number_of_edges() -> None:
    found = [(nodes.tolist(), at.tolist()) for nodes, at in edges().hop.by_degree()]
    assert found == [([0], [[0]]), ([1], [[1, 2]]), ([3], [[3, 4, 5]])]
    assert list(Adjacency(2, 2, (SRC[:0], SRC[:0])).hop.by_degree()) == []


def test_what_is_refused() -> None:
    x, hop = torch.ones(5, 2), edges().hop
    for call, said in (
        (lambda: messages(hop, "pow", ("src", x), ("dst", x[:4])), "'pow' of 2 sides"),
        (lambda: messages(hop, "add", ("src", x)), "'add' of 1 sides"),
        (lambda: messages(hop, "add", ("src", x), ("edge", torch.ones(6, 3))), "do not go together by 'add'"),
        (lambda: messages(hop, "copy", ("edge", x)), "5 rows for the 6 edges"),
        (lambda: reduce_messages(hop, "prod", "copy", ("src", x)), "reduce='prod'"),
    ):
        with pytest.raises(InputError, match=said):
            call()
