"""Partitions by frequency: nodes lie where they are needed, evenly, and users name the assigner like any other."""

import numpy as np
import pytest
import torch

import halohop
from halohop.access.frequency import placed
from halohop.errors import InputError
from halohop.partitioning.assigners.assign import assign
from halohop.placement import Frequency, place_by_hotness
from halohop.testing.graphs import power_law, typed
from halohop.typing import NODE

BY_FREQUENCY = Frequency(fanouts=[3, 2], batch_size=8)


def test_nodes_and_seeds_are_dealt_evenly():
    tables = power_law(301, 5, seed=1, shuffled_ids=True)
    part = assign(tables, 4, BY_FREQUENCY).part[NODE]
    assert part.dtype == torch.int32
    seeds = part[tables.nodes[NODE].columns["train_mask"]].bincount()
    assert seeds.max() - seeds.min() <= 1
    assert part.bincount().max() - part.bincount().min() <= 2


@pytest.mark.parametrize("method", ["vip", "presample"])
def test_batches_find_more_at_home_than_in_random_partitions(method, tmp_path):
    """Each partition trains on the seeds that it owns."""
    tables, left = power_law(600, 4, seed=3, shuffled_ids=True), {}
    for name, how in (("random", "random"), ("frequency", Frequency(fanouts=[3, 2], batch_size=8, method=method))):
        halohop.partition(tables, tmp_path / name, num_parts=3, method=how)
        with halohop.open(tmp_path / name) as graph:
            hot = halohop.placement.hotness(graph, "train", [3, 2], batch_size=8, locality="owner")[NODE]
            owner = graph.owners(graph.select()[1])
            left[name] = float((hot * (owner != torch.arange(3)[:, None])).sum() / hot.sum())
    assert left["frequency"] < 0.85 * left["random"]


def test_typed_graph_with_seeds_of_one_type():
    tables = typed({"user": 60, "item": 50}, {("user", "buys", "item"): 300, ("item", "of", "user"): 250})
    by_user = Frequency(
        fanouts={("user", "buys", "item"): [2, 0], ("item", "of", "user"): [3, 2]}, batch_size=4, node_type="user"
    )
    part = assign(tables, 2, by_user).part
    assert {name: found.bincount().tolist() for name, found in part.items()} == {"user": [30, 30], "item": [25, 25]}


def test_the_same_seed_makes_the_same_division():
    tables = power_law(200, 4, shuffled_ids=True)
    one, same, other = (assign(tables, 3, BY_FREQUENCY, seed=seed).part[NODE] for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_placed_fills_parts_with_those_that_claim_them_most():
    needs = np.array([[0.9, 0.8, 0.7, 0.6], [0.0, 0.0, 0.1, 0.0]])
    assert placed(needs, None, np.random.default_rng(0)).tolist() == [0, 0, 1, 1]
    assert placed(needs, np.array([True, False, False, True]), np.random.default_rng(0)).tolist() == [0, 0, 1, 1]
    assert placed(np.zeros((3, 10)), None, np.random.default_rng(0)).bincount().tolist() == [3, 3, 4]


def test_users_place_nodes_by_a_hotness_of_their_own():
    hot = torch.rand(3, 100, generator=torch.Generator().manual_seed(1))
    part = place_by_hotness(hot)
    assert part.dtype == torch.int32
    assert sorted(part.bincount().tolist()) == [33, 33, 34]
    gained = (hot - hot.mean(0)).gather(0, part.long()[None]).sum()
    assert gained > 0.8 * (hot - hot.mean(0)).amax(0).sum()
    seeds = torch.arange(100) < 30
    assert place_by_hotness(hot.half().numpy(), seeds=seeds)[:30].bincount().tolist() == [10, 10, 10]
    assert place_by_hotness(hot[:1]).unique().tolist() == [0]
    for wrong, message in (
        ((hot[0], None), r"hotness of shape \(100,\) places no nodes"),
        ((hot / 0, None), "give finite numbers"),
        ((hot, seeds[:7]), r"seeds are bool of shape \(7,\)"),
    ):
        with pytest.raises(InputError, match=message):
            place_by_hotness(wrong[0], seeds=wrong[1])


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError, match="the same for all partitions"):
        Frequency(fanouts=[2], batch_size=4, method="degree")
    with pytest.raises(InputError, match="split='tarin' must be of one node type, but is of none"):
        assign(power_law(20, 2), 2, Frequency(fanouts=[2], batch_size=4, split="tarin"))
    two = typed({"user": 6, "item": 5}, {("user", "buys", "item"): 30})
    with pytest.raises(InputError, match=r"\['user', 'item'\]"):
        assign(two, 2, Frequency(fanouts=[2], batch_size=4))
