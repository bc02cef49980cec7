"""What is kept for others, on a clock of the tests' own."""

from types import SimpleNamespace

import pytest
import torch
from halohop.cluster.pushes import Held

from halohop.leased import Leased
from halohop.partitioning.book import Book
from halohop.store.requests import HoldRequest, PushRequest


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("halohop.leased.time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def test_what_is_used_is_kept_and_the_rest_goes_after_a_lease(clock):
    kept: Leased[str, int] = Leased()
    kept.put("used", 1)
    kept.put("left", 2)
    for _ in range(5):
        clock.now += 9
        assert kept.get("used") == 1
        kept.sweep(10)
    assert kept.keys() == ["used"]
    assert kept.get("left") is None
    clock.now += 10
    kept.sweep(10)
    assert len(kept) == 0


def test_longer_use_begins_a_lease_later(clock):
    kept: Leased[str, int] = Leased()
    kept.put("long", 1, seconds=30)
    clock.now += 20
    assert kept.get("long") == 1  # a use that is shorter takes nothing away
    clock.now += 19
    kept.sweep(10)
    assert len(kept) == 1
    clock.now += 1
    kept.sweep(10)
    assert len(kept) == 0


def test_the_one_that_was_not_used_for_longest_makes_room(clock):
    kept: Leased[str, int] = Leased(most=2)
    for name in "ab":
        kept.put(name, 0)
    kept.get("a")
    kept.put("c", 0)
    assert kept.keys() == ["a", "c"]


def test_pushes_are_remembered_until_none_can_come_again(clock):
    """A slow sender loses nothing: what it pushes after it was forgotten is new, and counts."""
    held = Held(Book(nodes={"node": (0, 10)}, edges={}), (0,))
    held.hold(HoldRequest(node_type="node", name="w", shape=(), dtype="float32", fill=0.0), stored=())

    def push(number: int) -> bool:
        gid, rows = torch.tensor([5]), torch.ones(1)
        request = PushRequest(
            node_type="node", name="w", gid=gid, rows=rows, add=True, sender="a", number=number, repeated_seconds=60
        )
        held.sweep(10)
        return held.push(request)

    assert push(1)
    clock.now += 69
    assert not push(1)  # the very last moment at which it may come again, and more
    assert held.num_senders == 1
    clock.now += 70
    held.sweep(10)
    assert held.num_senders == 0
    assert push(2)
