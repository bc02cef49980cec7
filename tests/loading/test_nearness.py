"""Every id goes to one rank, numbers are even, and no rank takes one from elsewhere while its own partitions have more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halohop.loading.nearness import Group, dealt, groups_of

COUNTS = st.lists(st.integers(0, 30), min_size=1, max_size=7)


def ids(ranges):
    return [(piece.part, place) for piece in ranges for place in range(piece.begin, piece.end)]


@given(num_parts=st.integers(1, 9), num_ranks=st.integers(1, 9))
def test_every_rank_and_every_partition_is_in_one_group(num_parts, num_ranks):
    groups = groups_of(num_parts, num_ranks)
    assert [rank for group in groups for rank in group.ranks] == list(range(num_ranks))
    assert [part for group in groups for part in group.parts] == list(range(num_parts))
    assert all(group.ranks and group.parts for group in groups)


def test_ranks_of_hosts_are_near_their_partitions():
    hosts = [(3, 0), (), (1, 2)]
    assert [group.ranks for group in groups_of(4, 6, hosts)] == [(0, 1), (2, 3), (4, 5)]
    assert [group.parts for group in groups_of(4, 6, hosts)] == hosts
    assert groups_of(4, 2, hosts) == groups_of(4, 2)


@given(counts=COUNTS, num_ranks=st.integers(1, 8), data=st.data())
def test_all_are_dealt_once_and_near_ones_first(counts, num_ranks, data):
    groups = groups_of(len(counts), num_ranks)
    if data.draw(st.booleans()):
        hosts = data.draw(st.integers(1, num_ranks))
        owners = data.draw(st.lists(st.integers(0, hosts - 1), min_size=len(counts), max_size=len(counts)))
        groups = groups_of(len(counts), num_ranks, [tuple(p for p, o in enumerate(owners) if o == h) for h in range(hosts)])
    whole = sorted((part, place) for part, count in enumerate(counts) for place in range(count))
    near, far = dealt(counts, groups, even=True)
    assert sorted(one for pieces in (*near, *far) for one in ids(pieces)) == whole
    lengths = [len(ids(near[rank])) + len(ids(far[rank])) for rank in range(num_ranks)]
    assert max(lengths) - min(lengths) <= 1
    for group in groups:
        most = sum(lengths[rank] for rank in group.ranks)
        assert sum(len(ids(near[rank])) for rank in group.ranks) == min(most, sum(counts[part] for part in group.parts))
        assert all(piece.part in group.parts for rank in group.ranks for piece in near[rank])
    near, far = dealt(counts, groups, even=False)
    assert sorted(one for pieces in near for one in ids(pieces)) == whole
    assert not any(far)


@pytest.mark.parametrize("even", [True, False])
def test_ranks_of_a_host_have_even_parts_of_what_is_near_them(even):
    groups = [Group(ranks=(0, 1, 2), parts=(0,)), Group(ranks=(3,), parts=(1,))]
    near, _ = dealt([10, 90], groups, even=even)
    assert [len(ids(pieces)) for pieces in near[:3]] == [3, 3, 4]
