"""Edges are found by the user's ids, wherever they lie."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.cluster.edge_ids import _order_of, _searched
from halohop.errors import IdError, InputError, SchemaError
from halohop.testing.graphs import typed
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE_ID

GRAPH = typed({"a": 40, "b": 25}, {("a", "to", "b"): 150, ("b", "back", "a"): 90, ("a", "no", "a"): 0})


@pytest.mark.parametrize(("num_parts", "shard_each"), [(1, False), (3, False), (4, True)])
def test_gids_of_edges_are_those_whose_ids_are_stored(num_parts, shard_each):
    graph = partitioned(GRAPH, num_parts, shard_each=shard_each)
    for relation, edges in graph.schema.edges.items():
        ids = torch.randperm(edges.count)[: edges.count // 2 + 1] if edges.count else torch.empty(0, dtype=torch.int64)
        for _ in range(2):
            (found,) = graph.fetch_rows(relation, [EDGE_ID], graph.locate_edges(relation, ids.int()))
            assert torch.equal(found, ids)


@given(
    ids=st.lists(st.integers(0, 40), unique=True, min_size=1),
    wanted=st.lists(st.integers(-3, 45)),
    dtype=st.sampled_from([np.int32, np.int64]),
)
def test_an_index_finds_those_that_are_there(ids, wanted, dtype):
    """Ids with gaps, and all from 0 on in any order."""
    for held in (np.array(ids, dtype), np.array(ids, dtype).argsort().astype(dtype)):
        order = _order_of(held)
        assert (held[order] == np.sort(held)).all()
        at = order[_searched(held, order, np.array(wanted, np.int64))]
        known = held.tolist()
        assert [place for place, node in zip(at, wanted, strict=True) if node in known] == [
            known.index(node) for node in wanted if node in known
        ]


def test_ids_that_are_not_there_are_refused_by_name():
    graph = partitioned(GRAPH, 2)
    relation, edges = next((name, edges) for name, edges in graph.schema.edges.items() if edges.count)
    with pytest.raises(IdError, match=f"2 of 3 edge ids are not among the {edges.count} edges of .*, the first is {edges.count}"):
        graph.locate_edges(relation, torch.tensor([0, edges.count, -1]))
    with pytest.raises(InputError, match=r"shape \(1, 1\), but they must be one-dimensional"):
        graph.locate_edges(relation, torch.tensor([[0]]))
    with pytest.raises(SchemaError, match="unknown relation"):
        graph.locate_edges(("no", "such", "relation"), torch.tensor([0]))
