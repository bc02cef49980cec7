from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from halohop import NeighborLoader, ops
from halohop.cluster.graph import in_memory
from halohop.datasets import add_reverses, time_masks
from halohop.pyg.convert import tables_from_pyg
from halohop.testing.leaks import assert_no_future, assert_trees_apart

TIMES = torch.tensor([1, 2, 3, 4, 5, 6, 7, 8])
SEED_TIME = torch.tensor([3, 8, 5])


def draw(latest: Tensor | None) -> tuple[Tensor, Tensor]:
    """Times and trees of the edges drawn for three seeds of one node with eight in-edges."""
    eligible = None if latest is None else ops.Eligible(times=TIMES, latest=latest)
    rows = torch.zeros(3, dtype=torch.int64)
    counts, positions = ops.sample_neighbors(torch.tensor([0, 8]), rows, rows, fanout=-1, key=1, eligible=eligible)
    return TIMES[positions], torch.repeat_interleave(torch.arange(3), counts)


def test_a_draw_from_the_past_passes() -> None:
    time, tree = draw(SEED_TIME)
    assert tree.bincount().tolist() == [3, 8, 5]
    assert_no_future(time, tree, SEED_TIME)


def test_a_draw_that_forgets_time_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"edge 3 is of time 4, later than 3, the time of seed 0 .* \(8 of 24 edges leak\)"):
        assert_no_future(*draw(None), SEED_TIME)


def test_a_draw_with_the_latest_time_of_the_batch_is_caught() -> None:
    """One time for all seeds is the common mistake: right for the last seed, and a leak for every other."""
    time, tree = draw(SEED_TIME.max().expand(3).contiguous())
    with pytest.raises(AssertionError, match="8 of 24"):
        assert_no_future(time, tree, SEED_TIME)


def test_one_planted_leak_is_found_among_many() -> None:
    time, tree = draw(SEED_TIME)
    time[-1] = 6
    with pytest.raises(AssertionError, match=r"node 15 is of time 6, later than 5, the time of seed 2 .* \(1 of 16 nodes leak\)"):
        assert_no_future(time, tree, SEED_TIME, what="node")


def test_the_seeds_own_moment_is_a_leak_only_if_asked() -> None:
    time, tree = torch.tensor([3, 7]), torch.tensor([0, 1])
    assert_no_future(time, tree, SEED_TIME)
    with pytest.raises(AssertionError, match="edge 0 is of time 3, not before 3"):
        assert_no_future(time, tree, SEED_TIME, strict=True)


def test_nan_is_no_past() -> None:
    with pytest.raises(AssertionError, match="time nan"):
        assert_no_future(torch.tensor([1.0, float("nan")]), None, torch.tensor([2.0]))


def test_what_cannot_be_checked_does_not_pass() -> None:
    with pytest.raises(AssertionError, match="3 seed times; say in `tree`"):
        assert_no_future(torch.tensor([1]), None, SEED_TIME)
    with pytest.raises(AssertionError, match="tree holds -1"):
        assert_no_future(torch.tensor([1]), torch.tensor([-1]), SEED_TIME)
    with pytest.raises(AssertionError, match="time has shape"):
        assert_no_future(torch.tensor([1]), torch.tensor([0, 0]), SEED_TIME)
    with pytest.raises(AssertionError, match="one time per seed"):
        assert_no_future(torch.tensor([1]), None, torch.tensor(2))
    assert_no_future(torch.empty(0), torch.empty(0, dtype=torch.int64), torch.empty(0))


def test_edges_between_trees_are_caught() -> None:
    """Every edge is early enough, but a path through the tree of a later seed reaches what is not."""
    with pytest.raises(AssertionError, match="edge 1 leads from the tree of seed 1 into that of seed 0"):
        assert_trees_apart(torch.tensor([0, 1]), torch.tensor([0, 0]))


@pytest.mark.data
@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_real_messages_are_sampled_from_the_past_of_each_test_edge(shared_data: Path, strategy: str) -> None:
    """The whole graph, test edges included, is the history; what the loader draws with times is clean, without them it leaks."""
    src, dst, time = torch.from_numpy(np.loadtxt(shared_data / "collegemsg/CollegeMsg.txt", dtype=np.int64)).T.contiguous()
    tables = tables_from_pyg(Data(edge_index=torch.stack([src, dst]), time=time, num_nodes=int(max(src.max(), dst.max())) + 1))
    test = time_masks(time)["test_mask"]
    options = {"input_nodes": src[test][:256], "batch_size": 64, "num_workers": 0}
    timed = {"time_attr": "time", "input_time": time[test][:256], "temporal_strategy": strategy}
    graph, edges = in_memory(add_reverses(tables)), 0
    for batch in NeighborLoader(graph, [5, 5], **options, **timed):
        src, dst = batch.edge_index
        assert_no_future(batch.time, batch.batch[dst], timed["input_time"][batch.input_id])
        assert_trees_apart(batch.batch[src], batch.batch[dst])
        edges += batch.num_edges
    assert edges > 1000
    blind = next(iter(NeighborLoader(graph, [5, 5], **options, disjoint=True)))
    with pytest.raises(AssertionError, match="edges leak"):
        assert_no_future(blind.time, blind.batch[blind.edge_index[1]], timed["input_time"][blind.input_id])
