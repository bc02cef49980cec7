"""Ranks with seeds of their own: their batches are those that one rank with all seeds would have made."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler
from torch_geometric.data import Data

import halohop
from halohop import (
    ClusterLoader,
    Graph,
    GraphSAINTNodeSampler,
    HGTLoader,
    LinkNeighborLoader,
    NeighborLoader,
    SubGraphLoader,
    World,
)
from halohop.errors import InputError
from halohop.testing.worlds import TOKEN, free_addresses, hosts

NODES, BATCH = 24, 4


def dense() -> Data:
    """Every node has so many neighbours that two independent draws of a few are hardly ever alike."""
    torch.manual_seed(0)
    src, dst = torch.randint(200, (NODES * 60,)), torch.arange(NODES).repeat_interleave(60)
    return Data(x=torch.randn(200, 3), edge_index=torch.stack([src, dst]))


@pytest.fixture(scope="module")
def data() -> Data:
    return dense()


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("own") / "parts"
    halohop.partition(data, path, num_parts=2, method="random", halo=("raw_id",))
    return path


@contextmanager
def on_hosts(folder: Path) -> Iterator[Graph]:
    with hosts(folder, [[0], [1]]) as graphs:
        yield graphs[1]


@contextmanager
def on_servers(folder: Path) -> Iterator[Graph]:
    with ExitStack() as stack:
        addresses = free_addresses(2)
        for part, address in enumerate(addresses):
            stack.enter_context(
                halohop.serve(folder, partitions=[part], listen=address, peers=[addresses[1 - part]], token=TOKEN)
            )
        yield stack.enter_context(halohop.connect(addresses, token=TOKEN))


PLACES: dict[str, Callable[[Path], Any]] = {"disk": halohop.open, "hosts": on_hosts, "servers": on_servers}

LINKS = torch.stack([torch.arange(200)[:NODES], torch.arange(NODES).flip(0)])
LOADERS: dict[str, Callable[..., Any]] = {
    "nodes": lambda graph, chosen, **how: NeighborLoader(graph, [4, 2], chosen, **how),
    "nodes, labor": lambda graph, chosen, **how: NeighborLoader(graph, [4, 2], chosen, method="labor", **how),
    "subgraphs": lambda graph, chosen, **how: SubGraphLoader(graph, [4], chosen, **how),
    "HGT": lambda graph, chosen, **how: HGTLoader(graph, [6], chosen, **how),
    "links": lambda graph, chosen, **how: LinkNeighborLoader(graph, [4], LINKS[:, chosen], neg_sampling="binary", **how),
}


def told(batch: Any) -> list[Any]:
    """What makes batches different, but for the positions of their seeds."""
    ends = batch.edge_label_index.tolist() if "edge_label_index" in batch else None
    return [batch.n_id.tolist(), batch.e_id.tolist(), batch.edge_index.tolist(), ends]


def own(rank: int, size: int) -> dict[str, Any]:
    return {"world": World(rank=rank, size=size, local_rank=rank, local_size=size), "own_seeds": True}


@pytest.mark.parametrize("place", PLACES)
def test_as_if_one_rank_had_them_all(data, folder, place):
    """Batch number i of all ranks is batch i of a loader that goes through the lists of all, batch by batch."""
    nodes = torch.randperm(NODES, generator=torch.Generator().manual_seed(1))
    lists = [nodes.view(-1, BATCH)[rank::3].reshape(-1) for rank in range(3)]
    with PLACES[place](folder) as graph:
        for name, make in LOADERS.items():
            alone = make(data, nodes, batch_size=BATCH, seed=4, run="inline")
            expected = [told(batch) for _ in range(2) for batch in alone]
            ranks = [make(graph, lists[rank], batch_size=BATCH, seed=4, **own(rank, 3)) for rank in range(3)]
            epochs = [[[told(batch) for batch in loader] for loader in ranks] for _ in range(2)]
            got = [batch for epoch in epochs for step in zip(*epoch, strict=True) for batch in step]
            assert got == expected, name


def test_no_two_ranks_draw_alike_for_the_same_nodes(data):
    def drawn(rank: int, **options: Any) -> list[Any]:
        (batch,) = NeighborLoader(data, [4], torch.arange(NODES), batch_size=NODES, **options)
        return [batch.e_id[batch.edge_index[1] == seed].tolist() for seed in range(NODES)]

    alike = sum(one == other for one, other in zip(drawn(0, **own(0, 2)), drawn(1, **own(1, 2)), strict=True))
    assert alike == 0
    assert drawn(0, **own(0, 1)) == drawn(0)


@pytest.mark.parametrize("subgraphs", [GraphSAINTNodeSampler, ClusterLoader])
def test_loaders_without_seeds_of_nodes(data, subgraphs):
    """Each rank makes all of its own steps, and what chance decides is another's."""
    options = {"num_steps": 4} if subgraphs is GraphSAINTNodeSampler else {"clusters": torch.arange(200) % 8, "shuffle": True}
    ranks = [subgraphs(data, batch_size=2, run="inline", **options, **own(rank, 2)) for rank in range(2)]
    one, other = ([told(batch) for batch in loader] for loader in ranks)
    assert len(one) == len(other) == 4
    assert one != other


