"""Logs of the commands and of the trainers: Python's logging, with time, level and rank, on standard error.

What a run does is said at INFO, a peer that is lost and found again at WARNING. A trainer's standard error is its ``rank-N.log``.
"""

import logging
import os
import sys
import warnings
from collections.abc import Mapping
from typing import TextIO

from halohop.launch.terminal.console import Console, message

LEVEL = "HALOHOP_LOG_LEVEL"
"""Environment variable with the level of a trainer's log."""

_LOGGER = "halohop"


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at the moment."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return message(super().format(record))


def configure(level: int, env: Mapping[str, str] | None = None) -> None:
    """Shows what halohop logs at `level` and above; called again, it changes the level.

    Args:
        level: of the module `logging`.
        env: where RANK is looked up; None takes this process's environment.
    """
    # PyG 2.8 and older with torch 2.14: said at each import, and nothing that a user of a command could change.
    warnings.filterwarnings("ignore", message=r"`torch\.jit\.script` is deprecated", category=FutureWarning)
    rank = (os.environ if env is None else env).get("RANK")
    place = f"rank {rank} " if rank is not None else ""
    handler = _Stderr()
    handler.setFormatter(_Formatter(f"%(asctime)s %(levelname)s {place}%(name)s: %(message)s"))
    logger = logging.getLogger(_LOGGER)
    logger.handlers[:] = [handler]
    logger.setLevel(level)


def level_of(*, verbose: int, quiet: bool) -> int:
    """The level that options ask for.

    Example:
        >>> level_of(verbose=0, quiet=False) == logging.WARNING, level_of(verbose=2, quiet=False) == logging.DEBUG
        (True, True)
    """
    if quiet:
        return logging.ERROR
    return (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]


def level_of_trainers() -> int:
    """What trainers log to their files: INFO, or more where this process shows more."""
    return min(logging.INFO, logging.getLogger(_LOGGER).getEffectiveLevel())


def is_verbose() -> bool:
    """Whether people want to see what is done (``-v``)."""
    return logging.getLogger(_LOGGER).getEffectiveLevel() <= logging.INFO


def people(*, soft_wrap: bool = False) -> Console:
    """Where a command shows people how it goes: standard error, or nowhere if they asked for quiet."""
    quiet = logging.getLogger(_LOGGER).getEffectiveLevel() >= logging.ERROR
    return Console(stderr=True, quiet=quiet, soft_wrap=soft_wrap)
