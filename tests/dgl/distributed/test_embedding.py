"""Embeddings and optimisers of DGL's names change rows by DGL's rules."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import halohop
import halohop.dgl as dgl
from halohop.dgl.distributed import DistEmbedding, DistGraph, optim, partition_graph
from halohop.errors import InputError
from tests.support.dgl_parts import plain_graph, typed_graph
from tests.support.dgl_ranks import folders_of_hosts, in_ranks

IDS = torch.tensor([5, 2, 5, 5])


def ones(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


@pytest.fixture
def graph(tmp_path: Path) -> DistGraph:
    partition_graph(plain_graph(), "it", 2, tmp_path, part_method="random")
    return DistGraph("it", part_config=tmp_path / "it.json")


@pytest.mark.parametrize(("rule", "moved"), [("SparseAdam", 0.1), ("SparseAdagrad", 0.1)])
def test_gradients_of_a_row_are_averaged_over_its_lookups(rule: str, moved: float, graph: DistGraph) -> None:
    """The first step of both rules is the learning rate, whatever the gradient; Adagrad keeps the square of the mean."""
    vectors = DistEmbedding(60, 3, "vectors", ones)
    optimizer = getattr(optim, rule)([vectors], lr=0.1)
    for step in range(2):
        rows = vectors(IDS)
        (rows * torch.tensor([[1.0], [2.0], [3.0], [5.0]])).sum().backward()  # of row 5: 1, 3 and 5, whose mean is 3
        optimizer.step()
        if step == 0:
            assert torch.allclose(vectors.weight[[5, 2, 0]], torch.tensor([[1 - moved], [1 - moved], [1.0]]).expand(3, 3))
    if rule == "SparseAdagrad":
        gone = 0.1 * (1 + 3 / (2 * 3**2) ** 0.5)
        assert torch.allclose(vectors.weight[[5]], torch.full((1, 3), 1 - gone))


def test_rows_begin_and_are_found_as_in_dgl(graph: DistGraph) -> None:
    vectors = DistEmbedding(60, 3, "vectors")
    assert vectors(IDS).tolist() == [[0.0] * 3] * 4
    assert (vectors.data_name, vectors.weight.name, vectors.num_embeddings) == ("vectors", "node~_N~vectors", 60)
    assert vectors(IDS, torch.device("cpu")).requires_grad
    assert "vectors" not in graph.ndata
    again = DistEmbedding(60, 3, "vectors")
    again.weight[IDS] = torch.ones(4, 3)
    assert vectors(IDS).tolist() == [[1.0] * 3] * 4
    given = DistEmbedding(60, 3, "given", halohop.init.uniform(-1, 1), graph.get_node_partition_policy("_N"))
    assert given(IDS).abs().sum() > 0
    given(IDS).sum().backward()
    given.reset_trace()
    assert not given.gradients.there


def test_what_the_optimisers_lack_says_what_to_do(graph: DistGraph) -> None:
    optimizer = optim.SparseAdam([DistEmbedding(60, 3)], lr=0.1)
    with pytest.raises(InputError, match=r"distributed\.optim\.SparseAdam\.save of DGL is not offered: tables and their state"):
        optimizer.save("x")
    with pytest.raises(InputError, match="is not copied or pickled"):
        copy.deepcopy(optimizer.param_groups[0]["params"][0])


def step_of_rank(rank: int, host: int, folders: list[Path]) -> Any:
    """Ranks step together, the first one once more."""
    dgl.distributed.initialize()
    dist = DistGraph("it", part_config=folders[host] / "it.json")
    vectors = DistEmbedding(40, 2, "vectors", ones, dist.get_node_partition_policy("paper"))
    optimizer = optim.SparseAdagrad([vectors], lr=0.1)
    for _ in range(2 - rank):
        vectors(torch.tensor([rank, 7])).sum().backward()
        optimizer.step()
    optimizer.leave()
    found = vectors.weight[[0, 1, 7, 9]]
    dgl.distributed.exit_client()
    return found


@pytest.mark.full
def test_ranks_step_together_and_one_ends_earlier(tmp_path: Path) -> None:
    partition_graph(typed_graph(), "it", 2, tmp_path / "parts", part_method="random")
    found = in_ranks(step_of_rank, 2, 2, tmp_path, folders_of_hosts(tmp_path / "parts", 2))
    assert torch.equal(found[0], found[1])
    assert found[0][3].tolist() == [1.0, 1.0]
    assert bool((found[0][:3] < 1).all())