def test_one_batch_by_hand_is_another_on_every_rank(data):
    loaders = [NeighborLoader(data, [4], torch.arange(NODES), **own(rank, 2)) for rank in range(2)]
    for call in (lambda loader: loader(range(NODES)), lambda loader: loader.collate_fn(range(NODES))):
        one, other = (told(call(loader)) for loader in loaders)
        assert one != other


def test_lists_of_any_length_and_none(data):
    lists = [torch.arange(11), torch.arange(30, 33), torch.tensor([], dtype=torch.int64)]
    loaders = [NeighborLoader(data, [2], ids, batch_size=BATCH, shuffle=True, **own(rank, 3)) for rank, ids in enumerate(lists)]
    assert [len(loader) for loader in loaders] == [3, 1, 0]
    for ids, loader in zip(lists, loaders, strict=True):
        for _ in range(2):
            seen = [batch.n_id[: batch.batch_size] for batch in loader]
            assert sorted(torch.cat([ids[:0], *seen]).tolist()) == ids.tolist()


def test_a_rank_without_seeds_has_nothing_to_pad(data):
    empty = NeighborLoader(data, [2], torch.tensor([], dtype=torch.int64), batch_size=BATCH, pad="measured", **own(1, 2))
    assert list(empty) == []
    full = NeighborLoader(data, [2], torch.arange(12), batch_size=BATCH, pad="measured", **own(0, 2))
    assert len({batch.num_nodes for batch in full}) == 1


def test_ranks_with_the_same_nodes_shuffle_them_differently(data):
    orders = [
        [batch.input_id.tolist() for batch in NeighborLoader(data, [1], batch_size=50, shuffle=True, **own(rank, 2))]
        for rank in range(2)
    ]
    assert orders[0] != orders[1]


@pytest.mark.parametrize("run", ["inline", "threads", "processes"])
def test_a_rank_goes_on_from_its_own_state(data, run):
    def loader(**options: Any) -> NeighborLoader:
        return NeighborLoader(data, [3], torch.arange(15), batch_size=BATCH, shuffle=True, **options, **own(1, 2))

    expected = [[told(batch) for batch in whole] for whole in [loader(run="inline")] * 2]  # two epochs of one
    stopped = loader(run=run, num_workers=1)
    iterator = iter(stopped)
    next(iterator), next(iterator)
    later = loader(run="threads", num_workers=3)
    later.load_state_dict(stopped.state_dict())
    iterator.close()
    assert [told(batch) for batch in later] == expected[0][2:]
    assert [told(batch) for batch in later] == expected[1]


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (own(0, 2), "own_seeds_of_rank: 1 then, 0 now"),
        (own(1, 3), "ranks: 2 then, 3 now"),
        ({"world": World(rank=1, size=2)}, "own_seeds_of_rank: 1 then, None now"),
    ],
)
def test_a_state_of_another_rank_is_refused(data, other, named):
    state = NeighborLoader(data, [3], torch.arange(16), batch_size=2, **own(1, 2)).state_dict()
    with pytest.raises(InputError, match=named):
        NeighborLoader(data, [3], torch.arange(16), batch_size=2, **other).load_state_dict(state)


def test_the_users_own_sampler(data):
    """Such as torch's DistributedSampler, which gives ranks different positions of one list."""
    options = {"input_nodes": torch.arange(NODES), **own(1, 2)}
    positions = NeighborLoader(data, [4], sampler=SequentialSampler(range(8)), batch_size=BATCH, **options)
    batches = NeighborLoader(data, [4], batch_sampler=BatchSampler(SequentialSampler(range(8)), BATCH, False), **options)
    alone = NeighborLoader(data, [4], torch.arange(8), batch_size=BATCH, **own(1, 2))
    assert [told(batch) for batch in positions] == [told(batch) for batch in batches] == [told(batch) for batch in alone]


def test_two_ranks_with_one_number(data):
    """Where a process group knows better."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        NeighborLoader(data, [2], **own(0, 1))
        NeighborLoader(data, [2], **own(1, 2))  # of other ranks than those of the group
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dist, "get_world_size", lambda: 2)
            NeighborLoader(data, [2], **own(0, 2))
            with pytest.raises(InputError, match=r"rank 0 of the process group.* those of rank 1; give World\(rank=0, size=2\)"):
                NeighborLoader(data, [2], **own(1, 2))
    finally:
        dist.destroy_process_group()


def test_what_is_refused(data):
    with pytest.raises(InputError, match=r"own_seeds=True needs the number of this rank: give world="):
        NeighborLoader(data, [2], own_seeds=True)
    with pytest.raises(InputError, match="leave out `shuffle`, and `world` unless own_seeds=True"):
        NeighborLoader(data, [2], sampler=RandomSampler(range(4)), world=World(rank=0, size=2))
    with pytest.raises(InputError, match=r"rank=2 is outside 0\.\.1"):
        NeighborLoader(data, [2], world=World(rank=2, size=2), own_seeds=True)
