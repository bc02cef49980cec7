import threading

import pytest

from halohop.loading.measured import Measured, Trial
from halohop.loading.pipeline import Made, PrefetchConfig, in_order
from halohop.telemetry import Counters

CONFIG = PrefetchConfig(workers=2, prefetch=2)


def decided(trial: Trial, inline: float, bursts: list[float]) -> int:
    """Notes batches until both ways were timed; those of threads come in bursts."""
    ways = []
    for number in range(200):
        ahead = trial.ahead > 0
        ways.append(ahead)
        trial.note(bursts[number % len(bursts)] if ahead else inline, ahead=ahead)
    assert ways.index(True) < 50
    return trial.ahead


@pytest.mark.parametrize(
    ("bursts", "ahead"),
    [([1.0], 0), ([0.95], 0), ([2.0, 0.0], 0), ([0.8], 4), ([1.6, 0.0], 4), ([3.0, 0.0, 0.0, 0.0], 4)],
    ids=["alike", "little", "bursts_alike", "quicker", "bursts_quicker", "four_at_once"],
)
def test_threads_are_taken_where_they_are_quicker(bursts, ahead):
    assert decided(Trial(CONFIG), 1.0, bursts) == ahead


def test_first_batches_do_not_count():
    trial = Trial(CONFIG)
    for _ in range(2):
        trial.note(100.0, ahead=False)
    assert decided(trial, 1.0, [2.0]) == 0


def test_large_batches_take_threads_at_once_but_not_for_a_slow_first_one():
    trial = Trial(CONFIG)
    trial.made(5.0)
    assert trial.ahead == 0
    for _ in range(2):
        trial.note(1.0, ahead=False)
    trial.made(0.001)
    assert trial.ahead == 0
    trial.made(0.5)
    assert trial.ahead == 4


def test_items_are_the_same_in_the_same_order_while_ways_change():
    trial, counters, makers_of = Trial(CONFIG), Counters(), dict[int, str]()

    def make(number: int) -> Made[int]:
        makers_of[number] = threading.current_thread().name
        return Made(item=number * number)

    for _ in range(2):  # the second epoch goes on with what the first has found out
        makers = Measured(make, trial, CONFIG.workers, counters)
        items = in_order(range(60), makers, CONFIG, counters=counters, ahead=lambda: trial.ahead)
        assert list(items) == [number * number for number in range(60)]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("halohop-loader")]


def test_both_ways_are_tried():
    trial, names = Trial(CONFIG), set()

    def make(number: int) -> Made[int]:
        names.add(threading.current_thread().name.rpartition("-")[0])
        return Made(item=number)

    makers = Measured(make, trial, CONFIG.workers, Counters())
    assert len(list(in_order(range(80), makers, CONFIG, ahead=lambda: trial.ahead))) == 80
    assert names == {"", "halohop-loader"}
