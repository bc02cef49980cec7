"""What the multi-GPU tutorial imports from a file of its own."""

from collections.abc import Callable
from typing import Any


def thread_wrapped_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """The tutorial's way around a hang of GNU OpenMP after a fork; halohop's batches are made by threads of the child itself."""
    return func


def prepare_mp(g: Any) -> None:
    """Makes the formats of a graph before processes are forked: here its lists of in-edges, which the children then share."""
    g.hop()
