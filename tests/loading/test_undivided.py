"""Loaders in a process group of several ranks that nobody has told who divides their seeds."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler
from torch_geometric.data import Data

import halohop
from halohop.loading.undivided import warn_of_all_seeds
from halohop.world import World

EDGES = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
MASK = torch.tensor([True, False, True, True, False])


def graph() -> Data:
    return Data(edge_index=EDGES, x=torch.eye(5), train_mask=MASK, num_nodes=5)


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    warn_of_all_seeds.cache_clear()
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    yield
    warn_of_all_seeds.cache_clear()


def nodes(seeds: Any, **how: Any) -> halohop.NeighborLoader:
    return halohop.NeighborLoader(graph(), [1], seeds, num_workers=0, **how)


def links(edges: Any, **how: Any) -> halohop.LinkNeighborLoader:
    return halohop.LinkNeighborLoader(graph(), [1], edges, num_workers=0, **how)


class EveryRankAll(halohop.NeighborLoader):
    def __init__(self, seeds: Any) -> None:
        super().__init__(graph(), [1], seeds, num_workers=0, world=None)


ALL: dict[str, Callable[[], Any]] = {
    "everything": lambda: nodes(None),
    "a split": lambda: nodes("train"),
    "a mask": lambda: nodes(MASK),
    "blocks": lambda: nodes(None, locality="owner"),
    "all links": lambda: links(None),
    "clusters": lambda: halohop.ClusterLoader(graph(), 2, num_workers=0),
    "SAINT": lambda: halohop.GraphSAINTNodeSampler(graph(), 2, num_workers=0),
    "PPR": lambda: halohop.PPRLoader(graph(), 2, num_workers=0),
}
OWN: dict[str, Callable[[], Any]] = {
    "ids": lambda: nodes(torch.tensor([1, 2])),
    "a list of ids": lambda: nodes([1, 2]),
    "pairs": lambda: links(EDGES[:, :2]),
    "rows": lambda: halohop.FunctionLoader(graph(), lambda draws, seeds: seeds, torch.arange(3), num_workers=0),
    "a world": lambda: nodes(None, world=World(rank=0, size=2, local_size=2)),
    "world=None": lambda: nodes("train", world=None),
    "world=None in a subclass": lambda: EveryRankAll("train"),
    "a sampler": lambda: nodes(None, sampler=[0, 1]),
    "a batch_sampler": lambda: nodes(None, batch_sampler=[[0, 1]]),
}


@pytest.mark.parametrize("make", ALL.values(), ids=list(ALL))
def test_seeds_that_every_rank_goes_through_are_warned_about_once(two_ranks, make):
    loader = make()
    with pytest.warns(UserWarning, match=r"each of the 2 ranks .* Give world=halohop\.World\.detect\(\)") as told:
        iter(loader)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loader)
        list(ALL["everything"]())


@pytest.mark.parametrize("make", OWN.values(), ids=list(OWN))
def test_seeds_that_somebody_divides_are_not_warned_about(two_ranks, make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(make())


def test_torch_and_lightning_see_who_divides_the_seeds():
    for loader in (nodes("train", world=None), EveryRankAll("train")):
        assert isinstance(loader.dataset, IterableDataset)
    assert nodes("train").dataset == range(3)


def test_one_rank_is_not_warned():
    warn_of_all_seeds.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(nodes(None))


def test_torch_sees_the_order_of_a_loader():
    """By which Lightning and others decide whether they shuffle what they divide."""
    assert isinstance(nodes(None).sampler, SequentialSampler)
    assert isinstance(nodes(None, shuffle=True).sampler, RandomSampler)
    assert nodes(torch.empty(0, dtype=torch.int64), shuffle=True).sampler is not None
    order = RandomSampler(range(5))
    assert nodes(None, sampler=order, batch_size=2).sampler is order
    batches = BatchSampler(order, 2, drop_last=False)
    loader = nodes(None, batch_sampler=batches, drop_last=True)
    assert loader.batch_sampler is batches
    assert len(list(loader)) == 3
