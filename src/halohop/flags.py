"""Options that are True or False: what a user gives for one is a bool, or refused by the option's name."""

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from halohop.errors import InputError

Target = TypeVar("Target", bound=Callable[..., Any])

FLAGS = (bool, bool | None)


def flag(value: Any, name: str, kind: Any = bool) -> Any:
    """Returns the value of a bool option as a bool, or None if `kind` allows it. Options of other kinds keep their value.

    Raises:
        InputError: the value is not a bool of Python, NumPy or torch, nor 0 or 1. A string such as "False" would count as true.

    Example:
        >>> flag(1, "replace"), flag(None, "shuffle", bool | None)
        (True, None)
    """
    if kind not in FLAGS or isinstance(value, bool) or (value is None and kind is not bool):
        return value
    with suppress(AttributeError, ValueError, RuntimeError):
        value = value.item()
    if not isinstance(value, int) or value not in (0, 1):
        raise InputError(f"{name}={value!r} is neither True nor False; give one of them")
    return bool(value)


def checks_flags(target: Target) -> Target:
    """Passes the parameters of a function or a dataclass that are annotated with `bool` through `flag`."""
    if isinstance(target, type):
        target.__init__ = checks_flags(target.__init__)  # type: ignore[misc]
        return target
    parameters = inspect.signature(target).parameters.values()
    kinds = {one.name: one.annotation for one in parameters}
    places = [(one.name, one.annotation) for one in parameters if one.kind is not one.KEYWORD_ONLY]

    @functools.wraps(target)
    def checked(*args: Any, **kwargs: Any) -> Any:
        own = [flag(value, *places[place]) if place < len(places) else value for place, value in enumerate(args)]
        return target(*own, **{name: flag(value, name, kinds.get(name)) for name, value in kwargs.items()})

    return checked  # type: ignore[return-value]
