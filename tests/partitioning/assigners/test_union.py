"""The union graph: what it counts and drops; on disk as in memory."""

from pathlib import Path

import pytest
import torch

from halohop.partitioning.assigners import union
from halohop.partitioning.assigners.union import union_graph
from halohop.store.tables import EdgeTable, GraphTables, NodeTable


def test_union_graph_counts_parallel_edges_and_drops_loops() -> None:
    tables = GraphTables(
        nodes={"a": NodeTable(num_nodes=2), "b": NodeTable(num_nodes=2)},
        edges={
            ("a", "x", "b"): EdgeTable(src=torch.tensor([0, 0, 1]), dst=torch.tensor([1, 1, 0])),
            ("b", "y", "a"): EdgeTable(src=torch.tensor([1]), dst=torch.tensor([0])),
            ("a", "z", "a"): EdgeTable(src=torch.tensor([0, 0, 1]), dst=torch.tensor([0, 1, 0])),
        },
    )
    graph = union_graph(tables)
    assert graph.weights is not None
    found = {
        (node, int(graph.neighbors[edge])): int(graph.weights[edge])
        for node in range(4)
        for edge in range(int(graph.indptr[node]), int(graph.indptr[node + 1]))
    }
    assert found == {(0, 3): 3, (3, 0): 3, (1, 2): 1, (2, 1): 1, (0, 1): 2, (1, 0): 2}


@pytest.mark.parametrize("room", [1, 2000, 10**6])
@pytest.mark.full
def test_on_disk_as_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Whatever is read at a time, and however many buckets there are; one node has more neighbours than a bucket."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(50, (2, 900), generator=generator)
    ends[1, :300] = 7
    tables = GraphTables(
        nodes={"a": NodeTable(num_nodes=50), "b": NodeTable(num_nodes=60)},
        edges={
            ("a", "x", "b"): EdgeTable(src=ends[0], dst=ends[1]),
            ("a", "y", "a"): EdgeTable(src=ends[0].int(), dst=ends[0].roll(1).int()),
        },
    )
    whole = union_graph(tables, merged=False)
    monkeypatch.setattr(union, "_PIECE", 64)
    graph = union_graph(tables, merged=False, folder=tmp_path, room=room)
    assert torch.equal(graph.indptr, whole.indptr)
    for low, high in zip(whole.indptr.tolist(), whole.indptr.tolist()[1:], strict=False):
        assert torch.equal(graph.neighbors[low:high].sort().values, whole.neighbors[low:high].sort().values)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["indptr.npy", "neighbors.npy"]
    pieces = list(graph.pieces(33))
    assert [node for low, high in pieces for node in range(low, high)] == [*range(33, 110), *range(33)]
