"""Deadlines of many things, by one thread."""

import logging
import queue
import threading

from halohop.tables.deadlines import Deadlines
from tests.support.deadlines import within


def test_each_key_has_its_own_time_and_the_last_one_set():
    over: queue.Queue[str] = queue.Queue()
    deadlines = Deadlines(name="test-deadlines")
    try:
        deadlines.set("hours", 3600.0, lambda: over.put("hours"))
        deadlines.set("later", 0.2, lambda: over.put("later"))
        deadlines.set("never", 0.1, lambda: over.put("never"))
        deadlines.set("soon", 0.05, lambda: over.put("soon"))  # before the thread would look again by itself
        deadlines.clear("never")
        deadlines.set("hours", 0.3, lambda: over.put("hours after all"))
        assert [over.get(timeout=within(5.0)) for _ in range(3)] == ["soon", "later", "hours after all"]
        assert len(deadlines) == 0
        assert sum(thread.name == "test-deadlines" for thread in threading.enumerate()) == 1
    finally:
        deadlines.close()
    assert over.empty()


def test_what_fails_at_a_deadline_is_logged_and_others_go_on(caplog):
    over: queue.Queue[str] = queue.Queue()
    deadlines = Deadlines(name="test-deadlines")
    with caplog.at_level(logging.ERROR):
        deadlines.set("bad", 0.01, lambda: 1 / 0)
        deadlines.set("good", 0.02, lambda: over.put("good"))
        assert over.get(timeout=within(5.0)) == "good"
    deadlines.close()
    assert "ZeroDivisionError" in caplog.text


def test_after_the_end_nothing_is_called_and_no_thread_is_left():
    deadlines = Deadlines(name="test-deadlines")
    deadlines.close()
    deadlines.set("late", 0.0, lambda: 1 / 0)
    deadlines.close()
    assert not any(thread.name == "test-deadlines" for thread in threading.enumerate())


def test_a_deadline_in_years_does_not_end_the_thread():
    """A peer names it, and no clock of the system reaches so far."""
    over: queue.Queue[str] = queue.Queue()
    deadlines = Deadlines(name="test-deadlines")
    try:
        deadlines.set("never", 1e300, lambda: over.put("never"))
        deadlines.set("soon", 0.05, lambda: over.put("soon"))
        assert over.get(timeout=within(5.0)) == "soon"
    finally:
        deadlines.close()
