import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halohop.telemetry import Counters, Gauge, added


class Pausing(float):
    """One, that stops in the middle of being added until the gate opens: the worst moment to switch threads, every time."""

    def __init__(self, _: float) -> None:
        self.reached, self.gate = threading.Event(), threading.Event()

    def __radd__(self, total: float) -> float:
        self.reached.set()
        assert self.gate.wait(60)
        return total + 1.0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1000, 1000))))
def test_sums(additions: list[tuple[str, int]]) -> None:
    counters, expected = Counters(), defaultdict(int)
    for name, amount in additions:
        counters.add(name, amount)
        expected[name] += amount
    assert counters.snapshot() == expected


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(-1000, 1000))))
def test_add_all_is_add_for_each(additions: list[dict[str, int]]) -> None:
    together, one_by_one = Counters(), Counters()
    for amounts in additions:
        together.add_all(amounts)
        for name, amount in amounts.items():
            one_by_one.add(name, amount)
    assert together.snapshot() == one_by_one.snapshot()


def test_add_counts_one() -> None:
    counters = Counters()
    counters.add("calls")
    counters.add("calls")
    assert counters.snapshot() == {"calls": 2}


def test_snapshot_is_a_copy_of_one_moment() -> None:
    counters = Counters()
    counters.add("a")
    snapshot = counters.snapshot()
    snapshot["a"] = 7
    counters.add("a")
    assert counters.snapshot() == {"a": 2}
    assert snapshot == {"a": 7}


def test_span_counts_a_failed_block_and_lets_it_fail() -> None:
    counters = Counters()
    with pytest.raises(KeyError), counters.span("read"):
        raise KeyError
    with counters.span("read"):
        pass
    snapshot = counters.snapshot()
    assert snapshot["read_calls"] == 2
    assert 0 <= snapshot["read_seconds"] < 60


def test_span_measures_wall_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 12.5])
    counters = Counters()
    monkeypatch.setattr("halohop.telemetry.time.perf_counter", lambda: next(clock))
    with counters.span("wait"):
        pass
    assert counters.snapshot() == {"wait_seconds": 2.5, "wait_calls": 1}


def test_no_update_is_lost_between_threads() -> None:
    """Without a lock the slow addition overwrites the quick one."""
    counters, one = Counters(), Pausing(1)
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(counters.add, "a", one)
        assert one.reached.wait(60)
        quick = threads.submit(counters.add, "a", 1)
        wait([quick], timeout=0.2)
        one.gate.set()
        wait([slow, quick], timeout=10)
    assert counters.snapshot() == {"a": 2}


def test_snapshot_never_sees_half_an_update() -> None:
    counters, one = Counters(), Pausing(1)
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(counters.add_all, {"first": 1, "second": one})
        assert one.reached.wait(60)
        seen = threads.submit(counters.snapshot)
        wait([seen], timeout=0.2)
        one.gate.set()
        slow.result(60)
    assert seen.result(60) == {"first": 1, "second": 1}


def test_gauges_remain_gauges_when_they_are_added():
    total = added([{"calls": 1.0, "waiting": Gauge(2)}, {"calls": 2.0, "waiting": Gauge(3), "idle": Gauge(1)}])
    assert total == {"calls": 3, "waiting": 5, "idle": 1}
    assert {name for name, amount in total.items() if isinstance(amount, Gauge)} == {"waiting", "idle"}
