import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.datasets import random_edge_masks, synthetic_hetero
from halohop.datasets.splits import index_masks, random_masks, time_masks
from halohop.errors import IdError, InputError


@given(
    labels=st.lists(st.integers(-1, 4), max_size=60),
    fractions=st.sampled_from([(0.6, 0.2, 0.2), (1, 0, 0), (0, 0, 0), (0.1, 0.1, 0.5), (0, 0, 1)]),
    stratified=st.booleans(),
    seed=st.integers(0, 3),
)
def test_masks_share_out_the_labelled_nodes(labels, fractions, stratified, seed) -> None:
    y = torch.tensor(labels, dtype=torch.int64)
    masks = random_masks(y, fractions=fractions, stratified=stratified, seed=seed)
    assert list(masks) == ["train_mask", "val_mask", "test_mask"]
    together = sum(mask.int() for mask in masks.values())
    assert (together <= 1).all()
    assert not together[y < 0].any()
    labelled = int((y >= 0).sum())
    groups = [y == label for label in y.unique() if label >= 0] if stratified else [y >= 0]
    for mask, share in zip(masks.values(), fractions, strict=True):
        for group in groups:
            assert abs(int((mask & group).sum()) - share * int(group.sum())) <= 1
    if sum(fractions) == 1:
        assert int(together.sum()) == labelled


def test_a_split_is_its_seeds() -> None:
    y = torch.zeros(1000, dtype=torch.int64)
    one, again, other = (random_masks(y, seed=seed)["train_mask"] for seed in (3, 3, 4))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not torch.equal(one, torch.arange(1000) < 600)


def test_stratified_keeps_a_small_class_in_every_split() -> None:
    y = torch.tensor([0] * 990 + [1] * 10)
    masks = random_masks(y, stratified=True)
    assert [int((mask & (y == 1)).sum()) for mask in masks.values()] == [6, 2, 2]


@pytest.mark.parametrize("fractions", [(0.6, 0.4), (0.6, 0.4, 0.2), (-0.1, 0.5, 0.5)])
def test_fractions_must_be_shares(fractions) -> None:
    with pytest.raises(InputError, match="three shares"):
        random_masks(torch.zeros(3, dtype=torch.int64), fractions=fractions)


@pytest.mark.parametrize("bad", [-1, 3])
def test_index_masks_refuses_strangers(bad: int) -> None:
    with pytest.raises(IdError, match=f"node {bad}"):
        index_masks(3, {"train": np.array([0, bad])})


@given(
    times=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    fractions=st.sampled_from([(0.7, 0.15, 0.15), (1, 0, 0), (0.5, 0.0, 0.2), (0.2, 0.3, 0.5)]),
)
def test_time_masks_leave_nothing_of_a_later_split_in_an_earlier_one(times: list[int], fractions: tuple[float, ...]) -> None:
    time = torch.tensor(times)
    most = int(time.bincount().max())
    if most + 1 >= len(time) * min(share for share in fractions if share):  # a split may find no moment for itself
        return
    masks = time_masks(time, fractions=fractions)
    assert (sum(mask.int() for mask in masks.values()) <= 1).all()
    latest = -1
    for mask, share in zip(masks.values(), fractions, strict=True):
        if mask.any():
            assert int(time[mask].min()) > latest
            latest = int(time[mask].max())
        assert (share > 0) == bool(mask.any())
        assert abs(int(mask.sum()) - share * len(time)) <= most + 1
    if sum(fractions) == 1:
        assert latest == max(times)


def test_time_masks_refuse_bad_shares() -> None:
    with pytest.raises(InputError, match="three shares"):
        time_masks(torch.arange(5), fractions=(0.9, 0.2, 0.1))
    for times in (torch.empty(0), torch.ones(50)):
        with pytest.raises(InputError, match="no entry is left for"):
            time_masks(times)


def test_edges_between_two_nodes_are_in_one_split_whatever_their_direction_and_relation():
    tables = random_edge_masks(synthetic_hetero(200), seed=3)
    seen: dict[tuple[object, ...], str] = {}
    counts = dict.fromkeys(("train_mask", "val_mask", "test_mask"), 0)
    for (src_type, _, dst_type), table in tables.edges.items():
        masks = torch.stack([table.columns[name] for name in counts])
        assert (masks.sum(dim=0) == 1).all()
        for src, dst, split in zip(table.src.tolist(), table.dst.tolist(), masks.int().argmax(dim=0).tolist(), strict=True):
            pair = tuple(sorted([(src_type, src), (dst_type, dst)]))
            assert seen.setdefault(pair, split) == split
        for name in counts:
            counts[name] += int(table.columns[name].sum())
    assert counts["val_mask"] / sum(counts.values()) == pytest.approx(0.1, abs=0.02)
    again, other = (random_edge_masks(synthetic_hetero(200), seed=seed) for seed in (3, 4))
    relation = next(iter(tables.edges))
    assert torch.equal(again.edges[relation].columns["val_mask"], tables.edges[relation].columns["val_mask"])
    assert not torch.equal(other.edges[relation].columns["val_mask"], tables.edges[relation].columns["val_mask"])
