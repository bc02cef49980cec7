"""Which changes have happened, and which one is next."""

import pytest

from halohop.errors import ClusterError
from halohop.tables import turns
from halohop.tables.turns import AnyOrder, InRounds


def test_of_a_clients_changes_the_latest_are_remembered_and_older_ones_count_as_known(monkeypatch):
    monkeypatch.setattr(turns, "WINDOW", 100)
    order = AnyOrder()
    for index in range(0, 300, 2):
        order.end((0, index), applied=True)
    assert [order.is_past((0, index)) for index in (298, 297, 200, 199, 198, 5, 300)] == [
        *(True, False, True, False, True, True, False),
    ]
    assert len(order._recent) <= 200
    order.end((0, 297), applied=False)
    assert not order.is_past((0, 297))
    with pytest.raises(ClusterError, match="no rounds"):
        order.leave(0, (0, 0))


def test_rounds_of_ranks_of_unequal_length_follow_each_other():
    order = InRounds(2)
    order.leave(1, (1, 0))  # of the next round already
    order.leave(0, (0, 2))
    order.leave(1, (0, 1))
    assert [order.missing((0, index), set()) for index in range(3)] == [[0, 1], [0], []]
    order.end((0, 1), applied=False)
    assert order.next == (0, 0)
    order.end((0, 0), applied=True)
    assert order.next == (1, 0)
    assert order.missing((1, 0), set()) == [0]
    assert [order.is_past(place) for place in ((0, 5), (1, 0))] == [True, False]
    order.leave(0, (1, 0))
    assert order.next == (2, 0)
    assert order.before((2, 2)) == [(2, 0), (2, 1)]
    assert order.before((3, 2)) == []
