"""Lists of neighbours, as the reference makes them."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from halohop import ops
from halohop.ops import reference_adjacency as reference

EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40)


def ends(edges: list[tuple[int, int]], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    src, dst = torch.tensor(edges, dtype=dtype).view(-1, 2).T
    return src.contiguous(), dst.contiguous()


def made(
    edges: list[tuple[int, int]], num_nodes: int, dtype: torch.dtype, *, shift: tuple[int, int] = (0, 0)
) -> tuple[Tensor, Tensor]:
    indptr = torch.zeros(num_nodes + 1, dtype=torch.int64)
    ops.count_ends(*ends(edges, dtype), shift, indptr[1:])
    indptr = indptr.cumsum(0)
    neighbors, cursor = torch.empty(int(indptr[-1]), dtype=dtype), indptr[:-1].clone()
    ops.place_ends(*ends(edges, dtype), shift, 0, cursor, neighbors)
    assert torch.equal(cursor, indptr[1:])
    return indptr, neighbors


def listed(indptr: Tensor, values: Tensor) -> list[list[int]]:
    return [part.tolist() for part in values.split(indptr.diff().tolist())]


@given(EDGES, st.sampled_from([torch.int32, torch.int64]), st.sampled_from([(0, 0), (0, 3), (2, 5)]))
def test_lists_and_weights(edges: list[tuple[int, int]], dtype: torch.dtype, shift: tuple[int, int]) -> None:
    expected = reference.lists_of([(u + shift[0], v + shift[1]) for u, v in edges], 12)
    indptr, neighbors = made(edges, 12, dtype, shift=shift)
    assert listed(indptr, neighbors) == expected
    neighbors, weights = ops.merge_lists(indptr, neighbors)
    merged = reference.merged(expected)
    assert listed(indptr, neighbors) == [list(near_to) for near_to in merged]
    assert listed(indptr, weights) == [list(near_to.values()) for near_to in merged]


@given(EDGES, st.integers(0, 7), st.integers(0, 7))
def test_a_range_of_nodes_at_a_time(edges: list[tuple[int, int]], one: int, other: int) -> None:
    low, high = sorted((one, other))
    indptr, whole = made(edges, 7, torch.int32)
    cursor = indptr[low:high] - indptr[low]
    part = torch.empty(int(indptr[high] - indptr[low]), dtype=torch.int32)
    ops.place_ends(*ends(edges, torch.int32), (0, 0), low, cursor, part)
    assert torch.equal(part, whole[indptr[low] : indptr[high]])


@given(EDGES, st.sets(st.integers(0, 6)))
def test_the_graph_of_some_nodes(edges: list[tuple[int, int]], chosen: set[int]) -> None:
    indptr, neighbors = made(edges, 7, torch.int64)
    neighbors, weights = ops.merge_lists(indptr, neighbors)
    nodes = torch.tensor(sorted(chosen), dtype=torch.int64)
    starts, near, weigh = ops.induced(indptr, neighbors, weights, nodes)
    expected = reference.induced(reference.merged(reference.lists_of(edges, 7)), nodes)
    assert listed(starts, near) == [list(near_to) for near_to in expected]
    assert listed(starts, weigh) == [list(near_to.values()) for near_to in expected]
