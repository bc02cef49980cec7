"""Dealing nodes to where their neighbours are: as the reference does, within the slack, and better than chance."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.ops import reference


def undirected(pairs: list[tuple[int, int, int]], num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """The lists of neighbours, with weights."""
    low, high, weight = torch.tensor(pairs, dtype=torch.int64).view(-1, 3).T
    indptr, order = ops.build_csc(torch.cat([high, low]), num_nodes)
    return indptr, torch.cat([low, high])[order], torch.cat([weight, weight])[order]


@given(st.data(), st.integers(0, 12), st.integers(1, 5), st.integers(1, 4), st.sampled_from([0.0, 0.05, 1.0]))
def test_kernel_is_the_reference(data: st.DataObject, num_nodes: int, num_parts: int, passes: int, slack: float) -> None:
    ends = st.integers(0, max(num_nodes - 1, 0))
    pairs = data.draw(st.lists(st.tuples(ends, ends, st.integers(1, 3)), max_size=20 if num_nodes else 0))
    graph = undirected(pairs, num_nodes)
    loads = torch.tensor(data.draw(st.lists(st.integers(1, 9), min_size=num_nodes, max_size=num_nodes)), dtype=torch.int64)
    order = torch.tensor(data.draw(st.permutations(range(num_nodes))), dtype=torch.int64)
    found, expected = (door.fennel(*graph, loads, order, num_parts, slack=slack, passes=passes) for door in (ops, reference))
    assert torch.equal(found, expected)


def test_cliques_stay_together_and_parts_keep_the_slack() -> None:
    pairs = [(8 * clique + a, 8 * clique + b, 1) for clique in range(12) for a in range(8) for b in range(a)]
    pairs += [(8 * clique, 8 * clique - 1, 1) for clique in range(1, 12)]
    order = torch.randperm(96, generator=torch.Generator().manual_seed(0))
    graph = undirected(pairs, 96)
    part = ops.fennel(*graph, torch.ones(96, dtype=torch.int64), order, 4, slack=0.05, passes=10)
    assert part.bincount(minlength=4).max() <= 1.05 * 24
    src = torch.arange(96).repeat_interleave(graph[0].diff())
    assert (part[src] != part[graph[1]]).double().mean() < 0.25  # chance: 0.75


def test_bad_arguments_are_named() -> None:
    indptr, neighbors, weights = undirected([(0, 1, 1)], 2)
    loads, order, options = torch.ones(2, dtype=torch.int64), torch.arange(2), {"slack": 0.1, "passes": 1}
    for arguments, message in [
        ((indptr, neighbors, weights, loads, order, 0), "num_parts=0"),
        ((indptr, neighbors, weights, loads * 0, order, 2), "loads from 0"),
        ((indptr + 1, neighbors, weights, loads, order, 2), "rise from 0 to 2"),
        ((indptr, neighbors + 1, weights, loads, order, 2), "neighbors holds 1 to 2"),
        ((indptr, neighbors, weights, loads, order - 1, 2), "order holds -1"),
        ((indptr, neighbors, weights[1:], loads, order, 2), "weights has 1 entries"),
    ]:
        with pytest.raises(InputError, match=message):
            ops.fennel(*arguments, **options)
