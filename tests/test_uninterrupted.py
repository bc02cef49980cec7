"""Signals wait until a block is done."""

import signal
import threading

import pytest

from halohop.uninterrupted import uninterrupted


def test_handlers_run_after_the_block_and_are_there_again() -> None:
    answered: list[str] = []

    def handler(number: int, frame: object) -> None:
        answered.append("answered")

    before = signal.signal(signal.SIGTERM, handler)
    default = signal.getsignal(signal.SIGHUP)
    try:
        with uninterrupted(), uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            answered.append("done")
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.getsignal(signal.SIGHUP) is default
    assert answered == ["done", "answered"]


def fail_interrupted() -> None:
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("of the block")


def test_an_error_of_the_block_does_not_hide_the_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        fail_interrupted()
    assert isinstance(caught.value.__context__, ValueError)


def test_threads_leave_signals_to_the_main_thread() -> None:
    seen = []

    def run() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    assert seen == [signal.getsignal(signal.SIGINT)]
