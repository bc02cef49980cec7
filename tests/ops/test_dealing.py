"""Dealing nodes to parts, and relieving full parts: as the reference does, in pieces, within the limits, better than chance."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.ops import reference_dealing as reference


def undirected(pairs: list[tuple[int, int, int]], num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """The lists of neighbours, with weights."""
    low, high, weight = torch.tensor(pairs, dtype=torch.int64).view(-1, 3).T
    indptr, order = ops.build_csc(torch.cat([high, low]), num_nodes)
    return indptr, torch.cat([low, high])[order], torch.cat([weight, weight])[order]


def lists(graph: tuple[Tensor, Tensor, Tensor], loads: Tensor, first: int = 0, last: int | None = None) -> ops.Lists:
    indptr, neighbors, weights = graph
    last = len(indptr) - 1 if last is None else last
    begin, end = int(indptr[first]), int(indptr[last])
    return ops.Lists(
        first=first,
        indptr=indptr[first : last + 1] - begin,
        neighbors=neighbors[begin:end],
        weights=weights[begin:end],
        loads=loads[first:last],
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, int, Tensor]:
    """A graph with weights, loads of one or two kinds, a number of parts, and limits that may be too low."""
    num_nodes, kinds, num_parts = draw(st.integers(1, 10)), draw(st.integers(1, 2)), draw(st.integers(1, 4))
    ends = st.integers(0, num_nodes - 1)
    graph = undirected(draw(st.lists(st.tuples(ends, ends, st.integers(1, 3)), max_size=20)), num_nodes)
    loads = draw(st.lists(st.lists(st.integers(0, 5), min_size=kinds, max_size=kinds), min_size=num_nodes, max_size=num_nodes))
    rows = torch.tensor(loads, dtype=torch.int32)
    limit = (rows.sum(0).double() / num_parts * draw(st.sampled_from([0.8, 1.1, 2.0]))).clamp(min=1)
    return graph, rows, num_parts, limit


@given(graphs(), st.booleans(), st.integers(1, 3))
def test_dealing_is_the_reference(
    drawn: tuple[tuple[Tensor, Tensor, Tensor], Tensor, int, Tensor], ldg: bool, passes: int
) -> None:
    graph, loads, num_parts, limit = drawn
    part, expected = (torch.full((len(loads),), -1, dtype=torch.int32) for _ in range(2))
    carried, kept = (torch.zeros(num_parts, loads.size(1), dtype=torch.int64) for _ in range(2))
    parts = ops.Parts(part, carried, limit)
    for _ in range(passes):
        moved = parts.deal(lists(graph, loads), rule="ldg" if ldg else "fennel", price=1.5)
        assert moved == reference.deal(lists(graph, loads), expected, kept, limit, ldg=ldg, price=1.5)
        assert torch.equal(part, expected)
        assert torch.equal(carried, kept)


@given(graphs(), st.sampled_from([0.0, 1.0, 10.0, float("inf")]), st.data())
def test_relieving_is_the_reference(
    drawn: tuple[tuple[Tensor, Tensor, Tensor], Tensor, int, Tensor], dearest: float, data: st.DataObject
) -> None:
    graph, loads, num_parts, limit = drawn
    given_parts = st.lists(st.integers(0, num_parts - 1), min_size=len(loads), max_size=len(loads))
    part = torch.tensor(data.draw(given_parts), dtype=torch.int32)
    carried = torch.zeros(num_parts, loads.size(1), dtype=torch.int64).index_add_(0, part.long(), loads.long())
    expected, kept = part.clone(), carried.clone()
    moved = ops.Parts(part, carried, limit).relieve(lists(graph, loads), dearest=dearest)
    assert moved == reference.relieve(lists(graph, loads), expected, kept, limit, dearest=dearest)
    assert torch.equal(part, expected)
    assert torch.equal(carried, kept)


@pytest.mark.parametrize("rule", ["ldg", "fennel"])
def test_cliques_stay_together_in_pieces_as_at_once(rule: str) -> None:
    pairs = [(8 * clique + a, 8 * clique + b, 1) for clique in range(12) for a in range(8) for b in range(a)]
    pairs += [(8 * clique, 8 * clique - 1, 1) for clique in range(1, 12)]
    graph, loads = undirected(pairs, 96), torch.ones(96, 1, dtype=torch.int32)
    found = []
    for bounds in ([0, 96], [0, 5, 50, 96]):
        part = torch.full((96,), -1, dtype=torch.int32)
        parts = ops.Parts(part, torch.zeros(4, 1, dtype=torch.int64), torch.tensor([1.05 * 24]))
        for _ in range(5):
            for first, last in pairwise(bounds):
                parts.deal(lists(graph, loads, first, last), rule=rule, price=len(pairs) / 4)
        assert part.bincount(minlength=4).max() <= 1.05 * 24
        found.append(part)
    assert torch.equal(*found)
    src = torch.arange(96).repeat_interleave(graph[0].diff())
    assert (found[0][src] != found[0][graph[1]]).double().mean() < 0.25  # chance: 0.75


def test_the_cheapest_node_leaves_first() -> None:
    """Part 0 has one node too many: the last, which has no edge there, goes; part 2 is nearer to it than part 1."""
    graph = undirected([(0, 1, 1), (1, 2, 1), (3, 5, 1)], 6)
    part = torch.tensor([0, 0, 0, 0, 1, 2], dtype=torch.int32)
    parts = ops.Parts(part, torch.tensor([[4], [1], [1]]), torch.tensor([3.0]))
    assert parts.relieve(lists(graph, torch.ones(6, 1, dtype=torch.int32)), dearest=0.0) == 1
    assert part.tolist() == [0, 0, 0, 2, 1, 2]


def test_bad_arguments_are_named() -> None:
    graph, loads = undirected([(0, 1, 1)], 2), torch.ones(2, 1, dtype=torch.int32)
    part, carried, limit = torch.zeros(2, dtype=torch.int32), torch.zeros(2, 1, dtype=torch.int64), torch.tensor([2.0])
    with pytest.raises(InputError, match=r"limit \[0.0\]"):
        ops.Parts(part, carried, limit * 0)
    with pytest.raises(InputError, match=r"part torch\.int64"):
        ops.Parts(part.long(), carried, limit)
    indptr, neighbors, weights = graph
    for given_lists, message in [
        (ops.Lists(first=1, indptr=indptr, neighbors=neighbors, weights=weights, loads=loads), "nodes 1 to 2 of 2"),
        (ops.Lists(first=0, indptr=indptr, neighbors=neighbors, weights=weights, loads=loads.long()), "loads are torch.int64"),
        (ops.Lists(first=0, indptr=indptr + 1, neighbors=neighbors, weights=weights, loads=loads), "rise from 0 to 2"),
        (ops.Lists(first=0, indptr=indptr, neighbors=neighbors + 1, weights=weights, loads=loads), "neighbors holds 1 to 2"),
        (ops.Lists(first=0, indptr=indptr, neighbors=neighbors, weights=weights[1:], loads=loads), "weights has 1 entries"),
    ]:
        with pytest.raises(InputError, match=message):
            ops.Parts(part, carried, limit).deal(given_lists, rule="ldg")
