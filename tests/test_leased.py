"""What is kept for others, on a clock of the tests' own."""

from types import SimpleNamespace

import pytest

from halohop.leased import Leased


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
