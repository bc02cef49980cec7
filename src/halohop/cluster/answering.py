"""Answers of this very process, in the form of those that come from another one."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


def answered(answer: Callable[[], object]) -> "Future[Any]":
    """A future that is done, with what a function returns or raises; or the future that it returns."""
    future: Future[Any] = Future()
    try:
        reply = answer()
        if isinstance(reply, Future):
            return reply
        future.set_result(reply)
    except Exception as error:
        future.set_exception(error)
    return future
