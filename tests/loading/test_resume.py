"""A loader that stops anywhere goes on, in this run or another, with the batches that an undisturbed one would have given."""

import json

import pytest
import torch
from torch_geometric.data import Data

from halohop import LinkNeighborLoader, NeighborLoader, open, partition
from halohop.errors import BatchError, InputError
from halohop.world import World

SEEDS, BATCH = 23, 5


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(0)
    return Data(x=torch.randn(60, 4), edge_index=torch.randint(60, (2, 400)))


def loader(data, **options):
    options = {"input_nodes": torch.arange(SEEDS), "batch_size": BATCH, "shuffle": True, "seed": 3, "run": "inline"} | options
    return NeighborLoader(data, [3, 2], **options)


def told(batches) -> list[tuple]:
    """What makes batches different: their nodes, edges and seeds."""
    return [(batch.n_id.tolist(), batch.e_id.tolist(), batch.input_id.tolist()) for batch in batches]


def through_json(state: dict) -> dict:
    return json.loads(json.dumps(state))


@pytest.mark.parametrize("run", ["inline", "threads", "processes"])
def test_restored_at_every_step(data, run):
    workers = 0 if run == "inline" else 2
    whole = loader(data)
    expected = [told(whole) for _ in range(3)]
    assert [len(epoch) for epoch in expected] == [5, 5, 5]
    assert expected[0] != expected[1]
    stopped = loader(data, run=run, num_workers=workers)
    states = [stopped.state_dict()]
    for _ in range(2):
        for _batch in stopped:
            states.append(through_json(stopped.state_dict()))
    for step, state in enumerate(states):
        epoch, behind = divmod(step, 5)
        restored = loader(data, run=run, num_workers=workers)
        restored.load_state_dict(state)
        if step and not behind:  # saved with the last batch at hand: nothing is left of that epoch
            assert told(restored) == []
        assert told(restored) == expected[epoch][behind:]
        if epoch < 2:
            assert told(restored) == expected[epoch + 1]


def test_interrupted_again_and_again_in_one_epoch(data):
    """A place counts from the beginning of the epoch, not from where the loader went on."""
    expected, state, got = told(loader(data)), loader(data).state_dict(), []
    for _ in expected:
        restored = loader(data)
        restored.load_state_dict(state)
        got += told([next(iter(restored))])
        state = through_json(restored.state_dict())
    assert got == expected


def test_an_ended_epoch_is_followed_by_the_next(data):
    one = loader(data)
    list(one)
    other = loader(data)
    other.load_state_dict(one.state_dict())
    assert told(one) == told(other)
    one.set_epoch(7)
    other.load_state_dict(one.state_dict())
    assert other.state_dict()["epoch"] == 7
    assert told(one) == told(other)


def test_batches_in_flight_are_not_counted(data):
    """The makers are far ahead of the consumer."""
    ahead = loader(data, run="threads", num_workers=2, prefetch_factor=10)
    iterator = iter(ahead)
    next(iterator)
    assert ahead.state_dict()["batches"] == 1
    iterator.close()
    assert ahead.state_dict()["batches"] == 1
    left = loader(data)
    left.load_state_dict(ahead.state_dict())
    assert told(left) == told(loader(data))[1:]


def test_a_failed_batch_is_the_next_one(data):
    def fail(batch):
        if 12 in batch.input_id:
            raise ValueError("no")
        return batch

    broken = loader(data, transform=fail, shuffle=False)
    got = []
    with pytest.raises(BatchError, match="no"):
        got.extend(broken)
    assert len(got) == 2
    repaired = loader(data, shuffle=False)
    repaired.load_state_dict(broken.state_dict())
    assert told(got) + told(repaired) == told(loader(data, shuffle=False))


def test_every_rank_goes_on_from_the_state_of_one(data):
    ranks = [loader(data, world=World(rank=rank, size=2), batch_size=3) for rank in range(2)]
    epochs = [told(rank) for rank in ranks]
    stopped = loader(data, world=World(rank=0, size=2), batch_size=3)
    iterator = iter(stopped)
    next(iterator)
    for rank in range(2):
        other = loader(data, world=World(rank=rank, size=2), batch_size=3)
        other.load_state_dict(stopped.state_dict())
        assert told(other) == epochs[rank][1:]


def test_other_partitions_and_workers_do_not_matter(data, tmp_path):
    partition(data, tmp_path / "parts", num_parts=3, method="random")
    stopped = loader(data)
    iterator = iter(stopped)
    for _ in range(3):
        next(iterator)
    with open(tmp_path / "parts") as graph:
        elsewhere = loader(graph, run="threads", num_workers=3)
        elsewhere.load_state_dict(stopped.state_dict())
        assert told(elsewhere) == told(iterator)


def test_links_go_on_with_their_negatives(data):
    def links():
        return LinkNeighborLoader(data, [2], batch_size=90, neg_sampling="binary", shuffle=True, run="inline")

    whole = [batch.edge_label_index.tolist() + batch.n_id.tolist() for batch in links()]
    stopped = links()
    for _, _batch in zip(range(2), stopped, strict=False):
        state = stopped.state_dict()
    restored = links()
    restored.load_state_dict(state)
    assert [batch.edge_label_index.tolist() + batch.n_id.tolist() for batch in restored] == whole[2:]


def test_the_users_own_order(data):
    order = [4, 1, 1, 20, 7, 3, 2]

    def mine(**kwargs):
        return loader(data, shuffle=False, sampler=order, batch_size=2, **kwargs)

    stopped = mine()
    next(iter(stopped))
    restored = mine()
    restored.load_state_dict(stopped.state_dict())
    assert [batch.input_id.tolist() for batch in restored] == [[1, 20], [7, 3], [2]]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"batch_size": 4}, "batch_size: 5 then, 4 now"),
        ({"seed": 4}, "seed: 3 then, 4 now"),
        ({"shuffle": False}, "shuffle: True then, False now"),
        ({"input_nodes": torch.arange(24)}, "num_seeds: 23 then, 24 now"),
        ({"world": World(rank=0, size=2)}, "ranks: 1 then, 2 now"),
        ({"shuffle": False, "sampler": list(range(SEEDS))}, "shuffle: True then, None now"),
    ],
)
def test_a_state_of_another_order_is_refused(data, change, named):
    state = loader(data).state_dict()
    with pytest.raises(InputError, match=named):
        loader(data, **change).load_state_dict(state)


@pytest.mark.parametrize("state", [{}, {"format": 2}, None, {"epoch": 0, "batches": 0}])
def test_what_is_no_state_is_refused(data, state):
    with pytest.raises(InputError, match="state_dict"):
        loader(data).load_state_dict(state)


@pytest.mark.parametrize("place", [{"batches": 6}, {"batches": -1}, {"epoch": -1}])
def test_a_place_that_does_not_exist_is_refused(data, place):
    mine = loader(data)
    with pytest.raises(InputError, match="is not of this loader, which has 5 batches an epoch"):
        mine.load_state_dict(mine.state_dict() | place)
